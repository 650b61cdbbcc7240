"""Sweeps on a Dask cluster: the same bytes, whoever dies."""

import os
import signal
from concurrent.futures import CancelledError
from contextlib import closing
from types import SimpleNamespace

import pytest
from distributed import KilledWorker

from sweeps.dask_executor import DaskExecutor, connected
from sweeps.errors import WorkerError
from sweeps.executors import Task
from sweeps.run import RunOptions, run_sweep
from sweeps.spec import SweepSpec
from sweeps.workers import open_executor
from vecsched import Trace, engine_version
from vecsched.errors import ConfigError

SPEC = SweepSpec.from_mapping(
    {
        "trace": {"synthetic": "azure-conv-like", "requests": 40},
        "cost": "llama3-8b-a100",
        "axes": {
            "load": [1, 3],
            "seed": [0, 1],
            "policy": ["fcfs", "shortest_total"],
            "max_batch_size": {"from": 1, "to": 40, "steps": 40},
        },
    }
)
TRACE = Trace([0.0], [1], [1])


@pytest.fixture(scope="module")
def executor():
    with connected("local", 2) as opened:
        yield opened


@pytest.fixture(scope="module")
def address(executor):
    return executor._client.scheduler.address


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("serial") / "out.parquet"
    run_sweep(SPEC, path, RunOptions(1))
    return path.read_bytes()


class Killer:
    """Kills workers when some points are done; counts points."""

    def __init__(self, executor, moments) -> None:
        self._executor, self._moments, self.done = executor, dict(moments), 0

    def note(self, text):
        pass

    def start(self, points, workers):
        pass

    def recall(self, points, failed):
        pass

    def advance(self, points, failed):
        self.done += points
        for moment in [moment for moment in self._moments if moment <= self.done]:
            for pid in [*self._executor._client.run(os.getpid).values()][
                : self._moments.pop(moment)
            ]:
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "moments", [{}, {8: 1}, {8: 2, 160: 1}], ids=["undisturbed", "one dies", "all die, then one"]
)
def test_no_point_is_lost_or_doubled(executor, address, undisturbed, tmp_path, moments):
    path, watcher = tmp_path / "out.parquet", Killer(executor, moments)
    outcome = run_sweep(SPEC, path, RunOptions(dask=address), progress=watcher)
    assert watcher._moments == {}  # all were killed in mid-sweep
    assert (outcome.points, outcome.failed, watcher.done) == (320, 0, 320)
    assert path.read_bytes() == undisturbed


def test_tables_of_requests_come_from_workers(address, tmp_path):
    spec = SPEC.without("max_batch_size").without("seed")
    run_sweep(spec, tmp_path / "a.parquet", RunOptions(1, per_request=True))
    run_sweep(spec, tmp_path / "b.parquet", RunOptions(per_request=True, dask=address))
    tables = [
        {path.parent.name: path.read_bytes() for path in folder.glob("*/requests.parquet")}
        for folder in (tmp_path / "a.requests", tmp_path / "b.requests")
    ]
    assert len(tables[0]) == 4
    assert tables[0] == tables[1]


def square(trace, points):
    if points[0] == 50:
        raise ZeroDivisionError
    return points[0] ** 2


def test_the_contract(executor):
    """Results in order, tasks taken not far ahead, an exception at its turn."""
    taken = []

    def tasks():
        for number in range(200):
            taken.append(number)
            yield Task(TRACE, [number])

    with closing(executor.run(square, tasks())) as results:
        for number in range(50):
            task, result = next(results)
            assert (task.points, result) == ([number], number**2)
            assert len(taken) <= number + 1 + 4 * executor.workers
        with pytest.raises(ZeroDivisionError):
            next(results)


class FakeClient:
    """Hands out futures that end as told, one after another."""

    def __init__(self, *ends) -> None:
        self.ends, self.scattered = list(ends), []

    def nthreads(self):
        return {"a": 1}

    def scatter(self, objects, **_):
        self.scattered.append(objects[1])
        return objects

    def submit(self, function, *arguments, **_):
        end = self.ends.pop(0) if self.ends else function(*arguments)

        def result():
            if isinstance(end, BaseException):
                raise end
            return end

        return SimpleNamespace(result=result)

    def cancel(self, futures, **_):
        self.cancelled = futures


def test_a_trace_is_sent_once_and_again_if_it_was_lost():
    other = Trace([0.0], [2], [1])
    client = FakeClient(CancelledError(), KilledWorker("task", "worker", 3))
    given = [Task(TRACE, [1]), Task(TRACE, [2]), Task(other, [3]), Task(other, [4])]
    got = [result for _, result in DaskExecutor(client).run(square, given)]
    assert got == [1, 4, 9, 16]
    assert client.scattered == [TRACE, other, TRACE, TRACE]
    assert client.cancelled == []


def test_workers_that_keep_dying_end_the_sweep():
    client = FakeClient(*[KilledWorker("task", "worker", 3)] * 9)
    with pytest.raises(WorkerError, match="1: its workers died 3 times; see their logs"):
        list(DaskExecutor(client).run(square, [Task(TRACE, [1])]))


def test_workers_with_another_engine_are_refused():
    client = FakeClient(("0.0.1+other", 1))
    with pytest.raises(WorkerError, match=r"a worker has engine 0\.0\.1\+other, but this is") as e:
        list(DaskExecutor(client).run(square, [Task(TRACE, [1])]))
    assert engine_version() in str(e.value)


def test_clusters_that_cannot_be_used():
    no_cluster = pytest.raises(WorkerError, match=r"nowhere: no Dask workers to be had: ")
    with no_cluster, open_executor(None, "nowhere"):
        pass
    no_workers = pytest.raises(ConfigError, match="workers must be a whole number >= 1")
    with no_workers, open_executor(0, "local"):
        pass
