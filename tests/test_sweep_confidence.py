"""Means over seeds, differences on equal seeds, and how often their intervals are right."""

import math

import numpy as np
import pandas as pd
import pytest

from sweeps.confidence import aggregate, paired_differences, varying
from vecsched.errors import InputError


def points(**columns) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_means_by_configuration():
    frame = points(
        policy=["fcfs", "edf", "fcfs", "edf", "fcfs"],
        kv_blocks=[None, 5.0, None, 5.0, 7.0],
        seed=[0, 0, 1, 1, 0],
        status=["ok", "ok", "ok", "error", "ok"],
        ttft_p99_s=[1.0, 5.0, 3.0, None, 7.0],
    )
    found = aggregate(frame, ["ttft_p99_s"])
    rows = found.astype(object).where(found.notna(), None).to_dict("records")
    assert [(row["policy"], row["kv_blocks"], row["seeds"], row["failed"]) for row in rows] == [
        ("fcfs", None, 2, 0),
        ("edf", 5, 1, 1),
        ("fcfs", 7, 1, 0),
    ]
    assert [row["ttft_p99_s"] for row in rows] == [2, 5, 7]
    # Two seeds give the means 1, 2 and 3, a quarter of the resamples at each end.
    assert (rows[0]["ttft_p99_s_low"], rows[0]["ttft_p99_s_high"]) == (1, 3)
    assert (rows[1]["ttft_p99_s_low"], rows[1]["ttft_p99_s_high"]) == (None, None)
    assert varying(found) == ["policy", "kv_blocks"]


def test_a_configuration_that_only_failed_is_a_row():
    frame = points(policy=["fcfs"], seed=[0], status=["error"], ttft_p99_s=[None]).astype(
        {"ttft_p99_s": float}
    )
    (row,) = aggregate(frame, ["ttft_p99_s"]).to_dict("records")
    assert (row["seeds"], row["failed"]) == (0, 1)
    assert math.isnan(row["ttft_p99_s"])


def test_equal_values_have_an_interval_of_no_width():
    frame = points(policy=["a"] * 3, seed=[0, 1, 2], jain_slowdown=[0.5] * 3)
    (row,) = aggregate(frame, ["jain_slowdown"]).to_dict("records")
    assert row["jain_slowdown_low"] == pytest.approx(0.5)
    assert row["jain_slowdown_high"] == pytest.approx(0.5)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """200 configurations of 40 seeds, normal with mean 3: 95 % intervals miss about 10 of them."""
    rng = np.random.default_rng(1)
    values = rng.normal(3, 1, (200, 40))
    frame = points(
        max_batch_size=np.repeat(np.arange(200), 40),
        seed=np.tile(np.arange(40), 200),
        ttft_p99_s=values.ravel(),
    )
    found = aggregate(frame, ["ttft_p99_s"])
    hits = (found["ttft_p99_s_low"] <= 3) & (found["ttft_p99_s_high"] >= 3)
    assert 180 <= hits.sum() <= 198
    # About +- 1.96 / sqrt(40) = 0.31 wide on each side.
    width = found["ttft_p99_s_high"] - found["ttft_p99_s_low"]
    assert width.mean() == pytest.approx(2 * 0.31, rel=0.05)
    narrower = aggregate(frame, ["ttft_p99_s"], level=0.5)
    assert ((narrower["ttft_p99_s_high"] - narrower["ttft_p99_s_low"]) < width).all()
    pd.testing.assert_frame_equal(found, aggregate(frame, ["ttft_p99_s"]))


def test_differences_are_taken_seed_by_seed():
    """What a seed does to both cancels out: the difference is 1, to the last digit."""
    luck = np.array([0.0, 100.0, 7.0, 55.0])
    frame = points(
        policy=["fcfs"] * 4 + ["edf"] * 4,
        load=[1.0] * 8,
        seed=[0, 1, 2, 3, 3, 2, 1, 0],
        ttft_p99_s=[*luck, *(luck[::-1] + 1)],
    )
    (row,) = paired_differences(frame, ["ttft_p99_s"], {"policy": "fcfs"}).to_dict("records")
    assert (row["policy"], row["load"], row["seeds"]) == ("edf", 1, 4)
    assert [row[f"ttft_p99_s{end}"] for end in ("", "_low", "_high")] == [1, 1, 1]


def test_only_points_that_are_otherwise_the_same_are_paired():
    frame = points(
        policy=["fcfs", "edf", "fcfs", "edf", "edf"],
        load=[1.0, 1.0, 2.0, 2.0, 3.0],
        kv_blocks=[None] * 5,
        seed=[0] * 5,
        ttft_p99_s=[1.0, 2.0, 10.0, 14.0, 99.0],
    )
    found = paired_differences(frame, ["ttft_p99_s"], {"policy": "fcfs"})
    assert found["load"].tolist() == [1, 2, 3]
    assert found["seeds"].tolist() == [1, 1, 0]  # nobody else ran at load 3
    assert found["ttft_p99_s"].tolist()[:2] == [1, 4]


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ({"policy": "edf"}, "no point has these values"),
        ({"polcy": "fcfs"}, "did you mean 'policy'?"),
        ({"seed": 0}, "is no part of a point"),
    ],
)
def test_impossible_baselines(baseline, message):
    frame = points(policy=["fcfs"], seed=[0], ttft_p99_s=[1.0])
    with pytest.raises(InputError, match=message):
        paired_differences(frame, ["ttft_p99_s"], baseline)
    with pytest.raises(InputError, match="no such column"):
        aggregate(frame, ["ttft_p98_s"])
