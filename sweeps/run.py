"""Run a sweep: points -> executor -> store.

Per point the driver makes a key and a row, tens of microseconds beside milliseconds of simulation.
"""

import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol

from sweeps.executors import Executor, choose_executor
from sweeps.grid import Grid, Point
from sweeps.prepare import Simulate, Sweep
from sweeps.spec import SweepSpec
from sweeps.store import SweepTable, atomic_file
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

    def advance(self, points: int, failed: int) -> None:
        """So many more points are done, `failed` of them as errors."""


class Silent:
    """A watcher that says nothing."""

    def note(self, text: str) -> None:
        """Ignore it."""

    def start(self, points: int, workers: int) -> None:
        """Ignore it."""

    def advance(self, points: int, failed: int) -> None:
        """Ignore it."""


class SweepOutcome(NamedTuple):
    """How a sweep went.

    Attributes:
        output: the file written.
        points: rows in it.
        failed: those of them that are errors.
        first_error: the first of these, with its point; None if there is none.
        requests: requests in one trace.
        workers: simulations run at once.
        seconds: wall time of all points, without compiling and reading the trace.
        seconds_simulating: time inside simulations, summed over workers.
    """

    output: Path
    points: int
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
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    simulate: Simulate | None = None,
) -> SweepOutcome:
    """Simulate every point of a sweep and write one Parquet file; see `sweeps.store`.

    Args:
        spec: what to run.
        output: the file, replaced if it exists; written complete or not at all.
        workers: simulations at once; None: one a core. The file does not depend on it.
        progress: who is told how far it is.
        simulate: what to call in place of `vecsched.simulate`.

    Returns:
        How it went. A point that vecsched refuses is a row with its error, and counted.

    Raises:
        SpecError: a configuration is impossible.
        InputError: the trace cannot be read.
        StoreError: the output cannot be written; told before the first simulation if possible.
    """
    output, watcher = Path(output), progress or Silent()
    executor = choose_executor(workers)
    sweep = Sweep.of(spec, simulate or engine_simulate)
    with atomic_file(output) as file:
        if simulate is None:
            _compile(sweep.grid, watcher)
        with SweepTable(file, output, sweep.labels(), sweep.sample()) as table:
            started = time.perf_counter()
            failed, first_error, simulating = _fill(table, sweep, executor, watcher)
            table.finish(sweep.metadata())
            seconds = time.perf_counter() - started
    return SweepOutcome(
        output=output,
        points=len(sweep.grid),
        failed=failed,
        first_error=first_error,
        requests=len(sweep.first_trace),
        workers=executor.workers,
        seconds=seconds,
        seconds_simulating=simulating,
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
    sweep = Sweep.of(spec, simulate or engine_simulate)
    if simulate is None:
        _compile(sweep.grid, progress or Silent())
    grid, runner = sweep.grid, sweep.runner
    trace = sweep.first_trace.scaled(grid.loads[len(grid.loads) // 2])
    seconds = {}
    for discipline in sorted({choice.config.discipline for choice in grid.choices}):
        mine = [choice for choice in grid.choices if choice.config.discipline == discipline]
        point = Point(0, mine[len(mine) // 2], 1.0, None)
        # The first run also sorts the queue and expands the cost's tables, which points share.
        seconds[discipline] = min(runner(trace, [point]).seconds for _ in range(2))
    mean = sum(seconds[choice.config.discipline] for choice in grid.choices) / len(grid.choices)
    return Estimate(
        points=len(grid),
        requests=len(trace),
        workers=executor.workers,
        seconds=mean * len(grid) / executor.workers,
        seconds_per_point=seconds,
    )


def _compile(grid: Grid, watcher: Progress) -> None:
    """Compile the kernels that the grid needs, before workers start."""
    if not is_compiled():
        watcher.note("compiling the kernels (the first time only)")
    warm_up(sorted({choice.config.discipline for choice in grid.choices}))


def _fill(
    table: SweepTable, sweep: Sweep, executor: Executor, watcher: Progress
) -> tuple[int, str | None, float]:
    """Run all points into the table; return how many failed, the first error, and seconds."""
    watcher.start(len(sweep.grid), executor.workers)
    size = max(1, min(_TASK_POINTS, len(sweep.grid) // (4 * executor.workers)))
    failed, first_error, simulating = 0, None, 0.0
    with closing(executor.run(sweep.runner, sweep.tasks(size))) as results:
        for task, result in results:
            errors = 0
            for point, outcome in zip(task.points, result.outcomes, strict=True):
                table.append(point, sweep.key(point), outcome)
                if outcome.error is not None:
                    errors += 1
                    first_error = first_error or f"{point}: {outcome.error}"
            failed, simulating = failed + errors, simulating + result.seconds
            watcher.advance(len(task.points), errors)
    return failed, first_error, simulating
