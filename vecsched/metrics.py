"""The summary of a run: latency, throughput, goodput, use of the engine, blocking, fairness.

Definitions stand in `docs/semantics.md`. Quantiles are exact order statistics by NumPy's `linear`
method; sums of time are exact integers; other sums run in arrival order. So a summary is the same
to the last bit on every machine.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecsched.clock import PS_PER_S
from vecsched.errors import ConfigError
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
from vecsched.kernels.engine import Engine
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
    sum_of_squared_deviations,
    sum_weighted_by_rank,
)
from vecsched.kernels.selection import BUCKETS, select, sort
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


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """What the summary is measured against.

    Attributes:
        ttft_slo_s, tpot_slo_s, e2e_slo_s: service-level objectives, inclusive; None: not asked for.
        starvation_s: a request that waits longer for admission is starved; None: 10 x the median
            isolated end-to-end time of the trace's requests.
        warmup, cooldown: shares of the makespan that the steady window leaves out.

    Raises:
        ConfigError: a value is negative or no number, or the window would be empty.
    """

    ttft_slo_s: float | None = None
    tpot_slo_s: float | None = None
    e2e_slo_s: float | None = None
    starvation_s: float | None = None
    warmup: float = 0.1
    cooldown: float = 0.1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if value is not None and (not number or not 0 <= value < math.inf):
                raise ConfigError(f"{name} must be a number >= 0, not {value!r}")
        if self.warmup + self.cooldown >= 1:
            raise ConfigError(
                f"warmup {self.warmup} and cooldown {self.cooldown} leave no steady window"
            )


def summarise(
    engine: Engine, isolated: "Isolated", by_size: np.ndarray, options: MetricOptions
) -> dict[str, Any]:
    """Return the flat summary of a finished run; see `docs/semantics.md` for each entry.

    Args:
        engine: state after a run that has finished.
        isolated: the requests' end-to-end times alone.
        by_size: int64 (n,), rows by prompt + output, ascending.
        options: SLOs and windows.
    """
    start_ps = int(engine.requests.arrival_ps[0])
    end_ps = max(int(last_end_ps(engine.outcome.finished_ps)), start_ps)
    starvation_s = isolated.starvation_s if options.starvation_s is None else options.starvation_s
    goals = Goals(
        *(math.inf if slo is None else float(slo) for slo in _slos(options)),
        starvation_s=float(starvation_s),
        steady_from_ps=start_ps + round(options.warmup * (end_ps - start_ps)),
        steady_to_ps=end_ps - round(options.cooldown * (end_ps - start_ps)),
    )
    latencies = _latencies(engine, isolated, goals)
    summary = _latency_summary(latencies) | _gap_summary(engine)
    summary["makespan_s"] = (end_ps - start_ps) / PS_PER_S
    summary |= _throughput(latencies, goals, len(by_size), summary["makespan_s"])
    summary |= _engine_use(engine, end_ps - start_ps)
    summary["starved_requests"] = int(latencies.totals[STARVED])
    summary["starvation_s"] = float(starvation_s)
    summary |= _fairness(engine, latencies, by_size, summary)
    counts = np.zeros(len(STATUSES), np.int64)
    count_statuses(engine.outcome.status, counts)
    summary["requests"] = len(by_size)
    for code in (COMPLETED, FAILED, TIMED_OUT, CANCELLED):
        summary[STATUSES[code]] = int(counts[code])
    summary["preemptions"] = int(engine.outcome.preemptions.sum())
    summary["recomputed_tokens"] = int(engine.outcome.recomputed.sum())
    return summary
