"""A sweep made ready: every part built and checked, and its points cut into tasks."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from sweeps.executors import Task
from sweeps.keys import key_context, point_key, trace_fingerprint
from sweeps.rows import Outcomes, Summary, outcomes_of
from sweeps.space import Point, Space, check_on_trace
from sweeps.spec import SweepSpec
from vecsched import CostModel, MetricOptions, Trace, engine_version
from vecsched.errors import VecschedError


class Summarised(Protocol):
    """What a simulation, or what takes its place, returns."""

    @property
    def summary(self) -> Summary:
        """The metrics, by name."""


Simulate = Callable[..., Summarised]
IsDone = Callable[[Point, str], bool]


class TaskResult(NamedTuple):
    """What one task yields: what became of its points, and the time they took.

    `tables` holds, if asked for, each point's table of requests as the bytes of a Parquet file.
    """

    outcomes: Outcomes
    tables: list[bytes | None]
    seconds: float


@dataclass(frozen=True)
class PointRunner:
    """The work that executors do: simulate points over one trace.

    Attributes:
        simulate: what simulates.
        costs: the cost models, by name.
        options: how metrics are taken.
        metrics: their names.
        encode: turns a result into the table that is kept of it; None: only its summary is.
    """

    simulate: Simulate
    costs: Mapping[str, CostModel]
    options: MetricOptions
    metrics: tuple[str, ...]
    encode: Callable[[Any], bytes] | None = None

    def __call__(self, trace: Trace, points: Sequence[Point]) -> TaskResult:
        """Simulate each point; an error that vecsched raises on purpose is its outcome."""
        started = time.perf_counter()
        summaries, tables, errors = zip(*(self._run(trace, each) for each in points), strict=True)
        seconds = time.perf_counter() - started
        return TaskResult(outcomes_of(summaries, list(errors), self.metrics), list(tables), seconds)

    def _run(self, trace: Trace, point: Point) -> tuple[Summary | None, bytes | None, str | None]:
        """Return a point's summary and table, or its error."""
        cost = self.costs[point.choice.cost]
        try:
            # A result holds megabytes: it goes before the next one comes.
            result = self.simulate(trace, point.choice.config, cost, metrics=self.options)
            table = None if self.encode is None else self.encode(result)
            return result.summary, table, None
        except VecschedError as error:
            return None, None, f"{type(error).__name__}: {error}"


@dataclass
class Traces:
    """The traces of a sweep, before they are scaled to a load; the last one stays at hand."""

    spec: SweepSpec
    _last: tuple[str, int | None, Trace] | None = None

    def of(self, label: str, seed: int | None) -> Trace:
        """Read or draw a trace.

        Raises:
            InputError: the file cannot be read, naming file, row, field and value.
        """
        if self._last is None or self._last[:2] != (label, seed):
            (section,) = (each for each in self.spec.trace if each.label == label)
            self._last = (label, seed, self.spec.trace_of(section, seed))
        return self._last[2]


@dataclass
class Sweep:
    """A sweep about to run: all its parts, checked, and what is known of its traces so far."""

    spec: SweepSpec
    space: Space
    traces: Traces
    costs: dict[str, CostModel]
    options: MetricOptions
    purpose: str
    _shortest: list[Trace]
    _fingerprints: dict[tuple[str, int | None], str] = field(default_factory=dict)
    _contexts: dict[tuple[str, int | None, str], bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: SweepSpec, purpose: str = "") -> "Sweep":
        """Build and check everything that can be wrong before the first simulation.

        Args:
            spec: the sweep.
            purpose: what is done with each point, if it is not just simulated; part of every key.
        """
        costs, options = spec.cost_models(), spec.metric_options()
        space, traces = Space(spec, tuple(costs)), Traces(spec)
        shortest = []
        for section in reversed(spec.trace):  # so that the first one stays at hand
            trace = traces.of(section.label, spec.seeds_of(section)[0])
            check_on_trace(spec, space, section, trace)
            shortest.append(_first_of(trace))
        return cls(spec, space, traces, costs, options, purpose, shortest)

    def sample(self, simulate: Simulate) -> Summary:
        """Return a summary for the names and types of all metrics."""
        config, cost = next(self.space.choices()).config, CostModel.unit()
        sample: dict[str, int | float | str] = {}
        for trace in self._shortest:
            result = simulate(trace, config, cost, metrics=self.options)
            sample = {**result.summary, **sample}
        return sample

    def tasks(self, points: Iterable[Point], size: int, is_done: IsDone) -> Iterator[Task]:
        """Yield the points that are not done, in order, `size` to a task.

        Each trace is built when its turn comes; points over one trace must stand together.
        """
        for (label, seed), of_trace in groupby(points, key=attrgetter("trace", "seed")):
            trace = self.traces.of(label, seed)
            self._remember(label, seed, trace)
            for load, of_load in groupby(of_trace, key=attrgetter("load")):
                scaled = None
                left = ((p, key) for p, key in self.keyed(of_load) if not is_done(p, key))
                while some := list(islice(left, size)):
                    scaled = scaled or trace.scaled(load)
                    yield Task(scaled, *zip(*some, strict=True))

    def keyed(self, points: Iterable[Point]) -> Iterator[tuple[Point, str]]:
        """Yield points with their keys; when all their tasks have been made."""
        for point in points:
            context = self._contexts[point.trace, point.seed, point.choice.cost]
            yield point, point_key(point, context)

    def metadata(self) -> dict[str, Any]:
        """Return what the output says about itself."""
        return {
            "engine_version": engine_version(),
            **({"purpose": self.purpose} if self.purpose else {}),
            "spec": self.spec.as_written(),
            "costs": [cost.to_dict() for cost in self.costs.values()],
            "traces": [
                {"trace": label, "seed": seed, "fingerprint": value}
                for (label, seed), value in self._fingerprints.items()
            ],
        }

    def _remember(self, label: str, seed: int | None, trace: Trace) -> None:
        if (label, seed) in self._fingerprints:
            return
        fingerprint = self._fingerprints[label, seed] = trace_fingerprint(trace)
        for name, cost in self.costs.items():
            context = key_context(fingerprint, cost, self.options, engine_version() + self.purpose)
            self._contexts[label, seed, name] = context


def _first_of(trace: Trace) -> Trace:
    """Return a trace of one short request.

    Columns that decide which metrics exist, such as tenants, are those of the trace.
    """
    columns = {column.name: getattr(trace, column.name) for column in fields(Trace)}
    first: dict[str, Any] = {
        name: column[:1] for name, column in columns.items() if isinstance(column, np.ndarray)
    }
    return Trace(**first | {"prompt_tokens": [1], "output_tokens": [1]})
