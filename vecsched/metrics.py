"""The summary of a run: latency, throughput, goodput, use of the engine, blocking, fairness.

Definitions stand in `docs/semantics.md`. Quantiles are exact order statistics by NumPy's `linear`
method; sums of time are exact integers; other sums run in arrival order. So a summary is the same
to the last bit on every machine.
"""

import math
from typing import Any

import numpy as np

from vecsched.clock import PS_PER_S
from vecsched.isolated import Isolated
from vecsched.kernels.accounting import (
    BLOCKED_PS,
    BUSY_PS,
    KV_TIME,
    LONGEST_GAP_PS,
    PRODUCTS,
    RUN_GAPS,
    RUN_ITERATIONS,
    RUN_SLOTS,
    RUN_TOKENS,
    SHORTEST_GAP_PS,
    SLOT_TIME,
    SUMS,
    TOKEN_TIME,
    account,
    products_as_int,
)
from vecsched.kernels.engine import BLOCK_REASONS, UNLIMITED, Engine
from vecsched.kernels.gaps import GAP_BUCKETS, GapScratch, select_gaps
from vecsched.kernels.latency import (
    COMPLETED_OUTPUT,
    COMPLETED_TOKENS,
    E2E,
    GOOD,
    LATENCIES,
    LONGEST_WAIT_PS,
    NORMALIZED,
    SLOWDOWN,
    STARVED,
    STEADY_OUTPUT,
    STEADY_REQUESTS,
    STEADY_TOKENS,
    TOTALS,
    TPOT,
    TTFT,
    WAIT,
    WAIT_RATIO,
    Goals,
    Latencies,
    count_statuses,
    last_end_ps,
    mean_waits_of_extremes,
    measure_latencies,
    sum_latencies,
    sum_of_squared_deviations,
    sum_weighted_by_rank,
)
from vecsched.kernels.record import written_gaps, written_lines
from vecsched.options import MetricOptions
from vecsched.prefix_metrics import prefix_summary
from vecsched.quantiles import (
    SelectionScratch,
    ascending,
    interpolate,
    quantile_ranks,
    quantiles_of,
    quotient,
)
from vecsched.requests import CANCELLED, COMPLETED, FAILED, STATUSES, TIMED_OUT

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_NAMES = {
    WAIT: ("queue_wait", "_s"),
    TTFT: ("ttft", "_s"),
    TPOT: ("tpot", "_s"),
    E2E: ("e2e", "_s"),
    NORMALIZED: ("normalized_latency", "_s"),
    SLOWDOWN: ("slowdown", ""),
}


def summarise(
    engine: Engine, isolated: Isolated, by_size: np.ndarray, options: MetricOptions
) -> dict[str, Any]:
    """Return the flat summary of a finished run; see `docs/semantics.md` for each entry.

    Args:
        engine: state after a run that has finished.
        isolated: the requests' end-to-end times alone.
        by_size: int64 (n,), rows by prompt + output, ascending, ties in arrival order.
        options: SLOs and windows.
    """
    outcome = engine.outcome
    start_ps = int(engine.requests.arrival_ps[0])
    end_ps = int(last_end_ps(outcome.finished_ps))
    goals = _goals(options, isolated, start_ps, end_ps)
    latencies = _latencies(engine, isolated, goals)
    scratch = SelectionScratch.for_size(len(by_size))
    counts = np.zeros(len(STATUSES), np.int64)
    count_statuses(outcome.status, counts)

    summary = _latency_summary(latencies, scratch)
    sums, products = _account(engine)
    summary |= _token_gaps(engine, sums)
    summary["makespan_s"] = float(end_ps - start_ps) / PS_PER_S
    summary |= _throughput(latencies, counts, goals, summary["makespan_s"])
    summary |= _engine_use(engine, sums, products, end_ps - start_ps)
    summary |= _starvation(latencies, goals, int(counts[FAILED]), scratch)
    summary |= _fairness(latencies, summary, scratch)
    summary["long_over_short_wait"] = _long_over_short_wait(latencies, engine, by_size)
    summary["requests"] = len(by_size)
    for code in (COMPLETED, FAILED, TIMED_OUT, CANCELLED):
        summary[STATUSES[code]] = int(counts[code])
    summary["preemptions"] = int(outcome.preemptions.sum())
    summary["recomputed_tokens"] = int(outcome.recomputed.sum())
    summary |= prefix_summary(engine)
    return summary


def _goals(options: MetricOptions, isolated: Isolated, start_ps: int, end_ps: int) -> Goals:
    limit = isolated.starvation_s if options.starvation_s is None else options.starvation_s
    return Goals(
        ttft_s=_bound(options.ttft_slo_s),
        tpot_s=_bound(options.tpot_slo_s),
        e2e_s=_bound(options.e2e_slo_s),
        starvation_s=float(limit),
        steady_from_ps=start_ps + round(options.warmup * (end_ps - start_ps)),
        steady_to_ps=end_ps - round(options.cooldown * (end_ps - start_ps)),
    )


def _bound(slo: float | None) -> float:
    return math.inf if slo is None else float(slo)


def _latencies(engine: Engine, isolated: Isolated, goals: Goals) -> Latencies:
    latencies = Latencies(
        values=np.empty((LATENCIES, len(isolated.picoseconds)), np.float64),
        counts=np.zeros(LATENCIES, np.int64),
        total=np.zeros(LATENCIES, np.float64),
        squares=np.zeros(LATENCIES, np.float64),
        totals=np.zeros(TOTALS, np.int64),
    )
    measure_latencies(engine.requests, engine.outcome, isolated.picoseconds, goals, latencies)
    sum_latencies(latencies.values, latencies.counts, latencies.total, latencies.squares)
    return latencies


def _values(latencies: Latencies, row: int) -> np.ndarray:
    return latencies.values[row, : latencies.counts[row]]


def _latency_summary(latencies: Latencies, scratch: SelectionScratch) -> dict[str, Any]:
    summary = {}
    wanted = [*QUANTILES.values(), 1.0]
    for row, (name, unit) in _NAMES.items():
        *quantiles, largest = quantiles_of(_values(latencies, row), wanted, scratch)
        summary[f"{name}_mean{unit}"] = quotient(
            float(latencies.total[row]), int(latencies.counts[row])
        )
        for label, value in zip(QUANTILES, quantiles, strict=True):
            summary[f"{name}_{label}{unit}"] = value
        summary[f"{name}_max{unit}"] = largest
    return summary


def _account(engine: Engine) -> tuple[list[int], list[int]]:
    sums, products = np.zeros(SUMS, np.int64), np.zeros((PRODUCTS, 2), np.int64)
    account(written_lines(engine.record), written_gaps(engine.record), sums, products)
    products[KV_TIME] += engine.paging.kv_growth[0]
    return sums.tolist(), products_as_int(products)


def _token_gaps(engine: Engine, sums: list[int]) -> dict[str, Any]:
    count = sums[RUN_GAPS]
    if count == 0:
        return {"itl_p50_s": math.nan, "itl_p99_s": math.nan, "itl_max_s": math.nan}
    lines, lone_gaps = written_lines(engine.record), written_gaps(engine.record)
    scratch = GapScratch(
        candidates=np.empty((len(lines) + len(lone_gaps), 4), np.int64),
        kept=np.empty((len(lines) + len(lone_gaps), 4), np.int64),
        coarse=np.empty(GAP_BUCKETS, np.int64),
        fine=np.empty(GAP_BUCKETS, np.int64),
    )
    wanted = [0.5, 0.99]
    ranks = quantile_ranks(count, wanted)
    chosen = np.array(ranks, np.int64)
    bounds_ps = (sums[SHORTEST_GAP_PS], sums[LONGEST_GAP_PS])
    select_gaps(lines, lone_gaps, chosen, bounds_ps, scratch)
    p50, p99 = interpolate(ranks, chosen / PS_PER_S, count, wanted)
    return {"itl_p50_s": p50, "itl_p99_s": p99, "itl_max_s": float(sums[LONGEST_GAP_PS]) / PS_PER_S}


def _throughput(
    latencies: Latencies, counts: np.ndarray, goals: Goals, makespan_s: float
) -> dict[str, Any]:
    totals, completed = latencies.totals.tolist(), int(counts[COMPLETED])
    steady_s = float(max(goals.steady_to_ps - goals.steady_from_ps, 0)) / PS_PER_S
    return {
        "requests_per_s": quotient(completed, makespan_s),
        "output_tokens_per_s": quotient(totals[COMPLETED_OUTPUT], makespan_s),
        "total_tokens_per_s": quotient(totals[COMPLETED_TOKENS], makespan_s),
        "requests_per_s_steady": quotient(totals[STEADY_REQUESTS], steady_s),
        "output_tokens_per_s_steady": quotient(totals[STEADY_OUTPUT], steady_s),
        "total_tokens_per_s_steady": quotient(totals[STEADY_TOKENS], steady_s),
        "goodput_requests_per_s": quotient(totals[GOOD], makespan_s),
        "slo_attainment": totals[GOOD] / int(counts.sum()),
        "slo_attainment_completed": quotient(totals[GOOD], completed),
    }


def _engine_use(
    engine: Engine, sums: list[int], products: list[int], makespan_ps: int
) -> dict[str, Any]:
    limits, iterations, busy_ps = engine.limits, sums[RUN_ITERATIONS], sums[BUSY_PS]
    blocked = dict(zip(BLOCK_REASONS, sums[BLOCKED_PS:], strict=True))
    limited = limits.kv_capacity < UNLIMITED
    held = quotient(products[KV_TIME], limits.kv_capacity * busy_ps) if limited else math.nan
    return {
        "iterations": iterations,
        "mean_batch_tokens": quotient(sums[RUN_TOKENS], iterations),
        "mean_batch_size": quotient(sums[RUN_SLOTS], iterations),
        "batch_occupancy": quotient(products[SLOT_TIME], limits.slots * busy_ps),
        "kv_utilization": held,
        "token_budget_utilization": quotient(products[TOKEN_TIME], limits.tokens * busy_ps),
        "busy_fraction": quotient(busy_ps, makespan_ps),
        **{f"blocked_{name}_share": quotient(ps, makespan_ps) for name, ps in blocked.items()},
        "empty_queue_share": quotient(makespan_ps - sum(blocked.values()), makespan_ps),
    }


def _starvation(
    latencies: Latencies, goals: Goals, failed: int, scratch: SelectionScratch
) -> dict[str, Any]:
    (ratio,) = quantiles_of(_values(latencies, WAIT_RATIO), [0.99], scratch)
    nobody_can_run = failed == latencies.values.shape[1]
    longest_s = float(latencies.totals[LONGEST_WAIT_PS]) / PS_PER_S
    return {
        "starved_requests": int(latencies.totals[STARVED]),
        "starvation_s": goals.starvation_s,
        "max_queue_wait_s": math.nan if nobody_can_run else longest_s,
        "wait_over_isolated_p99": ratio,
    }


def _fairness(
    latencies: Latencies, summary: dict[str, Any], scratch: SelectionScratch
) -> dict[str, Any]:
    slowdowns, count = _values(latencies, SLOWDOWN), int(latencies.counts[SLOWDOWN])
    total = float(latencies.total[SLOWDOWN])
    variance, gini = math.nan, math.nan
    if count > 0:
        variance = sum_of_squared_deviations(slowdowns, total / count) / count
        weighted = sum_weighted_by_rank(ascending(slowdowns, scratch))
        gini = quotient(2 * weighted, count * total) - (count + 1) / count
    return {
        "jain_slowdown": _jain(latencies, SLOWDOWN),
        "jain_tpot": _jain(latencies, TPOT),
        "ttft_p99_over_p50": quotient(summary["ttft_p99_s"], summary["ttft_p50_s"]),
        "slowdown_p99_over_p50": quotient(summary["slowdown_p99"], summary["slowdown_p50"]),
        "slowdown_variance": variance,
        "slowdown_gini": gini,
    }


def _jain(latencies: Latencies, row: int) -> float:
    """Jain's index (Jain, Chiu and Hawe, 1984): (sum x)^2 / (n sum x^2)."""
    total = float(latencies.total[row])
    return quotient(total * total, int(latencies.counts[row]) * float(latencies.squares[row]))


def _long_over_short_wait(latencies: Latencies, engine: Engine, by_size: np.ndarray) -> float:
    admitted = int(latencies.counts[WAIT])
    if admitted == 0:
        return math.nan
    part = np.zeros(len(by_size), np.int8)
    short, long = mean_waits_of_extremes(
        engine.requests, engine.outcome.admitted_ps, by_size, admitted, part
    )
    return quotient(long, short)
