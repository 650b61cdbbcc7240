"""Hypervolumes by hand, by counting cells, and what they must obey."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.hypervolume import hypervolume
from vecsched.errors import InputError

# Goodput to maximise, slowdown to minimise, from goodput 1 and slowdown 10:
#
#        goodput  slowdown   beyond the reference
#   a       8        4            7 x 6
#   b       5        2            4 x 8
#   c       4        9            3 x 1, within a's box
#   d       3       11            slower than the reference: nothing
#
# a covers 42; b adds 4 x (8 - 6) = 8.
EXAMPLE = pd.DataFrame(
    {"goodput_requests_per_s": [8.0, 5.0, 4.0, 3.0], "slowdown_p99": [4.0, 2.0, 9.0, 11.0]}
)
REFERENCE = {"goodput_requests_per_s": 1.0, "slowdown_p99": 10.0}


def test_two_objectives():
    volume = hypervolume(EXAMPLE, reference=REFERENCE)
    assert volume.to_dict() == {"": 50.0}
    assert volume.name == "hypervolume"


def test_the_worst_values_are_the_default_reference():
    # Goodput 3, slowdown 11: a 5 x 7 = 35; b adds 2 x (9 - 7) = 4; c 1 x 2 is within.
    assert hypervolume(EXAMPLE)[""] == 39.0


def test_groups_share_the_reference():
    frame = EXAMPLE.assign(load=[2.0, 1.0, 1.0, 1.0], status=["ok"] * 4)
    frame.loc[4] = [9.0, 9.0, 3.0, "error"]
    # Load 1 from goodput 3, slowdown 11: b 2 x 9 = 18, c 1 x 2 within. Load 2: a 35. Load 3: none.
    volumes = hypervolume(frame, by="load")
    assert volumes.to_dict() == {1.0: 18.0, 2.0: 35.0, 3.0: 0.0}
    assert volumes.index.name == "load"
    policies = frame.assign(policy=["x", "x", None, "x", "x"])
    volumes = hypervolume(policies, by=["load", "policy"])
    assert volumes.index.names == ["load", "policy"]
    assert volumes.tolist() == [18.0, 2.0, 35.0, 0.0]  # load 1: x, null; load 2; load 3


def test_three_objectives():
    # Boxes from the reference (0, 0, 0), all to maximise:
    #   p 4 x 2 x 1 = 8, q 2 x 3 x 2 = 12; they share min by min 2 x 2 x 1 = 4: 8 + 12 - 4 = 16
    #   r 1 x 1 x 5 = 5 shares 1 x 1 x 2 with q, and with p no more than that: 16 + 5 - 2 = 19
    frame = pd.DataFrame([[4, 2, 1], [2, 3, 2], [1, 1, 5]], columns=["x", "y", "z"])
    reference = {"z": 0, "y": 0, "x": 0}
    assert hypervolume(frame, ["x", "y", "z"], [], reference=reference)[""] == 19.0
    # The same space, mirrored.
    mirrored = frame.assign(y=-frame["y"])
    assert hypervolume(mirrored, ["x", "z"], ["y"], reference=reference)[""] == 19.0


def test_one_objective_is_a_length():
    assert hypervolume(EXAMPLE, [], ["slowdown_p99"])[""] == 9.0  # 11 - 2


def test_nothing_covers_nothing():
    assert hypervolume(EXAMPLE[:0]).to_dict() == {"": 0.0}
    assert hypervolume(EXAMPLE[:0].assign(load=1.0), by="load").empty
    assert hypervolume(EXAMPLE[:1]).to_dict() == {"": 0.0}  # the only point is the worst
    assert hypervolume(EXAMPLE.assign(status="error"), reference=REFERENCE)[""] == 0.0


def test_infinities():
    frame = EXAMPLE.copy()
    frame.loc[4] = [9.0, np.inf]  # no reference is as bad: it counts nothing, and is not one
    assert hypervolume(frame)[""] == 39.0
    frame.loc[5] = [np.inf, 1.0]
    assert hypervolume(frame)[""] == math.inf


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"goodput_requests_per_s": 1.0}, "'slowdown_p99': the reference must have a value"),
        (REFERENCE | {"slowdown": 1.0}, "no objective; did you mean 'slowdown_p99'"),
        (REFERENCE | {"slowdown_p99": math.nan}, "'slowdown_p99': nan: must be finite"),
    ],
)
def test_bad_references(reference, message):
    with pytest.raises(InputError, match=message):
        hypervolume(EXAMPLE, reference=reference)


def test_bad_columns():
    with pytest.raises(InputError, match="did you mean 'slowdown_p99'"):
        hypervolume(EXAMPLE, minimise=["slowdown_p9"])


SIDE = 4
CLOUDS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.tuples(*[st.integers(0, SIDE)] * width), min_size=1, max_size=12)
)


def volume_of(points):
    names = [f"objective{i}" for i in range(len(points[0]))]
    frame = pd.DataFrame(points, columns=names)
    return hypervolume(frame, names, [], reference=dict.fromkeys(names, 0))[""]


@given(CLOUDS)
@settings(deadline=None)
def test_equals_the_number_of_cells_covered(points):
    # A unit cell, named by its upper corner, is covered if a point is no lower in any direction.
    corners = itertools.product(range(1, SIDE + 1), repeat=len(points[0]))
    covered = sum(
        any(all(c <= p for c, p in zip(corner, point, strict=True)) for point in points)
        for corner in corners
    )
    assert volume_of(points) == covered


@given(CLOUDS)
@settings(deadline=None)
def test_more_points_never_cover_less_and_order_is_nothing(points):
    volume = volume_of(points)
    assert volume_of(points[::-1]) == volume
    assert volume_of(points[: 1 + len(points) // 2]) <= volume
    better = [tuple(value + 1 for value in points[0]), *points[1:]]
    assert volume_of(better) >= volume


def test_a_hundred_thousand_points_take_no_quadratic_time():
    # All on the frontier x + y = n, from (0, 0): n - 1 columns of width 1, n - 1 down to 1 high.
    n = 100_000
    x = np.arange(1, n)
    frame = pd.DataFrame({"x": x, "y": n - x})
    assert hypervolume(frame, ["x", "y"], [], reference={"x": 0, "y": 0})[""] == n * (n - 1) // 2
