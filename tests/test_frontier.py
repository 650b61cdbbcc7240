"""The frontier against a hand-worked example and a brute-force oracle."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.frontier import (
    POOR_SLO,
    UNKNOWN_SLO,
    dominated_by,
    left_out,
    pareto_front,
    slo_mark,
)
from vecsched.errors import InputError

# Throughput to maximise, slowdown to minimise:
#
#   slowdown
#     9 |       e      a  8 req/s at slowdown 4
#     4 |         a    b  5 at 2: slower but fairer than a, so both stay
#     3 |   f   c      c  6 at 3: between them
#     2 |     b,d      d  5 at 2: the same point as b
#                      e  6 at 9: beaten by a (8 > 6, 4 < 9) and c (6 = 6, 3 < 9)
#                      f  4 at 3: beaten by b, d (5 > 4, 2 < 3) and c (6 > 4, 3 = 3)
EXAMPLE = pd.DataFrame(
    {
        "goodput_requests_per_s": [8.0, 5.0, 6.0, 5.0, 6.0, 4.0],
        "slowdown_p99": [4.0, 2.0, 3.0, 2.0, 9.0, 3.0],
        "slo_attainment": [0.95, 0.9, 0.89, 1.0, 0.1, np.nan],
    },
    index=list("abcdef"),
)
OBJECTIVES = ["goodput_requests_per_s", "slowdown_p99"]


def test_hand_worked_example():
    front = pareto_front(EXAMPLE)
    assert front.index.tolist() == ["a", "c", "b"]
    assert front["twins"].tolist() == [0, 0, 1]
    assert front["mark"].tolist() == ["", POOR_SLO, ""]  # 0.9 itself is good enough
    assert front.columns.tolist() == [*EXAMPLE.columns, "twins", "mark"]
    assert dominated_by(EXAMPLE).to_dict() == {"a": 0, "b": 0, "c": 0, "d": 0, "e": 2, "f": 3}


def test_direction_of_each_objective():
    best_of_both = pareto_front(EXAMPLE, maximise=OBJECTIVES, minimise=[])
    assert best_of_both.index.tolist() == ["a", "e"]
    assert pareto_front(EXAMPLE, [], ["slowdown_p99"]).index.tolist() == ["b"]
    assert pareto_front(EXAMPLE, [], ["slowdown_p99"])["twins"].tolist() == [1]
    assert pareto_front(EXAMPLE, ["slowdown_p99"], []).index.tolist() == ["e"]


def test_groups_have_a_frontier_each_in_their_order():
    frame = EXAMPLE.assign(load=[1.5, 1.5, 0.5, 0.5, 0.5, 1.5])
    # load 0.5: c, d (6 at 3, 5 at 2), e is beaten by c; load 1.5: a, b, f is beaten by b alone.
    front = pareto_front(frame, by="load")
    assert front.index.tolist() == ["c", "d", "a", "b"]
    assert front["twins"].tolist() == [0, 0, 0, 0]  # b and d are the same point at different loads
    assert dominated_by(frame, by="load").to_dict() == dict(a=0, b=0, c=0, d=0, e=1, f=1)
    policy = frame.assign(policy=["x", "x", None, "x", None, "x"])
    assert pareto_front(policy, by=["load", "policy"]).index.tolist() == ["d", "c", "a", "b"]


def test_rows_that_failed_or_are_undefined_take_no_part_and_are_counted():
    frame = EXAMPLE.assign(status=["failed", "ok", "ok", "failed", "ok", "cancelled"])
    frame.loc["b", "slowdown_p99"] = np.nan
    frame.loc["a", "slowdown_p99"] = np.nan  # counted once, as failed
    assert pareto_front(frame).index.tolist() == ["c"]
    assert left_out(frame, OBJECTIVES) == {"failed": 2, "cancelled": 1, "undefined": 1}
    assert left_out(EXAMPLE, OBJECTIVES) == {}
    counts = dominated_by(frame)
    assert counts[["c", "e"]].tolist() == [0, 1]
    assert counts[["a", "b", "d", "f"]].isna().all()


def test_nothing_left_gives_an_empty_frontier():
    nothing = EXAMPLE.assign(status="failed", load=1.0)
    front = pareto_front(nothing, by="load")
    assert front.empty
    assert {"twins", "mark"} <= set(front.columns)
    assert dominated_by(nothing).isna().all()
    assert pareto_front(nothing.iloc[:0]).empty


def test_the_frame_is_not_changed():
    frame = EXAMPLE.copy()
    pareto_front(frame)
    dominated_by(frame)
    pd.testing.assert_frame_equal(frame, EXAMPLE)


def test_marks():
    assert slo_mark(EXAMPLE).tolist() == ["", "", POOR_SLO, "", POOR_SLO, UNKNOWN_SLO]
    assert slo_mark(EXAMPLE, least=0.05).tolist() == [""] * 5 + [UNKNOWN_SLO]
    assert set(slo_mark(EXAMPLE[OBJECTIVES])) == {UNKNOWN_SLO}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"maximise": ["goodput_request_per_s"]}, "did you mean 'goodput_requests_per_s'"),
        ({"by": "laod"}, "'laod': no such column; did you mean 'load'"),
        ({"maximise": [], "minimise": []}, "at least one objective"),
        ({"maximise": ["slowdown_p99"]}, "named twice"),
        ({"minimise": ["policy"]}, "'policy': an objective must be a column of numbers"),
    ],
)
def test_bad_columns(arguments, message):
    frame = EXAMPLE.assign(load=1.0, policy="fcfs")
    with pytest.raises(InputError, match=message):
        pareto_front(frame, **arguments)


# Few distinct values, so that ties and duplicates are the rule; infinities are allowed.
VALUES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan])
NUMBER_OF_OBJECTIVES = st.integers(1, 4)


@st.composite
def clouds(draw):
    columns = [f"objective{i}" for i in range(draw(NUMBER_OF_OBJECTIVES))]
    rows = draw(st.lists(st.tuples(*[VALUES] * len(columns)), max_size=25))
    frame = pd.DataFrame(rows, columns=columns, dtype=np.float64)
    frame["group"] = draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    return frame, columns[: draw(st.integers(0, len(columns)))], columns


def brute_force(frame, maximise, objectives):
    """Return each usable row's dominators and equals by comparing every pair of its group."""
    gains = {
        i: [row[c] if c in maximise else -row[c] for c in objectives] for i, row in rows(frame)
    }
    gains = {i: values for i, values in gains.items() if not any(np.isnan(values))}
    beaten_by, same_as = {}, {}
    for i, mine in gains.items():
        rivals = [j for j in gains if frame["group"][j] == frame["group"][i]]
        as_good = [j for j in rivals if all(a >= b for a, b in zip(gains[j], mine, strict=True))]
        same_as[i] = [j for j in as_good if gains[j] == mine]
        beaten_by[i] = [j for j in as_good if j not in same_as[i]]
    return beaten_by, same_as


