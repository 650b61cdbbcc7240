"""What is kept of KV that nobody holds: the free queue of blocks, in two forms.

A block that is given back keeps its *hash* (it stands for its tokens and all before them) until it
is taken again, from the head of the queue. If prompts have nothing in common, only a preempted
request can find blocks again: its own. Then the queue is a list of *runs*, one for each such
request, and nothing is kept of single blocks. Otherwise there is a *pool* with every block in it.
"""

from typing import NamedTuple

import numpy as np

from vecsched.kernels.bitset import NONE
from vecsched.kernels.chain import Chains, empty_chains

# How the free queue is kept: only its length; as runs; block by block.
NO_CACHE, RUNS, POOL = range(3)


class Runs(NamedTuple):
    """Blocks of waiting requests that were preempted; by row, (0,) if there are no runs.

    Attributes:
        kept: blocks of the request that are still there: its first ones.
        dead: blocks that nobody can find, between the run ahead and this one.
        order: the runs in the order of the queue.
        left: whether one of its blocks was left behind in the queue when it was admitted again.
    """

    kept: np.ndarray
    dead: np.ndarray
    order: Chains
    left: np.ndarray


class Pool(NamedTuple):
    """Every block of the cache, numbered from 1; number 0 is both ends of the free queue.

    Block b of a request has the key `keys[begin[row] + b]`: a number for its tokens and all before
    them, the same for all requests that begin alike.

    Attributes:
        after, before: the free queue, by block.
        holders: requests that hold it, by block.
        key: the key whose hash it carries, or NONE, by block.
        twin: the block that got the same hash next, or NONE, by block.
        first: the block that has had a hash longest, or NONE, by key.
        keys, begin: of the requests' blocks.
        table: the blocks a member holds, laid out like `keys`.
        held: how many those are, by row.
        hashed: how many of them were given their hash, by row.
        days: steady members by the iterations (mod block_size) in which they take a block, in
            running order.
    """

    after: np.ndarray
    before: np.ndarray
    holders: np.ndarray
    key: np.ndarray
    twin: np.ndarray
    first: np.ndarray
    keys: np.ndarray
    begin: np.ndarray
    table: np.ndarray
    held: np.ndarray
    hashed: np.ndarray
    days: Chains


class Cache(NamedTuple):
    """The form of the free queue; `bare_last`: blocks without a hash go to its tail, too."""

    kind: int
    bare_last: bool
    runs: Runs
    pool: Pool


def empty_runs(requests: int) -> Runs:
    """Return no runs, with room for one of each request."""
    return Runs(
        kept=np.zeros(requests, np.int64),
        dead=np.zeros(requests, np.int64),
        order=empty_chains(1, requests),
        left=np.zeros(requests, np.bool_),
    )


def full_pool(
    blocks: int, different: int, keys: np.ndarray, begin: np.ndarray, block_size: int
) -> Pool:
    """Return a pool of free blocks, in order of their numbers.

    Args:
        blocks: how many.
        different: keys there are.
        keys: int32, of the blocks of all requests.
        begin: int64 (n,), where each request's begin.
        block_size: tokens of a block.
    """
    number = np.arange(blocks + 1, dtype=np.int32)
    return Pool(
        after=np.roll(number, -1),
        before=np.roll(number, 1),
        holders=np.zeros(blocks + 1, np.int32),
        key=np.full(blocks + 1, NONE, np.int32),
        twin=np.empty(blocks + 1, np.int32),
        first=np.full(different, NONE, np.int32),
        keys=keys,
        begin=begin,
        table=np.empty(len(keys), np.int32),
        held=np.zeros(len(begin), np.int64),
        hashed=np.zeros(len(begin), np.int64),
        days=empty_chains(block_size, len(begin)),
    )


NO_POOL = full_pool(0, 0, np.empty(0, np.int32), np.empty(0, np.int64), 0)
