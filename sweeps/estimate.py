"""What a sweep would take: its points counted, and a few of them timed."""

from itertools import islice
from typing import NamedTuple

from sweeps.executors import choose_executor
from sweeps.prepare import PointRunner, Simulate, Sweep
from sweeps.run import compile_kernels
from sweeps.space import Point
from sweeps.spec import SweepSpec
from sweeps.watching import Progress, Silent
from vecsched import simulate as engine_simulate


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
    compile_kernels(sweep.space, progress or Silent())
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
