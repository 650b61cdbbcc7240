"""Hand-worked figures of the oracle's metrics. With the unit cost an iteration lasts one second."""

import math
import random

import naive
import numpy as np
import pytest
from naive.examples import UNIT_COST, column, request, small_config
from naive.metrics import long_over_short_wait, meets_slos
from naive.stats import gini, jain, mean, quantile, total, variance
from naive.tenant_metrics import NAMES

OTHER_FIELDS = [
    *("itl_p50_s", "itl_p99_s", "itl_max_s", "makespan_s"),
    *("goodput_requests_per_s", "slo_attainment", "slo_attainment_completed"),
    *("iterations", "mean_batch_tokens", "mean_batch_size", "batch_occupancy"),
    *("kv_utilization", "token_budget_utilization", "busy_fraction", "empty_queue_share"),
    *("blocked_slot_share", "blocked_kv_blocks_share", "blocked_token_budget_share"),
    *("starved_requests", "starvation_s", "max_queue_wait_s", "wait_over_isolated_p99"),
    *("jain_slowdown", "jain_tpot", "ttft_p99_over_p50", "slowdown_p99_over_p50"),
    *("slowdown_variance", "slowdown_gini", "long_over_short_wait"),
    *("requests", "completed", "failed", "timed_out", "cancelled"),
    *("preemptions", "recomputed_tokens"),
]


def test_quantile_is_numpys():
    draw = random.Random(7)
    for n in range(1, 120):
        values = [draw.choice([draw.random(), 1e-3, 1e6 * draw.random()]) for _ in range(n)]
        for q in (0.5, 0.9, 0.95, 0.99):
            assert quantile(values, q) == np.quantile(values, q)
            assert quantile(values, q) == np.percentile(values, 100 * q)
    assert math.isnan(quantile([], 0.5))


def test_statistics():
    assert total([1e16, 1.0, 1.0]) == 1e16  # one addition after another
    assert mean([1, 2, 6]) == 3.0
    assert jain([1, 3]) == 16 / (2 * 10)
    assert jain([5, 5, 5, 5]) == 1.0
    assert jain([0, 0, 0, 4]) == 0.25  # 1 / n: one has everything
    assert variance([1, 3]) == 1.0
    assert gini([3, 1]) == 0.25  # 2 (1 x 1 + 2 x 3) / (2 x 4) - 3 / 2
    assert gini([2, 2]) == 0.0
    assert gini([0, 0, 4, 0]) == 0.75  # (n - 1) / n
    for figure in (mean, jain, variance, gini):
        assert math.isnan(figure([]))
    assert math.isnan(jain([0.0, 0.0]))


@pytest.fixture(scope="module")
def trace():
    """One slot: 0 to 2, 2 to 4, 4 to 8, 8 to 10; and one request that fails."""
    return [
        request(0, 4, 2),
        request(0, 4, 2),
        request(1, 4, 4),
        request(8, 4, 2),
        request(5, 0, 2),
    ]


def run(trace, **options):
    config = small_config(max_batch_size=1, kv_blocks=4)
    return naive.simulate(trace, config, UNIT_COST, options)


def test_latencies(trace):
    result = run(trace)
    summary = result["summary"]
    assert column(result, "queue_wait_s")[:4] == [0, 2, 3, 0]
    assert column(result, "ttft_s")[:4] == [1, 3, 4, 1]
    assert column(result, "tpot_s")[:4] == [1, 1, 1, 1]
    assert column(result, "e2e_s")[:4] == [2, 4, 7, 2]
    assert column(result, "normalized_latency_s")[:4] == [1, 2, 1.75, 1]
    assert column(result, "slowdown")[:4] == [1, 2, 1.75, 1]  # alone: 2, 2, 4, 2
    failed = result["requests"][4]
    assert failed["finished_s"] == 5.0
    assert failed["isolated_ps"] is None
    for name in ("admitted_s", "queue_wait_s", "ttft_s", "tpot_s", "e2e_s", "slowdown"):
        assert math.isnan(failed[name])
    assert summary["e2e_mean_s"] == 15 / 4
    assert summary["e2e_p50_s"] == 3.0  # of 2, 2, 4, 7: between the second and the third
    assert summary["e2e_p90_s"] == pytest.approx(4 + 0.7 * 3)  # index 3 x 0.9 = 2.7
    assert summary["e2e_max_s"] == 7.0
    assert summary["queue_wait_mean_s"] == 5 / 4
    assert summary["normalized_latency_max_s"] == 2.0
    assert summary["slowdown_p50"] == 1.375
    assert summary["slowdown_max"] == 2.0


