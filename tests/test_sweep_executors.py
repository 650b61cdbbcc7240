"""Every executor keeps the contract in the module's docstring."""

import threading
from contextlib import closing

import pytest

from sweeps.executors import SerialExecutor, Task, ThreadsExecutor, choose_executor
from vecsched import Trace
from vecsched.errors import ConfigError

TRACE = Trace([0.0], [1], [1])


def tasks(count: int) -> list[Task]:
    return [Task(TRACE, [number]) for number in range(count)]  # the contract looks at no point


@pytest.fixture(params=["serial", "1", "3"])
def executor(request):
    return SerialExecutor() if request.param == "serial" else ThreadsExecutor(int(request.param))


def test_results_come_in_the_order_of_tasks(executor):
    def work(trace, points):
        return trace is TRACE, points[0] ** 2

    given = tasks(50)
    got = list(executor.run(work, given))
    assert [task for task, _ in got] == given
    assert [result for _, result in got] == [(True, number**2) for number in range(50)]


def test_order_holds_when_the_first_task_ends_last():
    last_is_done = threading.Event()

    def work(_, points):
        if points == [0]:
            assert last_is_done.wait(timeout=60)
        if points == [3]:
            last_is_done.set()
        return points[0]

    got = [result for _, result in ThreadsExecutor(2).run(work, tasks(4))]
    assert got == [0, 1, 2, 3]


def test_tasks_are_taken_in_the_callers_thread_and_not_far_ahead(executor):
    taken = []

    def count():
        for task in tasks(100):
            assert threading.current_thread() is threading.main_thread()
            taken.append(task)
            yield task

    with closing(executor.run(lambda _, points: points[0], count())) as results:
        for number in range(60):
            assert next(results)[1] == number
            assert len(taken) <= number + 1 + 4 * executor.workers


def test_an_exception_is_raised_at_its_turn(executor):
    def work(_, points):
        if points == [5]:
            raise ZeroDivisionError
        return points[0]

    results = executor.run(work, tasks(20))
    assert [next(results)[1] for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_closing_drops_what_has_not_started(executor):
    started = []
    results = executor.run(lambda _, points: started.append(points), tasks(100))
    next(results)
    results.close()
    for thread in threading.enumerate():
        if thread.name.startswith("sweep"):
            thread.join(timeout=60)
    assert len(started) <= 1 + 4 * executor.workers


def test_closing_does_not_wait_for_what_has_started():
    may_end, has_started = threading.Event(), threading.Event()

    def work(_, points):
        if points != [0]:
            has_started.set()
            assert may_end.wait(timeout=60)

    results = ThreadsExecutor(2).run(work, tasks(100))
    next(results)
    assert has_started.wait(timeout=60)
    results.close()  # would wait for ever
    may_end.set()


def test_choice_by_number_of_workers():
    assert isinstance(choose_executor(1), SerialExecutor)
    assert choose_executor(3).workers == 3
    assert choose_executor(None).workers >= 1
    with pytest.raises(ConfigError, match="workers must be a whole number >= 1, not 0"):
        choose_executor(0)
