"""Cliffs by hand, and the one that a real sweep has."""

import numpy as np
import pandas as pd
import pytest

from sweeps.cliffs import cliffs, named_cliffs
from vecsched import CostModel, SchedulerConfig, Trace, simulate
from vecsched.errors import InputError

Y = "output_tokens_per_s"
# With a budget of 512, 1,600 tokens/s fall to 100 where the chunk is as large; with one of 1,024
# there is no such step. From 128 to 256 nothing happens.
SWEEP = pd.DataFrame(
    [
        (512, 128, 1500.0),
        (512, 256, 1600.0),
        (512, 512, 100.0),
        (1024, 128, 1500.0),
        (1024, 256, 1550.0),
        (1024, 512, 1400.0),
    ],
    columns=["max_num_batched_tokens", "prefill_chunk_size", Y],
)
CHUNK = ("prefill_chunk_size", 256, 512, 1600.0, 100.0, 1 / 16)
BUDGET = ("max_num_batched_tokens", 512, 1024, 100.0, 1400.0, 14.0)
COLUMNS = ["knob", "from", "to", "before", "after", "ratio"]


def steps(frame, **options):
    found = cliffs(frame, Y, **options)
    assert found.columns.tolist()[:6] == COLUMNS
    return [*found[COLUMNS].itertuples(index=False, name=None)]


def test_the_worst_first():
    assert steps(SWEEP) == [CHUNK, BUDGET]
    found = cliffs(SWEEP, Y)
    assert found["max_num_batched_tokens"].tolist() == [512, None]
    assert found["prefill_chunk_size"].tolist() == [None, 512]


def test_factor_and_knobs():
    assert steps(SWEEP, factor=14.0) == [CHUNK, BUDGET]  # 14 itself is listed
    assert steps(SWEEP, factor=14.1) == [CHUNK]
    assert steps(SWEEP, factor=16.1) == []
    assert steps(SWEEP, knobs=["max_num_batched_tokens"]) == [BUDGET]
    assert steps(SWEEP, knobs=[]) == []


def test_a_level_that_is_missing_is_stepped_over():
    # Without (512, 256): from 128 to 512, all else equal.
    assert steps(SWEEP.drop(index=1)) == [
        ("prefill_chunk_size", 128, 512, 1500.0, 100.0, 1 / 15),
        BUDGET,
    ]
    failed = SWEEP.assign(status=["ok", "error", "ok", "ok", "ok", "ok"])
    assert steps(failed) == steps(SWEEP.drop(index=1))


def test_all_else_is_equal():
    # A second load at which all is ten times less: no step from one load to the other.
    slow = SWEEP.assign(load=2.0, **{Y: SWEEP[Y] / 10})
    found = cliffs(pd.concat([SWEEP.assign(load=1.0), slow]), Y)
    assert found["load"].tolist() == [1.0, 2.0, 1.0, 2.0]
    assert found["ratio"].tolist() == pytest.approx([1 / 16, 1 / 16, 14, 14])


def test_seeds_are_averaged_first():
    # 100 and 300 make 200; 1600 / 200 = 8 and 1400 / 200 = 7.
    other = SWEEP.assign(seed=1)
    other.loc[2, Y] = 300.0
    assert [step[5] for step in steps(pd.concat([SWEEP.assign(seed=0), other]))] == [1 / 8, 7.0]


def test_names_and_null_have_no_order():
    frame = pd.DataFrame(
        {
            "policy": ["fcfs", "random", "fcfs", "fcfs"],
            "kv_blocks": [100.0, 100.0, 200.0, np.nan],
            "enable_chunked_prefill": [True, True, True, True],
            Y: [1.0, 9.0, 3.0, 90.0],
        }
    )
    assert steps(frame) == [("kv_blocks", 100.0, 200.0, 1.0, 3.0, 3.0)]
    both = pd.concat([frame[:1], frame[:1].assign(enable_chunked_prefill=False, **{Y: 5.0})])
    assert steps(both) == [("enable_chunked_prefill", False, True, 5.0, 1.0, 0.2)]


def test_from_nothing_to_something_is_beyond_any_factor():
    frame = pd.DataFrame({"max_batch_size": [1, 2, 3, 4, 5], Y: [0.0, 0.0, 5.0, 0.0, 9.0]})
    assert [(step[1], step[2], step[5]) for step in steps(frame)] == [
        (4, 5, np.inf),
        (2, 3, np.inf),
        (3, 4, 0.0),
    ]


def test_an_objective_is_no_knob():
    frame = SWEEP.rename(columns={Y: "max_batch_size"})
    found = cliffs(frame, "max_batch_size")
    assert found["ratio"].tolist() == [1 / 16, 14.0]
    assert "max_batch_size" not in found


def test_nothing_to_find():
    assert steps(SWEEP.assign(status="error")) == []
    assert steps(SWEEP[[Y]]) == []
    assert named_cliffs(cliffs(SWEEP[[Y]], Y)).empty


def test_named_cliffs():
    # At two loads: each cliff has two steps, and a place that both have in common.
    twice = pd.concat([SWEEP.assign(load=load) for load in (1.0, 2.0)])
    found = named_cliffs(cliffs(twice, Y))
    assert found.columns.tolist() == [*COLUMNS[:3], "steps", *COLUMNS[3:], "where"]
    assert found["knob"].tolist() == ["prefill_chunk_size", "max_num_batched_tokens"]
    assert found["steps"].tolist() == [2, 2]
    assert found["ratio"].tolist() == [1 / 16, 14.0]
    assert found["where"].tolist() == [
        {"max_num_batched_tokens": 512},
        {"prefill_chunk_size": 512},
    ]
    assert named_cliffs(cliffs(SWEEP, Y))["where"].tolist() == [{}, {}]  # of one step, who knows


def test_up_and_down_are_two_cliffs():
    frame = pd.concat([SWEEP.assign(load=1.0), SWEEP.assign(load=2.0, **{Y: 1e4 / SWEEP[Y]})])
    found = named_cliffs(cliffs(frame, Y, ["prefill_chunk_size"]))
    assert found["ratio"].tolist() == pytest.approx([1 / 16, 16.0])


def test_the_chunk_as_large_as_the_budget():
    # `strict` takes whole chunks only: one of 512 of a budget of 512 fits beside no decode.
    trace = Trace([0.01 * i for i in range(60)], [600] * 60, [40] * 60)
    cost = CostModel.affine(0.01, 1e-5, 1e-4, 0.0)
    rows = []
    for budget in (512, 1024):
        for chunk in (128, 256, 512):
            config = SchedulerConfig(
                max_batch_size=32, max_num_batched_tokens=budget, prefill_chunk_size=chunk
            )
            rows.append({**config.to_dict(), **simulate(trace, config, cost).summary})
    found = steps(pd.DataFrame(rows))
    assert [step[:3] for step in found] == [BUDGET[:3], CHUNK[:3]]
    assert found[1][5] < 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "output_token_per_s"}, "did you mean 'output_tokens_per_s'"),
        ({"objective": Y, "knobs": ["chunk"]}, "'chunk': no such column"),
        ({"objective": Y, "factor": 1.0}, "'factor': 1.0: must be above 1"),
        ({"objective": "balance"}, "'balance': -1.0: must be 0 or more"),
    ],
)
def test_bad_questions(options, message):
    with pytest.raises(InputError, match=message):
        cliffs(SWEEP.assign(balance=-1.0), **options)
