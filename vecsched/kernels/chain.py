"""Doubly linked lists of rows, each row in one list at most."""

from typing import NamedTuple

import numpy as np

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE


class Chains(NamedTuple):
    """Lists of rows by number.

    Attributes:
        first, last: the ends of each list, or NONE.
        ahead, behind: the neighbours of each row, or NONE.
    """

    first: np.ndarray
    last: np.ndarray
    ahead: np.ndarray
    behind: np.ndarray


def empty_chains(lists: int, rows: int) -> Chains:
    """Return lists with room for so many rows in all."""
    return Chains(
        first=np.full(lists, NONE, np.int64),
        last=np.full(lists, NONE, np.int64),
        ahead=np.empty(rows, np.int64),
        behind=np.empty(rows, np.int64),
    )


@kernel
def link_behind(chains, number, ahead, row):
    """Put `row` into a list behind `ahead`, which is in it; NONE: to its beginning."""
    behind = chains.first[number] if ahead == NONE else chains.behind[ahead]
    chains.ahead[row], chains.behind[row] = ahead, behind
    if ahead == NONE:
        chains.first[number] = row
    else:
        chains.behind[ahead] = row
    if behind == NONE:
        chains.last[number] = row
    else:
        chains.ahead[behind] = row


@kernel
def link_last(chains, number, row):
    """Put `row` to the end of a list."""
    link_behind(chains, number, chains.last[number], row)


@kernel
def unlink(chains, number, row):
    """Take `row` out of a list; its own links stay readable."""
    ahead, behind = chains.ahead[row], chains.behind[row]
    if ahead == NONE:
        chains.first[number] = behind
    else:
        chains.behind[ahead] = behind
    if behind == NONE:
        chains.last[number] = ahead
    else:
        chains.ahead[behind] = ahead
