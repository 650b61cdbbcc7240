"""Measured against simulated latency of a real run.

The run's own requests are replayed with its own scheduler configuration. TTFT and end-to-end
latency count from the moment the engine takes a request in, between two iterations: that is what a
real engine's stamps tell. TPOT is (last token - first token) / (output tokens - 1).
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sweeps.measured_run import MeasuredRun
from vecsched import CostModel, simulate
from vecsched.errors import InputError

METRICS = {"ttft": "time to first token", "tpot": "time per output token", "e2e": "end to end"}
STATISTICS = ("mean", "p50", "p90", "p95", "p99")


class Validation(NamedTuple):
    """What was measured and what was simulated, of the requests that have both.

    Attributes:
        measured: a row a request, seconds: `ttft`, `tpot`, `e2e`.
        simulated: the same.
        makespan: measured and simulated seconds.
        left_out: requests that were not served in both.
    """

    measured: pd.DataFrame
    simulated: pd.DataFrame
    makespan: tuple[float, float]
    left_out: int


def validate(run: MeasuredRun, cost: CostModel) -> Validation:
    """Replay a run and put its latencies beside the simulated ones.

    Args:
        run: the real run.
        cost: how long its iterations last.

    Raises:
        InputError: no request was served in both.
    """
    result = simulate(run.trace, run.config, cost, log_iterations=True)
    requests = result.requests
    starts = result.iterations["start_s"].to_numpy()  # type: ignore[index]
    arrival = run.trace.arrival_s
    # The boundary at which it joins the queue; whoever comes after the last is never served.
    boundary = np.searchsorted(starts, arrival).clip(max=len(starts) - 1)
    joined = np.maximum(starts[boundary], arrival)
    simulated = pd.DataFrame(
        {
            "ttft": requests["first_token_s"] - joined,
            "tpot": requests["tpot_s"],
            "e2e": requests["finished_s"] - joined,
        }
    )
    both = run.latencies["e2e"].notna() & (requests["status"] == "completed")
    if not both.any():
        raise InputError("no request was served in the run and in its simulation")
    makespan_s = float(requests.loc[both, "finished_s"].max() - joined.min())
    return Validation(
        measured=run.latencies[both],
        simulated=simulated[both],
        makespan=(run.makespan_s, makespan_s),
        left_out=int((~both).sum()),
    )


def compare(validation: Validation) -> list[dict[str, Any]]:
    """Return a row for each metric and statistic.

    Each has `metric`, `stat`, `measured_s`, `simulated_s` and `diff_percent`: how far the simulated
    value is above the measured one. Percentiles interpolate linearly between order statistics.
    """
    return [
        {"metric": metric, "stat": stat, **difference(*values)}
        for metric in METRICS
        for stat, *values in zip(
            STATISTICS,
            _statistics(validation.measured[metric]),
            _statistics(validation.simulated[metric]),
            strict=True,
        )
    ]


def difference(measured_s: float, simulated_s: float) -> dict[str, float]:
    """Return the two and the difference in percent of the measured one."""
    percent = 100 * (simulated_s / measured_s - 1) if measured_s else float("nan")
    return {"measured_s": measured_s, "simulated_s": simulated_s, "diff_percent": percent}


def _statistics(latencies: pd.Series) -> list[float]:
    values = latencies.dropna().to_numpy(np.float64)
    if not len(values):
        return [float("nan")] * len(STATISTICS)
    quantiles = np.percentile(values, [float(name[1:]) for name in STATISTICS[1:]])
    return [float(values.mean()), *map(float, quantiles)]
