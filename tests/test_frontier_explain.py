"""Neighbours on the frontier, by hand; and which columns are knobs."""

import numpy as np
import pandas as pd
import pytest

from sweeps.explain import neighbours
from sweeps.knobs import CONDITIONS, KNOBS, chosen_knobs, varying_conditions, varying_knobs
from sweeps.rows import row_schema
from vecsched.errors import InputError

X, Y = "goodput_requests_per_s", "slowdown_p99"
# Goodput 0 to 10 and slowdown 1 to 101 are the scale; seen from b, at (0.6, 0.1):
#   a  (0, 0)      0.6 and 0.1 away: sqrt(0.37)
#   c  (0.9, 0.5)  0.3 and 0.4 away: 0.5, the nearest
#   d  (1, 1)      0.4 and 0.9 away: sqrt(0.97)
FRONT = pd.DataFrame(
    {
        "load": 1.0,
        "policy": ["fcfs", "fcfs", "random", "random"],
        "kv_blocks": [None, None, 100.0, None],
        "max_batch_size": [8, 16, 16, 32],
        X: [0.0, 6.0, 9.0, 10.0],
        Y: [1.0, 11.0, 51.0, 101.0],
    },
    index=list("abcd"),
)


def test_neighbours():
    found = neighbours(FRONT, "b")
    assert found.index.tolist() == ["c", "a", "d"]
    assert found["distance"].tolist() == pytest.approx([0.5, 0.37**0.5, 0.97**0.5])
    assert found["changes"].tolist() == [
        {"policy": ("fcfs", "random"), "kv_blocks": (None, 100.0)},
        {"max_batch_size": (16, 8)},
        {"policy": ("fcfs", "random"), "max_batch_size": (16, 32)},
    ]
    assert found[X].tolist() == [9.0, 0.0, 10.0]
    assert found[f"{X}_gain"].tolist() == [3.0, -6.0, 4.0]
    assert found[f"{Y}_gain"].tolist() == [-40.0, 10.0, -90.0]  # less is better


def test_how_many_and_which_knobs():
    found = neighbours(FRONT, "b", knobs=["max_batch_size"], count=1)
    assert found["changes"].tolist() == [{}]
    assert neighbours(FRONT.loc[["b"]], "b").empty
    across = neighbours(FRONT.assign(load=[1.0, 1.0, 2.0, 1.0]), "b", count=1)
    assert across["changes"].tolist()[0]["load"] == (1.0, 2.0)


def test_a_point_behind_the_frontier():
    frame = pd.concat([FRONT, FRONT.loc[["c"]].assign(**{X: 8.0}).rename({"c": "e"})])
    nearest = neighbours(frame, "e").iloc[0]
    assert (nearest.name, nearest[f"{X}_gain"], nearest[f"{Y}_gain"]) == ("c", 1.0, 0.0)
    assert nearest["changes"] == {}


def test_infinities_are_far_from_all_but_each_other():
    frame = FRONT.assign(**{Y: [1.0, 2.0, np.inf, np.inf]})
    assert neighbours(frame, "a")["distance"].tolist()[1:] == [np.inf, np.inf]
    assert neighbours(frame, "c")["distance"].tolist() == pytest.approx([0.1, np.inf, np.inf])
    assert neighbours(frame, "c")[f"{Y}_gain"].tolist() == [0.0, np.inf, np.inf]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"index": "z"}, "'index': 'z': must label one row of the frontier, not 0"),
        ({"index": "b", "count": 0}, "'count': 0: must be 1 or more"),
        ({"index": "b", "knobs": ["polcy"]}, "did you mean 'policy'"),
        ({"index": "b", "minimise": ["slowdown_p9"]}, "did you mean 'slowdown_p99'"),
    ],
)
def test_bad_questions(arguments, message):
    with pytest.raises(InputError, match=message):
        neighbours(FRONT, **arguments)
    with pytest.raises(InputError, match="not 2"):
        neighbours(FRONT.rename({"a": "b"}), "b")


def test_knobs_are_what_identifies_a_point_but_the_traffic():
    frame = FRONT.assign(seed=[0, 0, 1, 1], block_size=16, variant=["x", None, None, None])
    assert varying_knobs(frame) == ["variant", "policy", "max_batch_size", "kv_blocks"]
    assert varying_conditions(frame) == ["seed"]
    assert chosen_knobs(frame, None) == varying_knobs(frame)
    assert chosen_knobs(frame, ["block_size"]) == ["block_size"]


def test_every_column_that_identifies_a_point_is_a_knob_or_a_condition():
    names = set(row_schema({}).names)
    told = {"point", "key", "status", "error", "engine_version"}
    assert names - told == {*KNOBS, *CONDITIONS}
