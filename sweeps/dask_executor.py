"""Simulations on a Dask cluster, for those who outgrow one machine.

Workers are processes, here or elsewhere. A trace is sent to each of them once; points go in tasks,
results come back as columns, and only this process writes. A worker may die: Dask gives its tasks
to another, and what was lost with it is sent again. Workers must run this process's engine.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from typing import Any

from distributed import Client, Future, KilledWorker, LocalCluster

from sweeps.errors import WorkerError
from sweeps.executors import Result, Results, Task, Work, choose_executor
from sweeps.space import Point
from vecsched import Trace, engine_version

LOCAL = "local"

_SECONDS_TO_CONNECT = 30
# How often a task is sent again by us, after Dask itself has given it to several workers.
_ATTEMPTS = 3


class DaskExecutor:
    """Runs tasks on the workers of a client; see `sweeps.executors` for the contract."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.workers = sum(client.nthreads().values())

    def run(self, work: Work[Result], tasks: Iterable[Task]) -> Results[Result]:
        """Run tasks up to a few ahead of the one whose result is due."""
        ahead = 4 * self.workers
        sent: deque[tuple[Task, Future]] = deque()
        placed: _Placed | None = None
        try:
            for task in tasks:
                if placed is None or placed.trace is not task.trace:
                    placed = _Placed(self._client, work, task.trace)
                sent.append((task, placed.submit(task)))
                if len(sent) == ahead:
                    yield self._oldest(work, sent)
            while sent:
                yield self._oldest(work, sent)
        finally:
            self._client.cancel([future for _, future in sent], force=True)

    def _oldest(self, work: Work[Result], sent: deque[tuple[Task, Future]]) -> tuple[Task, Result]:
        """Wait for the task that was sent first; send it again if all its workers died."""
        task, future = sent.popleft()
        for _ in range(_ATTEMPTS):
            try:
                version, result = future.result()
            except (CancelledError, KilledWorker):
                future = _Placed(self._client, work, task.trace).submit(task)
                continue
            if version != engine_version():
                raise WorkerError(f"a worker has engine {version}, but this is {engine_version()}")
            return task, result
        raise WorkerError(f"{task.points[0]}: its workers died {_ATTEMPTS} times; see their logs")


class _Placed:
    """A trace, and the work to do on it, on all workers."""

    def __init__(self, client: Client, work: Work, trace: Trace) -> None:
        self.trace, self._client = trace, client
        self._work, self._trace = client.scatter([work, trace], broadcast=True, hash=False)

    def submit(self, task: Task) -> Future:
        return self._client.submit(_call, self._work, self._trace, task.points, pure=False)


def _call(work: Work[Result], trace: Trace, points: Sequence[Point]) -> tuple[str, Result]:
    """Run on the worker."""
    return engine_version(), work(trace, points)


@contextmanager
def connected(address: str, workers: int | None) -> Iterator[DaskExecutor]:
    """Connect to a cluster, or start one.

    Args:
        address: of a scheduler, `tcp://HOST:PORT`; or "local", for a cluster on this machine that
            ends with the block.
        workers: how many a local cluster has; None: one a core.

    Raises:
        ConfigError: the number is below one.
        WorkerError: the scheduler cannot be reached, or has no workers.
    """
    count = choose_executor(workers).workers
    with ExitStack() as opened:
        try:
            scheduler = opened.enter_context(_scheduler(address, count))
            client = opened.enter_context(Client(scheduler, timeout=_SECONDS_TO_CONNECT))
            client.wait_for_workers(1, timeout=_SECONDS_TO_CONNECT)
        except (OSError, ValueError) as error:
            raise WorkerError(f"{address}: no Dask workers to be had: {error}") from error
        yield DaskExecutor(client)


@contextmanager
def _scheduler(address: str, count: int) -> Iterator[Any]:
    if address != LOCAL:
        yield address
        return
    # One thread each: processes share nothing, so more threads would only share their GIL.
    with LocalCluster(count, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster
