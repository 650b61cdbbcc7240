"""Run a sweep: points that are not done -> executor -> store. Resuming is that subtraction.

Per point the driver makes a key and a row, tens of microseconds beside milliseconds of simulation.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from sweeps.executors import Executor, Task, choose_executor, open_executor
from sweeps.prepare import PointRunner, Simulate, Sweep, TaskResult
from sweeps.request_tables import RequestTables, encode
from sweeps.rows import Rows, row_schema
from sweeps.space import Point, Space
from sweeps.spec import SweepSpec
from sweeps.store import Store, open_store
from vecsched import simulate as engine_simulate
from vecsched.simulation import is_compiled, warm_up

# Points in one task: few enough to share out evenly, enough that handing over costs nothing.
_TASK_POINTS = 8


class Progress(Protocol):
    """What a sweep tells its watcher, always from the thread that called `run_sweep`."""

    def note(self, text: str) -> None:
        """Say what is happening before the first point, such as compiling."""

    def start(self, points: int, workers: int) -> None:
        """Begin: so many points, so many at a time."""

    def recall(self, points: int, failed: int) -> None:
        """So many points were done by earlier runs, `failed` of them as errors."""

    def advance(self, points: int, failed: int) -> None:
        """So many more points are done, `failed` of them as errors."""


class Silent:
    """A watcher that says nothing."""

    def note(self, text: str) -> None:
        """Ignore it."""

    def start(self, points: int, workers: int) -> None:
        """Ignore it."""

    def recall(self, points: int, failed: int) -> None:
        """Ignore it."""

    def advance(self, points: int, failed: int) -> None:
        """Ignore it."""


class RunOptions(NamedTuple):
    """How to run a sweep.

    Attributes:
        workers: simulations at once; None: one a core, or all that the cluster has.
        resume: go on with what an earlier run has left, and do not repeat what it has done.
        per_request: keep every point's table of requests, too; see `sweeps.request_tables`.
        dask: "local" for a Dask cluster on this machine, or a scheduler's address; None: threads.
    """

    workers: int | None = None
    resume: bool = False
    per_request: bool = False
    dask: str | None = None


_DEFAULT = RunOptions()


class SweepOutcome(NamedTuple):
    """How a sweep went.

    Attributes:
        output: the file written.
        points: rows in it.
        resumed: those of them that were done by an earlier run.
        failed: those of them that are errors.
        first_error: the first of these, with its point; None if there is none.
        requests: requests in one trace, the first.
        workers: simulations run at once.
        seconds: wall time of all points, without compiling and reading the trace.
        seconds_simulating: time inside simulations, summed over workers.
    """

    output: Path
    points: int
    resumed: int
    failed: int
    first_error: str | None
    requests: int
    workers: int
    seconds: float
    seconds_simulating: float


class Estimate(NamedTuple):
    """What a sweep would take.

    Attributes:
        points: simulations.
        requests: requests in one trace.
        workers: simulations run at once.
        seconds: wall time of the simulations, without compiling and reading.
        seconds_per_point: one simulation in the middle of the grid, by discipline, as timed.
    """

    points: int
    requests: int
    workers: int
    seconds: float
    seconds_per_point: dict[str, float]


def run_sweep(
    spec: SweepSpec,
    output: str | Path,
    options: RunOptions = _DEFAULT,
    *,
    progress: Progress | None = None,
    simulate: Simulate | None = None,
    purpose: str = "",
) -> SweepOutcome:
    """Simulate every point of a sweep and write its table; see `sweeps.store`.

    Whatever ends it early, what is done is kept and can be resumed.

    Args:
        spec: what to run.
        output: a file, `*.parquet`, replaced when the new one is complete; or a folder of parts.
        options: how to run it; the output does not depend on the number of workers.
        progress: who is told how far it is.
        simulate: what to call in place of `vecsched.simulate`.
        purpose: what that does, if it is not just to simulate; part of every point's key.

    Returns:
        How it went. A point that vecsched refuses is a row with its error, and counted.

    Raises:
        SpecError: a configuration is impossible.
        InputError: the trace cannot be read.
        StoreError: the output cannot be written; told before the first simulation if possible.
    """
    output, watcher = Path(output), progress or Silent()
    sweep = Sweep.of(spec, purpose)
    requests = len(sweep.traces.of(spec.trace[0].label, spec.seeds_of(spec.trace[0])[0]))
    tables = RequestTables(output) if options.per_request else None
    with (
        open_store(output, resume=options.resume, note=watcher.note) as store,
        open_executor(options.workers, options.dask) as executor,
    ):
        _compile(sweep.space, watcher)
        run = _Run(sweep, store, tables, watcher)
        started = time.perf_counter()
        run.fill(executor, simulate or engine_simulate)
        store.finish(sweep.keyed())
        if tables is not None:
            tables.keep_only(key for _, key in sweep.keyed())
        seconds = time.perf_counter() - started
    return SweepOutcome(
        output=output,
        points=len(sweep.space),
        resumed=run.resumed,
        failed=run.failed,
        first_error=run.first_error,
        requests=requests,
        workers=executor.workers,
        seconds=seconds,
        seconds_simulating=run.seconds,
    )


def estimate(
    spec: SweepSpec,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    simulate: Simulate | None = None,
) -> Estimate:
    """Check a sweep and estimate its time by timing, for each discipline, its middle point.

    Arguments and errors are those of `run_sweep`; nothing is written.
    """
    executor = choose_executor(workers)
    sweep = Sweep.of(spec)
    _compile(sweep.space, progress or Silent())
    space, simulate = sweep.space, simulate or engine_simulate
    runner = PointRunner(simulate, sweep.costs, sweep.options, tuple(sweep.sample(simulate)))
    label, seed = spec.trace[0].label, spec.seeds_of(spec.trace[0])[0]
    unscaled, load = sweep.traces.of(label, seed), spec.loads[len(spec.loads) // 2]
    trace = unscaled.scaled(load)
    seconds = {}
    for discipline, count in sorted(space.disciplines.items()):
        mine = (each for each in space.choices() if each.config.discipline == discipline)
        point = Point(0, next(islice(mine, count // 2, None)), label, seed, load)
        # The first run also sorts the queue and expands the cost's tables, which points share.
        seconds[discipline] = min(runner(trace, [point]).seconds for _ in range(2))
    total = sum(seconds[name] * count for name, count in space.disciplines.items())
    return Estimate(
        points=len(space),
        requests=len(trace),
        workers=executor.workers,
        seconds=total / space.disciplines.total() * len(space) / executor.workers,
        seconds_per_point=seconds,
    )


def _compile(space: Space, watcher: Progress) -> None:
    """Compile the kernels that the points need, before workers start."""
    if not is_compiled():
        watcher.note("compiling the kernels (the first time only)")
    warm_up(sorted(space.disciplines))


class _Run:
    """The middle of a sweep: from points that are not done to rows in the store."""

    def __init__(
        self, sweep: Sweep, store: Store, tables: RequestTables | None, watcher: Progress
    ) -> None:
        self._sweep, self._store, self._tables, self._watcher = sweep, store, tables, watcher
        self.resumed = self.failed = 0
        self.seconds = 0.0
        self.first_error: str | None = None

    def fill(self, executor: Executor, simulate: Simulate) -> None:
        """Run all points that are not done, and count."""
        sweep, points = self._sweep, len(self._sweep.space)
        sample = sweep.sample(simulate)
        self._store.begin(row_schema(sample), sweep.metadata)
        self._watcher.start(points, executor.workers)
        runner = PointRunner(
            simulate,
            sweep.costs,
            sweep.options,
            metrics=tuple(sample),
            encode=None if self._tables is None else encode,
        )
        size = max(1, min(_TASK_POINTS, points // (4 * executor.workers)))
        # Tables of requests are large: one at a time is enough.
        tasks = sweep.tasks(size if self._tables is None else 1, self._is_done)
        with closing(executor.run(runner, tasks)) as results:
            for task, result in results:
                self._keep(task, result)

    def _is_done(self, point: Point, key: str) -> bool:
        done = self._store.done
        if key not in done:
            return False
        error = done[key]
        if self._tables is not None and error is None and key not in self._tables:
            return False
        self.resumed += 1
        self._watcher.recall(1, self._count([point], [error]))
        return True

    def _keep(self, task: Task, result: TaskResult) -> None:
        # A point is done when its row is on disk, so its table must be there first.
        if self._tables is not None:
            for key, table in zip(task.keys, result.tables, strict=True):
                if table is not None:
                    self._tables.write(key, table)
        self._store.append(Rows(task.points, task.keys, result.outcomes))
        self.seconds += result.seconds
        failed = self._count(task.points, result.outcomes.errors)
        self._watcher.advance(len(task.points), failed)

    def _count(self, points: Sequence[Point], errors: Sequence[str | None]) -> int:
        failed = [pair for pair in zip(points, errors, strict=True) if pair[1] is not None]
        if failed and self.first_error is None:
            self.first_error = "{}: {}".format(*failed[0])
        self.failed += len(failed)
        return len(failed)
