"""A set of small whole numbers whose least member is found in a handful of instructions.

Words of 32 bits in levels: a bit of level k + 1 says that the word below it is not empty. 20,000
members fit in 2.5 kB and three levels, so the waiting queue stays in the fastest cache.
"""

from typing import NamedTuple

import numpy as np

from vecsched._jit import kernel, lowest_bit

NONE = -1


class BitSet(NamedTuple):
    """`words` holds all levels one behind the other, the members first; `start[k]` is level k's."""

    words: np.ndarray
    start: np.ndarray


def empty_bitset(size: int) -> BitSet:
    """Return an empty set that can hold 0..size-1."""
    start, total, length = [], 0, size
    while True:
        length = (length + 31) // 32
        start.append(total)
        total += length
        if length <= 1:
            return BitSet(np.zeros(max(total, 1), np.int64), np.array(start, np.int64))


@kernel
def insert(bits, member):
    """Add `member`."""
    for start in bits.start:
        word = start + (member >> 5)
        before = bits.words[word]
        bits.words[word] = before | (1 << (member & 31))
        if before != 0:
            return
        member >>= 5


@kernel
def remove(bits, member):
    """Take `member` out; it must be in."""
    for start in bits.start:
        word = start + (member >> 5)
        after = bits.words[word] & ~(1 << (member & 31))
        bits.words[word] = after
        if after != 0:
            return
        member >>= 5


@kernel
def least(bits):
    """The least member, or NONE."""
    top = len(bits.start) - 1
    if bits.words[bits.start[top]] == 0:
        return NONE
    return _descend(bits, top, 0)


@kernel
def least_from(bits, member):
    """The least member >= `member`, or NONE."""
    for level in range(len(bits.start)):
        word = member >> 5
        end = bits.start[level + 1] if level + 1 < len(bits.start) else len(bits.words)
        if bits.start[level] + word >= end:
            return NONE
        rest = (bits.words[bits.start[level] + word] >> (member & 31)) << (member & 31)
        if rest != 0:
            return _descend_from(bits, level, (word << 5) + lowest_bit(rest))
        member = word + 1
    return NONE


@kernel
def _descend(bits, level, word):
    """The least member below a word of `level` that is not empty."""
    return _descend_from(
        bits, level, (word << 5) + lowest_bit(bits.words[bits.start[level] + word])
    )


@kernel
def _descend_from(bits, level, member):
    while level > 0:
        level -= 1
        member = (member << 5) + lowest_bit(bits.words[bits.start[level] + member])
    return member
