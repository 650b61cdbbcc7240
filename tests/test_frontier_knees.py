"""Knees against hand-worked frontiers, and what no knee may depend on."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.frontier import pareto_front
from sweeps.knees import knee_points
from vecsched.errors import InputError

# Goodput 0 to 10, slowdown 1 to 21. The line between the ends a and d, at (0, 0) and (1, 1) of the
# scaled objectives (gain, loss), is gain = loss; a point is gain - loss above it, times sqrt(1/2).
#
#        goodput  slowdown    gain  loss   gain - loss
#   a       0        1        0     0       0
#   b       6        3        0.6   0.1     0.5
#   c       9        9        0.9   0.4     0.5
#   d      10       21        1     1       0
#   e       8        6        0.8   0.25    0.55       the knee
EXAMPLE = pd.DataFrame(
    {
        "goodput_requests_per_s": [0.0, 6.0, 9.0, 10.0, 8.0],
        "slowdown_p99": [1.0, 3.0, 9.0, 21.0, 6.0],
    },
    index=list("abcde"),
)


def test_the_knee_is_farthest_from_the_line():
    front = pareto_front(EXAMPLE)
    assert front.index.tolist() == ["d", "c", "e", "b", "a"]
    knee = knee_points(front)
    assert knee.index.tolist() == ["e"]
    assert knee.columns.tolist() == front.columns.tolist()


def test_equally_far_points_are_all_knees():
    front = pareto_front(EXAMPLE.drop("e"))
    assert knee_points(front).index.tolist() == ["c", "b"]  # in the frontier's order


def test_each_group_has_its_own_scale_and_knee():
    other = EXAMPLE.drop("e").assign(load=2.0).set_index(pd.Index(list("vwxy")))
    other.loc["x", "goodput_requests_per_s"] = 8.0  # gain 0.8 - loss 0.4: now w = b is better
    front = pareto_front(pd.concat([EXAMPLE.assign(load=1.0), other]), by="load")
    assert knee_points(front, by="load").index.tolist() == ["e", "w"]
    assert knee_points(front, by=["load"]).index.tolist() == ["e", "w"]


def test_three_objectives():
    # Scaled losses; the plane through (1, 1, 0), (1, 0, 1), (0, 1, 1) is where they sum to 2.
    #   p, q, r best in one, worst in the others: sum 2, on the plane
    #   s  0.2 + 0.5 + 0.4 = 1.1, the farthest below
    #   t  0.4 + 0.6 + 0.2 = 1.2
    losses = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0.2, 0.5, 0.4], [0.4, 0.6, 0.2]]
    frame = pd.DataFrame(losses, list("pqrst"), ["x", "y", "z"])
    assert knee_points(frame, [], ["x", "y", "z"]).index.tolist() == ["s"]
    # An objective that does not differ takes no part: the line of x and y is where they sum to 1.
    flat = frame.loc[["p", "q", "s"]].assign(z=7.0)  # s: 0.7
    assert knee_points(flat, [], ["x", "y", "z"]).index.tolist() == ["s"]
    assert knee_points(flat[:2], [], ["x", "y", "z"]).empty


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(1, 1)],
        [(1, 1), (2, 2)],
        [(0, 0), (1, 1), (2, 2), (3, 3)],  # straight
        [(0, 0), (1, 9), (10, 10)],  # bulges to the worse side: gain 0.1, loss 0.9
        [(1, 1), (1, 1)],  # twins, as no frontier lists them
    ],
)
def test_no_knee(points):
    frame = pd.DataFrame(points, columns=["x", "y"], dtype=np.float64)
    assert knee_points(frame, ["x"], ["y"]).empty


def test_infinite_and_failed_rows_are_neither_knees_nor_ends():
    extra = pd.DataFrame(
        {"goodput_requests_per_s": [11.0, np.inf, 9.9], "slowdown_p99": [np.inf, 22.0, 1.1]},
        index=list("xyz"),
    )
    front = pd.concat([EXAMPLE, extra]).assign(status=["ok"] * 7 + ["error"])
    assert knee_points(front).index.tolist() == ["e"]


def test_bad_columns():
    with pytest.raises(InputError, match="did you mean 'slowdown_p99'"):
        knee_points(EXAMPLE, minimise=["slowdown_p9"])
    with pytest.raises(InputError, match="'load': no such column"):
        knee_points(EXAMPLE, by="load")


COORDINATES = st.tuples(st.integers(0, 20), st.integers(0, 20))


@given(st.lists(COORDINATES, min_size=1, max_size=20), st.sampled_from([1, 4]), st.integers(-5, 5))
@settings(deadline=None)
def test_a_knee_does_not_depend_on_units_and_is_no_end(points, factor, shift):
    frame = pd.DataFrame(points, columns=["x", "y"], dtype=np.float64)
    front = pareto_front(frame, ["x"], ["y"])
    knees = knee_points(front, ["x"], ["y"])
    ends = [front[name].agg(end) for name in "xy" for end in ("min", "max")]
    for _, knee in knees.iterrows():
        assert ends[0] < knee["x"] < ends[1]
        assert ends[2] < knee["y"] < ends[3]
        # Above the line between the ends: more of x than the line gives at that y.
        share = (knee["y"] - ends[2]) / (ends[3] - ends[2])
        assert knee["x"] > ends[0] + share * (ends[1] - ends[0])
    scaled = front.assign(y=front["y"] * factor + shift, x=-front["x"])
    assert knee_points(scaled, [], ["x", "y"]).index.tolist() == knees.index.tolist()
