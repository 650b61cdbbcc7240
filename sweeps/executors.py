"""Where simulations run: in this thread, in threads over the cores, or on a cluster.

**The contract of an executor**, for the next one to keep in one file, as `sweeps.dask_executor`:

- `run(work, tasks)` calls `work(task.trace, task.points)` once for each task and yields
  `(task, result)` in the order of `tasks`, whatever finishes first.
- Tasks are taken from the iterable in the caller's thread and only a bounded number ahead of what
  has been yielded, so the iterable may build each trace when its turn comes.
- Consecutive tasks over the same trace hold the very same object: it need be sent or placed once
  for all of them. Nobody writes to it.
- `work` and its results can be pickled, and `work` has no side effects: an executor that loses a
  worker may call it again with the same task.
- An exception in `work` is raised from `run` at its task's turn. Closing the iterator, or an
  exception, drops what has not been started and does not wait for what has: it may take long, and
  nobody wants its result.
- `workers` says how many simulations can run at once.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeVar

from sweeps.space import Point
from vecsched import Trace
from vecsched.errors import ConfigError

Result = TypeVar("Result")


class Task(NamedTuple):
    """A handful of consecutive points over one trace; their keys stay with whoever made it."""

    trace: Trace
    points: Sequence[Point]
    keys: Sequence[str] = ()


Work = Callable[[Trace, Sequence[Point]], Result]
Results = Generator[tuple[Task, Result], None, None]


class Executor(Protocol):
    """See the module's docstring for the contract."""

    workers: int

    def run(self, work: Work[Result], tasks: Iterable[Task]) -> Results[Result]:
        """Call `work` for each task; yield tasks with their results, in order."""


class SerialExecutor:
    """One simulation after another in the caller's thread: the easiest to debug and to profile."""

    workers = 1

    def run(self, work: Work[Result], tasks: Iterable[Task]) -> Results[Result]:
        """Run each task when its result is asked for."""
        for task in tasks:
            yield task, work(task.trace, task.points)


class ThreadsExecutor:
    """A pool of threads. The kernels release the GIL, so each thread keeps a core busy."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, work: Work[Result], tasks: Iterable[Task]) -> Results[Result]:
        """Run tasks up to a few ahead of the one whose result is due."""
        ahead = 4 * self.workers  # enough that a slow task does not leave the other threads idle
        started: deque[tuple[Task, Future[Result]]] = deque()
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="sweep")
        try:
            for task in tasks:
                started.append((task, pool.submit(work, task.trace, task.points)))
                if len(started) == ahead:
                    yield _oldest(started)
            while started:
                yield _oldest(started)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _oldest(started: deque[tuple[Task, Future[Result]]]) -> tuple[Task, Result]:
    """Wait for the task that was started first."""
    task, future = started.popleft()
    return task, future.result()


def available_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only some systems can restrict a process to certain cores
        return os.cpu_count() or 1


def choose_executor(workers: int | None) -> Executor:
    """Return the executor for a number of workers; None: one a core.

    Raises:
        ConfigError: the number is below one.
    """
    workers = available_cores() if workers is None else workers
    if workers < 1:
        raise ConfigError(f"workers must be a whole number >= 1, not {workers!r}")
    return SerialExecutor() if workers == 1 else ThreadsExecutor(workers)
