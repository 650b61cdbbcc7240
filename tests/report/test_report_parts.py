"""Parts of a report against hand-worked values."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sweeps.report.columns import packed, rounded
from sweeps.report.curves import SHARES, curves_of, quantiles
from sweeps.report.jumps import jumps_of
from sweeps.report.phrases import counted, listed, measured, named, number, percent
from sweeps.report.question import better
from vecsched import CostModel, SchedulerConfig, Trace, simulate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.18325, "0.183"),
        (4.998, "5.00"),
        (5.0, "5"),
        (0.5, "0.5"),
        (1342.4, "1,340"),
        (33_423.7, "33,400"),
        (1024, "1,024"),
        (13_072_024, "13.1 million"),
        (np.int64(8192), "8,192"),
        (0, "0"),
        (float("nan"), "none"),
        (None, "none"),
        (float("inf"), "inf"),
        (True, "yes"),
        ("aging(50)", "aging(50)"),
    ],
)
def test_numbers_in_sentences(value, text):
    assert number(value) == text


def test_words():
    assert [percent(share) for share in (0, 0.004, 0.354, 0.999, 1)] == [
        "0\u00a0%",
        "under 1\u00a0%",
        "35\u00a0%",
        "over 99\u00a0%",
        "100\u00a0%",
    ]
    assert measured("goodput_requests_per_s", 5.917) == "5.92 requests/s"
    assert measured("slowdown_p99", 3) == "3"
    assert named("ttft_p99_s") == "TTFT p99"
    assert [listed(list("abc")[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert [counted(1, "pair"), counted(2000, "pair")] == ["1 pair", "2,000 pairs"]


@pytest.mark.parametrize(
    ("metric", "sign"),
    [
        ("goodput_requests_per_s", 1),
        ("output_tokens_per_s_steady", 1),
        ("slo_attainment", 1),
        ("jain_slowdown", 1),
        ("slowdown_p99", -1),
        ("ttft_p99_worst_tenant_s", -1),
        ("itl_max_s", -1),
        ("blocked_kv_blocks_share", -1),
        ("backlogged_service_difference_max", -1),
        ("iterations", 0),
        ("starvation_s", 0),  # the bound, no result
        ("kv_utilization", 0),
    ],
)
def test_which_end_of_a_metric_is_better(metric, sign):
    assert better(metric) == sign


def test_columns():
    table = pa.table(
        {
            "same": [1.23456789, 1.23456789],
            "exact": [1.23456789, float("nan")],
            "short": [1234567.8, None],
            "whole": pa.array([123456789, 2]),
            "text": ["b", None],
            "flag": [True, False],
        }
    )
    assert packed(table, exact=["exact"]) == {
        "constants": {"same": 1.23457},
        "columns": {
            "exact": [1.23456789, None],
            "short": [1234570.0, None],
            "whole": [123456789, 2],
            "text": {"levels": ["b"], "codes": [0, -1]},
            "flag": [True, False],
        },
    }
    assert repr(rounded(3.0)) == "3"
    assert repr(rounded(1e-7)) == "1e-07"


def test_quantiles_are_values_that_somebody_had():
    values = pd.Series([3.0, 1.0, np.nan, 2.0])
    curve = quantiles(values)
    assert len(curve) == len(SHARES)
    assert (curve[0], curve[-1]) == (1, 3)
    assert set(curve) == {1, 2, 3}
    # A third of the requests is within 1 s; 0.34 is beyond it.
    assert [curve[list(SHARES).index(share)] for share in (0.33, 0.34)] == [1, 2]
    assert quantiles(pd.Series([np.nan])) == []


def stretches(rows):
    """A run's stretches from (start, end, value)."""
    start, end, value = zip(*rows, strict=True)
    columns = ("batch_size", "kv_blocks_held", "queue_length")
    return pd.DataFrame(
        {
            "start_s": start,
            "end_s": end,
            "blocked_reason": ["slot" if v == 4 else "" for v in value],
        }
        | dict.fromkeys(columns, value)
    )


def test_curves_over_time():
    # 0 to 75: 4; idle to 100; 100 to 150: 2, but for an instant of 9 at 120.5 to 120.6.
    rows = [(0.0, 75.0, 4), (100.0, 120.5, 2), (120.5, 120.6, 9), (120.6, 150.0, 2)]
    requests = pd.DataFrame({name: [1.0] for name in ("ttft_s", "tpot_s", "e2e_s")})
    result = SimpleNamespace(stretches=stretches(rows), requests=requests)
    curves = curves_of(result, SchedulerConfig(max_batch_size=9))
    slots = curves["batch_size"]
    # 150 intervals of a second each.
    assert curves["end_s"] == 150
    assert {len(part) for part in slots.values()} == {150}
    assert (slots["mean"][0], slots["least"][74], slots["most"][74]) == (4, 4, 4)
    assert slots["most"][75:100] == [0] * 25
    # Between 120 and 121: 0.5 s of 2, 0.1 s of 9, 0.4 s of 2: 0.9 x 2 + 0.1 x 9 = 2.7.
    assert (slots["least"][120], slots["mean"][120], slots["most"][120]) == (2, 2.7, 9)
    assert curves["blocked"]["slot"] == [1] * 75 + [0] * 75
    assert (curves["slots"], curves["kv_capacity"]) == (9, None)


def test_curves_of_a_real_run_agree_with_its_summary():
    trace = Trace(np.arange(40) * 0.7, [16] * 40, [5] * 40)
    config = SchedulerConfig(max_batch_size=4, kv_blocks=50)
    result = simulate(trace, config, CostModel.unit())
    curves = curves_of(result, config)
    # Equal intervals: the mean of the means is the mean over the run, rounded in six digits.
    share = np.mean(curves["batch_size"]["mean"]) / 4
    assert share == pytest.approx(
        result.summary["batch_occupancy"] * result.summary["busy_fraction"], rel=1e-5
    )
    assert max(curves["queue"]["most"]) == result.stretches["queue_length"].max()
    blocked = np.mean(curves["blocked"]["slot"])
    assert blocked == pytest.approx(result.summary["blocked_slot_share"], rel=1e-5)


def test_a_cliff_in_words():
    # With a budget of 512, chunks of 512 make a tenth of what chunks of 256 make.
    frame = pd.DataFrame(
        {
            "load": [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0],
            "max_num_batched_tokens": [512, 512, 1024, 1024] * 2,
            "prefill_chunk_size": [256, 512] * 4,
            "output_tokens_per_s": [1000.0, 100.0, 1000.0, 1000.0, 1200.0, 100.0, 1200.0, 1200.0],
            "status": "ok",
        }
    )
    jumps = jumps_of(frame)
    chunk = next(jump for jump in jumps if jump.knob == "prefill_chunk_size")
    assert (chunk.better, chunk.worse, chunk.high, chunk.low) == (256, 512, 1200, 100)
    assert (chunk.pairs, chunk.where) == (2, {"max_num_batched_tokens": 512})
    assert chunk.sentence == (
        "With max num batched tokens 512, prefill chunk size 512 in place of 256 takes output from "
        "1,200 tokens/s down to 100 tokens/s at worst, and to half or less in 2 pairs of settings."
    )
    assert jumps_of(frame.assign(output_tokens_per_s=1.0)) == []
