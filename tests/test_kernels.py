"""The kernels' building blocks against the plainest Python that does the same.

Kernels cannot be called from Python once they are compiled; the small entry points here play a
whole script of calls and note every answer.
"""

import itertools

import numpy as np
import pytest

from vecsched._jit import JIT_ENABLED, entry_point
from vecsched.kernels.bitset import NONE, empty_bitset, insert, least, least_from, remove
from vecsched.kernels.calendar import due, empty_calendar, enter, iterations_to_next, leave
from vecsched.kernels.stretch import iterations_to_reach, stretch_ps

SIZES = (1, 2, 31, 32, 33, 1024, 1025, 32**3 + 5)
STEPS = 4000 if JIT_ENABLED else 400


# The set of waiting requests.

INSERT, REMOVE, LEAST, LEAST_FROM = range(4)


@entry_point
def play_on_bitset(bits, script, answers):
    for place in range(len(script)):
        action, member = script[place, 0], script[place, 1]
        if action == INSERT:
            insert(bits, member)
        elif action == REMOVE:
            remove(bits, member)
        elif action == LEAST:
            answers[place] = least(bits)
        else:
            answers[place] = least_from(bits, member)


@pytest.mark.parametrize("size", SIZES)
def test_bitset(size):
    draw = np.random.default_rng(size)
    members, script, expected = set(), [], []
    for _ in range(STEPS):
        member = int(draw.integers(size))
        # Mostly empty at first, nearly full later, so that all levels change.
        full = len(members) > size * len(script) / STEPS
        if member in members and full:
            members.remove(member)
            script.append((REMOVE, member))
        elif not full:
            members.add(member)
            script.append((INSERT, member))
        else:
            script.append((LEAST, 0))
        expected.append(min(members, default=NONE) if script[-1][0] == LEAST else NONE)
        start = int(draw.integers(size + 1))  # the place behind the last one is asked for too
        script.append((LEAST_FROM, start))
        expected.append(min((m for m in members if m >= start), default=NONE))
    answers = np.full(len(script), NONE, np.int64)
    play_on_bitset(empty_bitset(size), np.array(script), answers)
    assert answers.tolist() == expected


# The calendar of finishing decodes.

ENTER, LEAVE, NEXT, POP = range(4)


@entry_point
def play_on_calendar(calendar, script, answers):
    for place in range(len(script)):
        action, iteration, row = script[place, 0], script[place, 1], script[place, 2]
        if action == ENTER:
            enter(calendar, iteration, row)
        elif action == LEAVE:
            leave(calendar, iteration, row)
        elif action == NEXT:
            answers[place] = iterations_to_next(calendar, iteration)
        else:
            answers[place] = due(calendar, iteration)
            if answers[place] != NONE:
                leave(calendar, iteration, answers[place])


@pytest.mark.parametrize("longest", [1, 2, 3, 30, 31, 500])
def test_calendar(longest):
    draw = np.random.default_rng(longest)
    rows = 40
    due, script, expected, now = {}, [], [], 0
    for _ in range(STEPS // 4):
        for row in draw.permutation(rows)[: draw.integers(1, 6)].tolist():
            if row in due:
                script.append((LEAVE, due.pop(row), row))
            else:
                due[row] = now + int(draw.integers(1, longest + 1))
                script.append((ENTER, due[row], row))
            expected.append(None)
        ahead = min((day - now - 1 for day in due.values()), default=NONE)
        script.append((NEXT, now + 1, NONE))
        expected.append(ahead)
        # Time may stop short of the next one, but never passes it.
        now += 1 + int(draw.integers(max(ahead, 0) + 1))
        today = [row for row, day in due.items() if day == now]
        for row in today:
            del due[row]
        script += [(POP, now, NONE)] * (len(today) + 1)
        expected += [*[set(today)] * len(today), NONE]
    answers = np.full(len(script), NONE, np.int64)
    play_on_calendar(empty_calendar(rows, longest), np.array(script), answers)
    popped = set()
    for answer, right in zip(answers.tolist(), expected, strict=True):
        if isinstance(right, set):  # of those that are due, in any order, each once
            assert answer in right - popped
            popped.add(answer)
        elif right is not None:
            assert answer == right
            popped.clear()


# Closed forms.


@entry_point
def play_stretches(cases, answers):
    for place in range(len(cases)):
        span, first, step, most = cases[place]
        answers[place] = iterations_to_reach(span, first, step, most)


def least_iterations(span, first, step, most):
    """By bisection in Python's unbounded integers: durations never fall."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if stretch_in_python(middle, first, step) >= span:
            high = middle
        else:
            low = middle + 1
    return low


def stretch_in_python(iterations, first, step):
    return sum([iterations * first, step * (iterations * (iterations - 1) // 2)])


def check_stretches(cases):
    answers = np.zeros(len(cases), np.int64)
    play_stretches(np.array(cases, np.int64), answers)
    assert answers.tolist() == [least_iterations(*case) for case in cases]


def test_iterations_to_reach_small():
    spans, small, most = range(-1, 30), range(6), (0, 1, 2, 7, 40)
    cases = [
        (span, first, step, limit)
        for span, first, step, limit in itertools.product(spans, small, small, most)
        if first > 0 or step == 0  # decodes that grow read something to begin with
    ]
    check_stretches(cases)


def test_iterations_to_reach_large():
    """Around each exact duration of stretches of all sizes up to the end of the clock."""
    draw = np.random.default_rng(1)
    cases = [(2**63 - 1, 5, 1, 100), (2**63 - 1, 0, 0, 9), (1, 0, 0, 9)]
    while len(cases) < STEPS:
        most = 2 ** int(draw.integers(1, 31))
        first = int(draw.integers(1, 2 ** int(draw.integers(1, 61))))
        step = int(draw.integers(0, 2 ** int(draw.integers(1, 50)))) * int(draw.integers(2))
        if stretch_in_python(most, first, step) >= 2**62:
            continue
        exact = stretch_in_python(int(draw.integers(1, most + 1)), first, step)
        cases += [(exact + offset, first, step, most) for offset in (-1, 0, 1)]
    check_stretches(cases)


@entry_point
def play_stretch_ps(cases, answers):
    for place in range(len(cases)):
        iterations, first, step = cases[place]
        answers[place] = stretch_ps(iterations, first, step)


def test_a_stretch_is_the_sum_of_its_iterations():
    cases = list(itertools.product((1, 2, 3, 9), (0, 1, 7, 2**40), (0, 1, 5, 2**30)))
    answers = np.zeros(len(cases), np.int64)
    play_stretch_ps(np.array(cases), answers)
    assert answers.tolist() == [sum(f + k * s for k in range(n)) for n, f, s in cases]
