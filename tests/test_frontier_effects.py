"""Main effects against tables worked by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.effects import INTERACTIONS, level_means, main_effects
from vecsched.errors import InputError

# A full grid of two knobs with two levels. The objective orders the points 1, 2, 3, 4:
#
#              size 8   size 16
#   fcfs         1        20         ranks: (1 - 0.5) / 4 = 0.125   0.375
#   random      300      4000               0.625                   0.875
#
# From their mean, 0.5: -0.375 -0.125 0.125 0.375; squares 9 + 1 + 1 + 9 = 20 /64.
#   policy: means -0.25 and 0.25, two points each: 4 x 0.0625 = 16 /64, a share of 0.8
#   size:   means -0.125 and 0.125:                4 x 1/64   =  4 /64, a share of 0.2
# and nothing is left: their effects add up.
GRID = pd.DataFrame(
    {
        "policy": ["fcfs", "fcfs", "random", "random"],
        "max_batch_size": [8, 16, 8, 16],
        "block_size": 16,
        "ttft_p99_s": [1.0, 20.0, 300.0, 4000.0],
    }
)


def shares(frame, objective="ttft_p99_s", knobs=None):
    found = main_effects(frame, [objective], knobs)
    return dict(zip(found["knob"], found["share"], strict=True))


def test_a_full_grid():
    found = main_effects(GRID, ["ttft_p99_s"])
    assert found.columns.tolist() == [
        "objective",
        "knob",
        "levels",
        "share",
        "points",
        "left_out",
    ]
    assert found["knob"].tolist() == ["policy", "max_batch_size", INTERACTIONS]
    assert found["levels"].tolist() == [2, 2, 0]
    assert found["share"].tolist() == pytest.approx([0.8, 0.2, 0.0])
    assert found["points"].tolist() == [4, 4, 4]
    assert set(found["objective"]) == {"ttft_p99_s"}


def test_what_only_a_combination_explains():
    # A checkerboard: each level of each knob has a small and a large value (ranks tie by pairs).
    found = shares(GRID.assign(ttft_p99_s=[1, 2, 2, 1]))
    assert found == pytest.approx({"policy": 0, "max_batch_size": 0, INTERACTIONS: 1})


def test_knobs_that_go_together_each_get_the_whole():
    # A third knob that is the policy by another name: the shares add up to more than 1.
    twice = GRID.assign(variant=["p", "p", "q", "q"])
    assert shares(twice) == pytest.approx(
        {"variant": 0.8, "policy": 0.8, "max_batch_size": 0.2, INTERACTIONS: 0.0}
    )


def test_an_unbalanced_design():
    # Without the last point ranks are 1/6, 3/6, 5/6: -1/3, 0, 1/3 from the mean, squares 2/9.
    #   policy: means -1/6 (two points) and 1/3 (one): 2/36 + 1/9 = 1/6, a share of 3/4
    #   size: means 0 (two) and 0: nothing. But a sum of both fits three points exactly.
    assert shares(GRID[:3]) == pytest.approx(
        {"policy": 0.75, "max_batch_size": 0.0, INTERACTIONS: 0.0}
    )


def test_conditions_explain_nothing():
    # At load 2 all is worse, and in the same order: the ranks at each load are those of the grid.
    # Pooled, the load would explain most.
    both = pd.concat(
        [GRID.assign(load=1.0), GRID.assign(load=2.0, ttft_p99_s=GRID.ttft_p99_s + 1e6)]
    )
    assert shares(both) == pytest.approx({"policy": 0.8, "max_batch_size": 0.2, INTERACTIONS: 0.0})
    # Unless they are asked for. Ranks 1 to 8: mean 4.5, squares 42; load: 8 x 2^2 = 32.
    assert shares(both, knobs=["load"]) == pytest.approx({"load": 32 / 42, INTERACTIONS: 10 / 42})
    # A load at which the order is the reverse: no effect is left.
    turned = pd.concat([GRID.assign(load=1.0), GRID.assign(load=2.0, ttft_p99_s=-GRID.ttft_p99_s)])
    assert shares(turned) == pytest.approx({"policy": 0, "max_batch_size": 0, INTERACTIONS: 1})


def test_only_the_order_counts():
    assert shares(GRID.assign(ttft_p99_s=[1, 2, 3, np.inf])) == shares(GRID)


def test_points_that_take_no_part_are_counted():
    extra = GRID.assign(status="error", ttft_p99_s=[9.0, np.nan, 5.0, np.nan])
    frame = pd.concat(
        [GRID.assign(status="ok"), extra, GRID.assign(status="ok", ttft_p99_s=np.nan)]
    )
    found = main_effects(frame, ["ttft_p99_s"])
    assert found["share"].tolist() == pytest.approx([0.8, 0.2, 0.0])
    assert (found["points"].tolist(), found["left_out"].tolist()) == ([4] * 3, [8] * 3)


def test_null_is_a_level():
    frame = GRID.assign(kv_blocks=[None, None, 100.0, 100.0])
    assert shares(frame)["kv_blocks"] == pytest.approx(0.8)
    levels = level_means(frame, ["ttft_p99_s"], ["kv_blocks"])
    assert levels["level"].tolist() == [100.0, None]


def test_each_objective_has_its_own_effects_and_order():
    frame = GRID.assign(tpot_p99_s=[1.0, 3.0, 2.0, 4.0])  # here the size decides
    found = main_effects(frame, ["ttft_p99_s", "tpot_p99_s"])
    assert found["objective"].tolist() == ["ttft_p99_s"] * 3 + ["tpot_p99_s"] * 3
    assert found["knob"].tolist()[3:] == ["max_batch_size", "policy", INTERACTIONS]


def test_many_numbers_are_cut_into_classes():
    # Sixteen sizes for sixteen points, in an order that has nothing to do with them: by level the
    # size would explain all; by eight classes of two it explains what chance does.
    order = np.random.default_rng(0).permutation(400)
    frame = pd.DataFrame({"max_batch_size": np.arange(400), "ttft_p99_s": order})
    found = main_effects(frame, ["ttft_p99_s"])
    assert found["levels"].tolist() == [8, 0]
    assert found["share"][0] < 0.1
    exact = frame.assign(ttft_p99_s=frame["max_batch_size"])
    assert shares(exact)["max_batch_size"] == pytest.approx(1 - 1 / 64, abs=1e-4)  # of 8 steps
    levels = level_means(frame, ["ttft_p99_s"])["level"].tolist()
    assert (levels[0], levels[-1]) == ("0 to 49", "350 to 399")


def test_nothing_varies():
    same = shares(GRID.assign(ttft_p99_s=1.0))
    assert all(np.isnan(share) for share in same.values())
    assert set(shares(GRID[:0], knobs=["policy"])) == {"policy", INTERACTIONS}
    assert shares(GRID, knobs=[]) == {INTERACTIONS: pytest.approx(1.0)}


def test_an_objective_is_no_knob():
    # Many slots are wanted: they order the points 1, 2, 1, 2 whatever the policy.
    assert shares(GRID, "max_batch_size") == pytest.approx({"policy": 0.0, INTERACTIONS: 1.0})
    assert shares(GRID.assign(load=[1, 1, 2, 2]), "load", ["policy"])["policy"] == 1.0


def test_level_means():
    found = level_means(GRID, ["ttft_p99_s"])
    expected = [
        ("policy", "fcfs", 2, 10.5, 0.25),
        ("policy", "random", 2, 2150.0, 0.75),
        ("max_batch_size", 8, 2, 150.5, 0.375),
        ("max_batch_size", 16, 2, 2010.0, 0.625),
    ]
    assert [*found.drop(columns="objective").itertuples(index=False, name=None)] == expected
    assert found.columns.tolist() == ["objective", "knob", "level", "points", "mean", "rank"]


@pytest.mark.parametrize("function", [main_effects, level_means])
def test_bad_columns(function):
    with pytest.raises(InputError, match="did you mean 'ttft_p99_s'"):
        function(GRID, ["ttft_p9_s"])
    with pytest.raises(InputError, match="'policy': an objective must be a column of numbers"):
        function(GRID, ["policy"])
    with pytest.raises(InputError, match="did you mean 'policy'"):
        function(GRID, ["ttft_p99_s"], ["polcy"])


@given(st.lists(st.integers(0, 5), min_size=12, max_size=12))
@settings(deadline=None)
def test_shares_of_a_full_grid_add_up(values):
    grid = pd.MultiIndex.from_product([["a", "b"], [1, 2, 3], [16, 32]])
    frame = grid.to_frame(index=False, name=["policy", "max_batch_size", "block_size"])
    found = shares(frame.assign(ttft_p99_s=values))
    if len(set(values)) > 1:
        assert all(-1e-9 <= share <= 1 + 1e-9 for share in found.values())
        assert sum(found.values()) == pytest.approx(1.0)
