"""When active decodes finish: a ring of iteration numbers, each with a list of requests.

A decode that is served in every iteration is nothing but the number of the iteration in which it
finishes. Those numbers lie less than the longest output ahead, so a ring of that size replaces a
heap: entering, leaving and finding the next one take the same few steps however large the batch.
"""

from typing import NamedTuple

import numpy as np

from vecsched._jit import kernel
from vecsched.kernels.bitset import (
    NONE,
    BitSet,
    empty_bitset,
    insert,
    least,
    least_from,
    remove,
)


class Calendar(NamedTuple):
    """`first[i & mask]` heads the doubly linked list of the requests that finish in iteration i."""

    first: np.ndarray
    after: np.ndarray
    before: np.ndarray
    days: BitSet
    mask: int


def empty_calendar(requests: int, longest: int) -> Calendar:
    """Return a calendar for row numbers below `requests` and at most `longest` iterations ahead."""
    size = 1 << int(longest + 1).bit_length()
    return Calendar(
        first=np.full(size, NONE, np.int32),
        after=np.empty(requests, np.int32),
        before=np.empty(requests, np.int32),
        days=empty_bitset(size),
        mask=size - 1,
    )


@kernel
def enter(calendar, iteration, row):
    """Note that `row` finishes in `iteration`."""
    day = iteration & calendar.mask
    following = calendar.first[day]
    calendar.after[row] = following
    calendar.before[row] = NONE
    calendar.first[day] = row
    if following == NONE:
        insert(calendar.days, day)
    else:
        calendar.before[following] = row


@kernel
def leave(calendar, iteration, row):
    """Take out `row`, which was to finish in `iteration`."""
    day = iteration & calendar.mask
    following, preceding = calendar.after[row], calendar.before[row]
    if following != NONE:
        calendar.before[following] = preceding
    if preceding != NONE:
        calendar.after[preceding] = following
    else:
        calendar.first[day] = following
        if following == NONE:
            remove(calendar.days, day)


@kernel
def iterations_to_next(calendar, iteration):
    """Iterations from `iteration` to the first one in which a request finishes, or NONE."""
    today = iteration & calendar.mask
    day = least_from(calendar.days, today)
    if day == NONE:
        day = least(calendar.days)
    return NONE if day == NONE else (day - today) & calendar.mask


@kernel
def due(calendar, iteration):
    """One of the requests that finish in `iteration`; NONE when there are no more."""
    return calendar.first[iteration & calendar.mask]