def test_throughput_and_the_steady_window(trace):
    summary = run(trace, warmup=0.2, cooldown=0.2)["summary"]
    assert summary["makespan_s"] == 10.0
    assert summary["requests_per_s"] == 4 / 10
    assert summary["output_tokens_per_s"] == 10 / 10
    assert summary["total_tokens_per_s"] == (16 + 10) / 10
    # (2, 8] leaves out the one that ends at 2 and keeps the one that ends at 8: of 4, 8.
    assert summary["requests_per_s_steady"] == 2 / 6
    assert summary["output_tokens_per_s_steady"] == 6 / 6
    assert summary["total_tokens_per_s_steady"] == (8 + 6) / 6
    # (1, 9] by default: those that end at 2, 4 and 8.
    assert run(trace)["summary"]["requests_per_s_steady"] == 3 / 8
    nothing = run(trace, warmup=0.5, cooldown=0.5)["summary"]
    assert math.isnan(nothing["requests_per_s_steady"])


@pytest.mark.parametrize(
    ("slos", "good"),
    [
        ({}, 4),
        ({"ttft_slo_s": 3.0}, 3),  # of 1, 3, 4, 1, inclusive
        ({"e2e_slo_s": 2.0}, 2),  # of 2, 4, 7, 2
        ({"tpot_slo_s": 0.5}, 0),
        ({"ttft_slo_s": 4.0, "tpot_slo_s": 1.0, "e2e_slo_s": 4.0}, 3),
    ],
)
def test_goodput(trace, slos, good):
    summary = run(trace, **slos)["summary"]
    assert summary["goodput_requests_per_s"] == good / 10
    assert summary["slo_attainment"] == good / 5  # the failed one was submitted
    assert summary["slo_attainment_completed"] == good / 4


def test_a_missing_tpot_meets_any_bound():
    row = {"ttft_s": 1.0, "tpot_s": math.nan, "e2e_s": 2.0}
    assert meets_slos(row, {"ttft_slo_s": 1.0, "tpot_slo_s": 0.0, "e2e_slo_s": None})


def test_use_of_the_engine(trace):
    summary = run(trace)["summary"]
    assert summary["iterations"] == 10
    assert summary["mean_batch_tokens"] == 22 / 10  # 4 x 4 of prompt, 1 + 1 + 3 + 1 decodes
    assert summary["mean_batch_size"] == 1.0
    assert summary["batch_occupancy"] == 1.0
    assert summary["kv_utilization"] == 0.5  # ceil(6 / 4) = ceil(8 / 4) = 2 of 4 blocks
    assert summary["token_budget_utilization"] == 22 / 80
    assert summary["busy_fraction"] == 1.0
    # The second is at the head until 2, the third until 4; the fourth finds the slot free.
    assert summary["blocked_slot_share"] == 0.4
    assert summary["blocked_kv_blocks_share"] == 0.0
    assert summary["blocked_token_budget_share"] == 0.0
    assert summary["empty_queue_share"] == 0.6


def test_shares_are_weighted_by_time():
    # 3 s with 4 tokens, 1 s with 1 (0.5 s a prefill token), then idle from 4 to 12, then 4 s again.
    cost = {"decode": {"fixed_s": 1.0}, "mixed": {"fixed_s": 1.0, "token_s": [[1, 0.5]]}}
    requests = [request(0, 4, 2), request(12, 4, 2)]
    summary = naive.simulate(requests, small_config(max_batch_size=2), cost)["summary"]
    assert summary["makespan_s"] == 16.0
    assert summary["busy_fraction"] == 0.5
    assert summary["batch_occupancy"] == 0.5
    assert summary["mean_batch_tokens"] == 2.5
    assert summary["token_budget_utilization"] == (4 * 3 + 1 * 1) / (8 * 4)
    assert math.isnan(summary["kv_utilization"])  # unlimited
    assert summary["empty_queue_share"] == 1.0


def test_starvation(trace):
    summary = run(trace)["summary"]
    assert summary["starvation_s"] == 20.0  # 10 x the median of 2, 2, 4, 2; the failed has none
    assert summary["starved_requests"] == 0
    assert summary["max_queue_wait_s"] == 3.0
    # Waits 0, 2, 3, 0 over 2, 2, 4, 2: 0, 1, 0.75, 0; index 3 x 0.99 = 2.97.
    assert summary["wait_over_isolated_p99"] == pytest.approx(0.75 + 0.97 * 0.25)
    assert run(trace, starvation_s=2.0)["summary"]["starved_requests"] == 1  # more than 2


