"""The highest load at which a configuration keeps its service-level objectives.

One point is a search here: loads are doubled (or halved) from 1 until the objectives break (or
hold), and then the gap is halved until it is within the tolerance. All loads are whole powers of
2^(1/n), so that configurations try the same ones, and a load is the same trace for all of them:
only its gaps shrink, with the same requests in the same order (common random numbers).

That there is one such load, with all below keeping the objectives, is assumed: queues make latency
grow with load, but with the rarest exceptions (a policy that happens to order a burst better).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from vecsched import CostModel, MetricOptions, SchedulerConfig, Trace
from vecsched import simulate as engine_simulate
from vecsched.errors import ClockOverflowError, ConfigError

CLOCK = "clock"  # what breaks when a run takes longer than the clock can count
_BOUNDS = {"ttft": "ttft_slo_s", "tpot": "tpot_slo_s", "e2e": "e2e_slo_s"}
_OCTAVES = (-6, 10)  # of loads that are tried: from 1/64 to 1,024


@dataclass(frozen=True)
class Criterion:
    """When the objectives are kept.

    Attributes:
        quantile: of ttft, tpot and e2e, that must be within the bound on it: p50, p90, p95 or p99.
        attainment: share of the submitted requests that must meet all bounds.
        tolerance: how far below the first load that breaks them the answer may be, as a share.

    Raises:
        ConfigError: a value is out of range.
    """

    quantile: str = "p99"
    attainment: float = 0.99
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if self.quantile not in ("p50", "p90", "p95", "p99"):
            raise ConfigError(f"quantile must be p50, p90, p95 or p99, not {self.quantile!r}")
        if not 0 < self.attainment <= 1:
            raise ConfigError(f"attainment must be above 0, up to 1, not {self.attainment!r}")
        if not 0.0001 <= self.tolerance <= 1:
            raise ConfigError(f"tolerance must be from 0.0001 to 1, not {self.tolerance!r}")

    @property
    def steps(self) -> int:
        """How many loads an octave has: neighbours differ by the tolerance at most."""
        return math.ceil(math.log(2) / math.log1p(self.tolerance))

    def excess(self, summary: dict[str, Any], options: MetricOptions) -> dict[str, float]:
        """Return by how much each objective is missed, above 1 if it is; only those that can be."""
        ratios = {}
        for metric, bound in _BOUNDS.items():
            name, most = f"{metric}_{self.quantile}_s", getattr(options, bound)
            if most is not None and not math.isnan(summary[name]):
                ratios[name] = summary[name] / most
        kept = summary["slo_attainment"]
        ratios["slo_attainment"] = self.attainment / kept if kept > 0 else math.inf
        return ratios


class Found(NamedTuple):
    """The outcome of a search, as the `summary` of a point."""

    summary: dict[str, Any]


@dataclass(frozen=True)
class CapacitySearch:
    """Takes the place of `vecsched.simulate` in a sweep: a point's result is its capacity.

    Attributes:
        criterion: when the objectives are kept.
        simulate: what simulates one load.
    """

    criterion: Criterion
    simulate: Callable[..., Any] = engine_simulate

    def __call__(
        self, trace: Trace, config: SchedulerConfig, cost: CostModel, *, metrics: MetricOptions
    ) -> Found:
        """Search one configuration.

        Returns:
            A summary: that of the run at the capacity, and `capacity_load`, the highest load that
            keeps the objectives (0: none of those tried); `capacity_requests_per_s`, the rate of
            arrivals at that load; `broke_first`, the objective that the next load misses by most
            ("": none up to the highest load tried); `simulations`, how many it took.
        """
        tried: dict[int, tuple[dict[str, Any], str]] = {}

        def broken(step: int) -> bool:
            """Run at load 2^(step / steps)."""
            if step not in tried:
                load = 2 ** (step / self.criterion.steps)
                tried[step] = self._try(_scaled(trace, load), config, cost, metrics)
            return tried[step][1] != ""

        best = _highest(broken, self.criterion.steps)
        next_up = min((step for step in tried if tried[step][1]), default=None)
        shown = best if best is not None else min(tried)
        load = 0.0 if best is None else 2 ** (best / self.criterion.steps)
        return Found(
            {
                "capacity_load": load,
                "capacity_requests_per_s": load * _rate(trace),
                "broke_first": "" if next_up is None else tried[next_up][1],
                "simulations": len(tried),
                **tried[shown][0],
            }
        )

    def _try(
        self, trace: Trace, config: SchedulerConfig, cost: CostModel, metrics: MetricOptions
    ) -> tuple[dict[str, Any], str]:
        """Return the summary at one load, and what broke ("": nothing)."""
        try:
            summary = self.simulate(trace, config, cost, metrics=metrics).summary
        except ClockOverflowError:
            return {}, CLOCK
        ratios = self.criterion.excess(summary, metrics)
        worst = max(ratios, key=ratios.__getitem__)
        return summary, worst if ratios[worst] > 1 else ""


def _highest(broken: Callable[[int], bool], steps: int) -> int | None:
    """Return the highest step that is not broken, by doubling and bisection; None: all are."""
    lowest, highest = (octave * steps for octave in _OCTAVES)
    low = high = 0
    if broken(0):
        while broken(low):
            if low == lowest:
                return None
            high, low = low, low - steps
    else:
        while not broken(high):
            if high == highest:
                return high
            low, high = high, high + steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if broken(middle) else (middle, high)
    return low


@lru_cache(maxsize=32)  # traces compare by identity; configurations try the same loads
def _scaled(trace: Trace, load: float) -> Trace:
    return trace.scaled(load)


def _rate(trace: Trace) -> float:
    """Return arrivals per second: (requests - 1) / span."""
    span = float(np.ptp(trace.arrival_s))
    return (len(trace) - 1) / span if span > 0 else math.nan
