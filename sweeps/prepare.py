"""A sweep made ready: every part built and checked, and its points cut into tasks."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple

from sweeps.executors import Task
from sweeps.grid import (
    Grid,
    Point,
    build_grid,
    check_on_trace,
    key_context,
    point_key,
    trace_fingerprint,
)
from sweeps.spec import SweepSpec
from sweeps.store import Labels, Outcome, Summary
from vecsched import CostModel, MetricOptions, Result, Trace, engine_version
from vecsched.errors import VecschedError

Simulate = Callable[..., Result]


class TaskResult(NamedTuple):
    """What one task yields: an outcome a point, and the time they took."""

    outcomes: list[Outcome]
    seconds: float


@dataclass(frozen=True)
class PointRunner:
    """The work that executors do: simulate points over one trace."""

    simulate: Simulate
    cost: CostModel
    metrics: MetricOptions

    def __call__(self, trace: Trace, points: Sequence[Point]) -> TaskResult:
        """Simulate each point; an error that vecsched raises on purpose is its outcome."""
        started = time.perf_counter()
        outcomes = [self._outcome(trace, point) for point in points]
        return TaskResult(outcomes, time.perf_counter() - started)

    def _outcome(self, trace: Trace, point: Point) -> Outcome:
        try:
            config = point.choice.config
            result = self.simulate(trace, config, self.cost, metrics=self.metrics)
            return Outcome(result.summary)
        except VecschedError as error:
            return Outcome(None, f"{type(error).__name__}: {error}")


@dataclass
class Sweep:
    """A sweep about to run: all its parts, checked, and what is known of its traces so far."""

    spec: SweepSpec
    grid: Grid
    runner: PointRunner
    first_trace: Trace
    fingerprints: dict[int | None, str] = field(default_factory=dict)
    contexts: dict[int | None, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: SweepSpec, simulate: Simulate) -> "Sweep":
        """Build and check everything that can be wrong before the first simulation."""
        grid = build_grid(spec)
        runner = PointRunner(simulate, spec.cost_model(), spec.metric_options())
        trace = spec.trace_of(grid.seeds[0])
        check_on_trace(spec, grid, trace)
        return cls(spec, grid, runner, trace)

    def tasks(self, size: int) -> Iterator[Task]:
        """Yield the points in order, `size` to a task; build each trace when its turn comes."""
        for seed, of_seed in groupby(self.grid, key=attrgetter("seed")):
            first = seed == self.grid.seeds[0]
            trace = self.first_trace if first else self.spec.trace_of(seed)
            self._remember(seed, trace)
            for load, of_load in groupby(of_seed, key=attrgetter("load")):
                scaled = trace.scaled(load)
                while points := list(islice(of_load, size)):
                    yield Task(scaled, points)

    def _remember(self, seed: int | None, trace: Trace) -> None:
        fingerprint = trace_fingerprint(trace)
        self.fingerprints[seed] = fingerprint
        runner = self.runner
        self.contexts[seed] = key_context(
            fingerprint, runner.cost, runner.metrics, engine_version()
        )

    def key(self, point: Point) -> str:
        """Return the key of a point whose task has been made."""
        return point_key(point, self.contexts[point.seed])

    def labels(self) -> Labels:
        """Return what all rows share."""
        return Labels(self.spec.trace.label, self.runner.cost.name, engine_version())

    def sample(self) -> Summary:
        """Return a summary for its names and types: that of one short request.

        Columns that decide which metrics exist, such as tenants, are those of the trace.
        """
        columns = {column.name: getattr(self.first_trace, column.name) for column in fields(Trace)}
        first: dict[str, Any] = {name: c if c is None else c[:1] for name, c in columns.items()}
        trace = Trace(**first | {"prompt_tokens": [1], "output_tokens": [1]})
        config, metrics = self.grid.choices[0].config, self.runner.metrics
        return self.runner.simulate(trace, config, CostModel.unit(), metrics=metrics).summary

    def metadata(self) -> dict:
        """Return what the file says about itself."""
        return {
            "engine_version": engine_version(),
            "spec": self.spec.as_written(),
            "cost": self.runner.cost.to_dict(),
            "traces": [
                {"seed": seed, "fingerprint": value} for seed, value in self.fingerprints.items()
            ],
        }