def test_who_was_never_admitted_waited_until_the_end():
    # Row 1 waits from 0 until it is cancelled, at 4; row 0 takes 6 alone, row 1 would take 2.
    requests = [request(0, 4, 6), request(0, 4, 2, cancel_at_s=3.5)]
    result = run(requests, starvation_s=3.0)
    assert math.isnan(result["requests"][1]["queue_wait_s"])
    assert result["summary"]["queue_wait_max_s"] == 0.0
    assert result["summary"]["max_queue_wait_s"] == 4.0
    assert result["summary"]["starved_requests"] == 1
    # Waits over time alone: 0 and 4 / 2.
    assert result["summary"]["wait_over_isolated_p99"] == pytest.approx(1.98)


def test_fairness(trace):
    summary = run(trace)["summary"]
    # Slowdowns 1, 2, 1.75, 1: sum 5.75, squares 9.0625.
    assert summary["jain_slowdown"] == 5.75**2 / (4 * 9.0625)
    assert summary["jain_tpot"] == 1.0
    # Mean 1.4375; (0.4375^2 + 0.5625^2 + 0.3125^2 + 0.4375^2) / 4
    assert summary["slowdown_variance"] == 0.19921875
    # 2 (1 + 2 + 3 x 1.75 + 4 x 2) / (4 x 5.75) - 5 / 4
    assert summary["slowdown_gini"] == 32.5 / 23 - 1.25
    # TTFT 1, 1, 3, 4: p50 2, p99 at index 2.97.
    assert summary["ttft_p99_over_p50"] == pytest.approx(3.97 / 2)
    # Slowdown p50 1.375, p99 1.75 + 0.97 x 0.25
    assert summary["slowdown_p99_over_p50"] == pytest.approx(1.9925 / 1.375)
    assert math.isnan(summary["long_over_short_wait"])  # the shortest did not wait


def waiting_row(row, tokens, wait, admitted=0):
    return {
        "row": row,
        "prompt_tokens": tokens,
        "output_tokens": 1,
        "queue_wait_s": wait,
        "admitted_ps": admitted,
    }


def test_long_over_short_wait():
    # 20 admitted, tenth = 2: waits of the longest (19, 20) over those of the shortest (1, 2).
    rows = [waiting_row(i, i, float(i)) for i in range(1, 21)]
    assert long_over_short_wait(rows) == 19.5 / 1.5
    assert long_over_short_wait(rows[::-1]) == 19.5 / 1.5
    # One that never got in does not count, however long.
    assert long_over_short_wait([*rows, waiting_row(21, 99, math.nan, None)]) == 19.5 / 1.5
    # Of equals the earlier arrivals are the shorter ones.
    assert long_over_short_wait([waiting_row(i, 5, float(i)) for i in range(1, 20)]) == 19.0
    assert math.isnan(long_over_short_wait([]))


def test_terminal_counts(trace):
    summary = run([*trace, request(0, 4, 2, cancel_at_s=0.5)])["summary"]
    counts = {"requests": 6, "completed": 4, "failed": 1, "timed_out": 0, "cancelled": 1}
    assert {name: summary[name] for name in counts} == counts
    assert summary["preemptions"] == summary["recomputed_tokens"] == 0


def test_a_trace_of_failures_only():
    summary = run([request(3, 0, 1)])["summary"]
    assert summary["makespan_s"] == 0.0
    assert summary["slo_attainment"] == 0.0
    for name in ("requests_per_s", "ttft_p50_s", "slo_attainment_completed", "starvation_s"):
        assert math.isnan(summary[name])
    assert summary["starved_requests"] == 0


def test_every_summary_field(trace):
    latencies = ("queue_wait", "ttft", "tpot", "e2e", "normalized_latency")
    figures = ("mean", "p50", "p90", "p95", "p99", "max")
    rates = ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")
    expected = [f"{latency}_{figure}_s" for latency in latencies for figure in figures]
    expected += [f"slowdown_{figure}" for figure in figures]
    expected += [*rates, *(f"{name}_steady" for name in rates)]
    assert sorted(run(trace)["summary"]) == sorted(
        [*expected, *OTHER_FIELDS, "tenants", *NAMES, "prefix_hit_rate", "evicted_blocks"]
    )