def rows(frame):
    return frame.to_dict("index").items()


@given(clouds())
@settings(deadline=None)
def test_equals_brute_force(cloud):
    frame, maximise, objectives = cloud
    minimise = [name for name in objectives if name not in maximise]
    beaten_by, same_as = brute_force(frame, maximise, objectives)

    counts = dominated_by(frame, maximise, minimise, by="group")
    assert counts.dropna().to_dict() == {i: len(rivals) for i, rivals in beaten_by.items()}

    front = pareto_front(frame, maximise, minimise, by="group")
    first_of_each = {i for i, rivals in beaten_by.items() if not rivals and same_as[i][0] == i}
    assert set(front.index) == first_of_each
    assert front["twins"].to_dict() == {i: len(same_as[i]) - 1 for i in front.index}
    for _, group in front.groupby("group"):
        assert (
            group[objectives[0]].is_monotonic_decreasing
            if maximise
            else group[objectives[0]].is_monotonic_increasing
        )
    assert front["group"].is_monotonic_increasing


def test_two_objectives_agree_with_the_general_path():
    # A third objective that never differs sends the same points through the path for many.
    points = np.random.default_rng(0).integers(0, 40, (500, 2))
    frame = pd.DataFrame(points, columns=["x", "y"]).assign(z=0)
    two = pareto_front(frame, ["x"], ["y"])
    assert two.index.tolist() == pareto_front(frame, ["x"], ["y", "z"]).index.tolist()
    assert dominated_by(frame, ["x"], ["y"]).equals(dominated_by(frame, ["x"], ["y", "z"]))


def test_a_hundred_thousand_points_take_no_quadratic_time():
    # All of them on the frontier: comparing every pair would take minutes.
    x = np.arange(100_000)
    frame = pd.DataFrame({"x": x, "y": x})
    assert len(pareto_front(frame, ["x"], ["y"])) == len(x)
    assert (dominated_by(frame, ["x"], ["y"]) == 0).all()
