"""Curves of one run, each with a bounded number of points that keeps its extremes."""

from typing import Any

import numpy as np
import pandas as pd

from sweeps.report.columns import rounded
from vecsched import Result, SchedulerConfig

LATENCIES = ("ttft_s", "tpot_s", "e2e_s")
_REASONS = ("slot", "kv_blocks", "token_budget")
_BINS = 150  # intervals of time

# Shares of the requests at which a latency is told: evenly, and closer where the tail is.
SHARES = np.unique(np.r_[0:101, 99:100:0.1, 99.95, 99.99].round(2)) / 100


def curves_of(result: Result, config: SchedulerConfig) -> dict[str, Any]:
    """Return a run's curves for JSON, numbers rounded.

    Args:
        result: the run.
        config: its configuration, for the capacities.

    Returns:
        `latencies`, for each of `LATENCIES` the values at `SHARES`, all of them values that some
        request had, so the first is the least and the last is the greatest; `end_s`, how long the
        run took; `batch_size`, `kv_blocks` and `queue`, each `mean`, `least` and `most` in equal
        intervals of it; `blocked`, for each reason the share of each interval in which the queue's
        head was blocked by it; `slots` and `kv_capacity`, null if it is unlimited.
    """
    spans = _without_gaps(result.stretches)
    edges = np.linspace(spans.instants[0], spans.instants[-1], _BINS + 1)
    stretches = spans.stretches
    series = {
        "batch_size": stretches["batch_size"],
        "kv_blocks": stretches["kv_blocks_held"],
        "queue": stretches["queue_length"],
    }
    blocked = {
        reason: _binned(spans.instants, spans.filled(stretches["blocked_reason"] == reason), edges)
        for reason in _REASONS
    }
    return {
        "latencies": {name: quantiles(result.requests[name]) for name in LATENCIES},
        "end_s": rounded(float(edges[-1] - edges[0])),
        **{
            name: _lists(_binned(spans.instants, spans.filled(values), edges))
            for name, values in series.items()
        },
        "blocked": {reason: _lists(parts)["mean"] for reason, parts in blocked.items()},
        "slots": config.max_batch_size,
        "kv_capacity": config.kv_blocks,
    }


def quantiles(values: pd.Series) -> list[Any]:
    """Return the order statistics of a latency at `SHARES`; nothing if no request has it."""
    known = values.dropna().to_numpy(np.float64)
    if not len(known):
        return []
    return [rounded(float(v)) for v in np.quantile(known, SHARES, method="inverted_cdf")]


class _Spans:
    """Stretches, and the idle times between them, as one gapless row of spans.

    Attributes:
        stretches: the table of stretches.
        instants: start of each span, and the end of the last, float64 (spans + 1,).
    """

    def __init__(self, stretches: pd.DataFrame, instants: np.ndarray, busy: np.ndarray) -> None:
        self.stretches, self.instants = stretches, instants
        self._busy = busy

    def filled(self, values: pd.Series) -> np.ndarray:
        """Return a value for each span: 0 where the engine idles."""
        every = np.zeros(len(self._busy))
        every[self._busy] = values.to_numpy(np.float64)
        return every


def _without_gaps(stretches: pd.DataFrame) -> _Spans:
    start, end = (stretches[name].to_numpy(np.float64) for name in ("start_s", "end_s"))
    instants = np.append(np.column_stack([start, end]).ravel(), end[-1:])
    busy = np.tile([True, False], len(start))
    lasting = (np.diff(instants) > 0) | busy  # a gap of no length is none
    return _Spans(stretches, np.append(instants[:-1][lasting], instants[-1]), busy[lasting])


def _binned(instants: np.ndarray, values: np.ndarray, edges: np.ndarray) -> dict[str, np.ndarray]:
    """Return mean over time, least and most of a step function in each interval.

    Args:
        instants: where it steps, and its end, (n + 1,).
        values: what it is from each instant to the next, (n,).
        edges: ends of the intervals, ascending, within the instants, (intervals + 1,).
    """
    area = np.append(0.0, np.cumsum(values * np.diff(instants)))
    means = np.diff(np.interp(edges, instants, area)) / np.diff(edges)
    first = np.searchsorted(instants, edges[:-1], side="right") - 1
    beyond = np.searchsorted(instants, edges[1:], side="left")
    # `reduceat` takes the rows [first, beyond) of each interval, and others between that are not
    # asked for; the last row is repeated so that every end is a row.
    pairs = np.column_stack([first, np.maximum(beyond, first + 1)]).ravel()
    padded = np.append(values, values[-1:])
    least, most = (f.reduceat(padded, pairs)[::2] for f in (np.minimum, np.maximum))
    # The mean is a difference of sums, so its last digits are not exact.
    return {"mean": np.clip(means, least, most), "least": least, "most": most}


def _lists(parts: dict[str, np.ndarray]) -> dict[str, list[Any]]:
    return {name: [rounded(float(value)) for value in part] for name, part in parts.items()}
