"""Run a sweep: points that are not done -> executor -> store. Resuming is that subtraction.

Per point the driver makes a key and a row, tens of microseconds beside milliseconds of simulation.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sweeps.executors import Executor, Task
from sweeps.plans import plan_of
from sweeps.prepare import PointRunner, Simulate, Sweep, TaskResult
from sweeps.request_tables import RequestTables, encode
from sweeps.rows import Rows, row_schema
from sweeps.space import Point, Space
from sweeps.spec import SweepSpec
from sweeps.store import Store, open_store
from sweeps.watching import Progress, Silent
from sweeps.workers import open_executor
from vecsched import simulate as engine_simulate
from vecsched.simulation import is_compiled, warm_up

# Points in one task: few enough to share out evenly, enough that handing over costs nothing.
_TASK_POINTS = 8


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
        compile_kernels(sweep.space, watcher)
        run = _Run(sweep, store, tables, watcher)
        plan = plan_of(sweep, output, options.resume)
        started = time.perf_counter()
        run.begin(executor, simulate or engine_simulate, len(plan))
        for batch in plan.batches(run.rows):
            run.fill(batch)
        store.finish(sweep.keyed(plan.points()))
        if tables is not None:
            tables.keep_only(key for _, key in sweep.keyed(plan.points()))
        seconds = time.perf_counter() - started
    return SweepOutcome(
        output=output,
        points=run.points,
        resumed=run.resumed,
        failed=run.failed,
        first_error=run.first_error,
        requests=requests,
        workers=executor.workers,
        seconds=seconds,
        seconds_simulating=run.seconds,
    )


def compile_kernels(space: Space, watcher: Progress) -> None:
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
        self.points = self.resumed = self.failed = 0
        self.seconds = 0.0
        self.first_error: str | None = None

    def begin(self, executor: Executor, simulate: Simulate, points: int) -> None:
        """Say what runs the points, and how many there will be."""
        sweep, sample = self._sweep, self._sweep.sample(simulate)
        self._store.begin(row_schema(sample), sweep.metadata)
        self._watcher.start(points, executor.workers)
        self._executor = executor
        self._runner = PointRunner(
            simulate,
            sweep.costs,
            sweep.options,
            metrics=tuple(sample),
            encode=None if self._tables is None else encode,
        )
        size = max(1, min(_TASK_POINTS, points // (4 * executor.workers)))
        # Tables of requests are large: one at a time is enough.
        self._size = size if self._tables is None else 1

    def fill(self, points: Iterable[Point]) -> None:
        """Run those points that are not done, and count."""
        tasks = self._sweep.tasks(points, self._size, self._is_done)
        with closing(self._executor.run(self._runner, tasks)) as results:
            for task, result in results:
                self._keep(task, result)

    def rows(self, points: Iterable[Point]) -> pa.Table:
        """Return the rows of points that have run."""
        return self._store.rows([key for _, key in self._sweep.keyed(points)])

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
        self.points += len(points)
        failed = [pair for pair in zip(points, errors, strict=True) if pair[1] is not None]
        if failed and self.first_error is None:
            self.first_error = "{}: {}".format(*failed[0])
        self.failed += len(failed)
        return len(failed)
