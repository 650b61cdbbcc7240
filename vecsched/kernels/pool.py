"""The free queue block by block: for prompts that have something in common.

Work at admission and release for each block, one take per block_size output tokens, and nothing in
each iteration.
"""

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE
from vecsched.kernels.chain import link_behind
from vecsched.kernels.engine import EVICTED, FREE_KV
from vecsched.kernels.record import (
    FOUND,
    GIVEN_UP,
    TAKEN,
    TO_HEAD,
    TO_TAIL,
    TO_TAIL_BARE,
    note_move,
)

QUEUE = 0  # the number that stands for both ends of the queue


@kernel
def insert_behind(pool, block, place):
    """Put a block into the queue behind `place`."""
    following = pool.after[place]
    pool.before[block], pool.after[block] = place, following
    pool.after[place] = block
    pool.before[following] = block


@kernel
def unlink_block(pool, block):
    """Take a block out of the queue, wherever it stands."""
    preceding, following = pool.before[block], pool.after[block]
    pool.after[preceding] = following
    pool.before[following] = preceding


@kernel
def take_from_pool(engine, row, blocks):
    """`row` takes blocks from the head of the queue; they lose their hash."""
    pool = engine.cache.pool
    block, evicted = pool.after[QUEUE], 0
    begin = pool.begin[row] + pool.held[row]
    for place in range(begin, begin + blocks):
        if pool.key[block] != NONE:
            forget(pool, block)
            evicted += 1
        pool.holders[block] = 1
        pool.table[place] = block
        note_move(engine.record, block, row, TAKEN)
        block = pool.after[block]
    pool.after[QUEUE], pool.before[block] = block, QUEUE
    pool.held[row] += blocks
    engine.state[EVICTED] += evicted
    engine.state[FREE_KV] -= blocks


@kernel
def forget(pool, block):
    """A block loses its hash; the next one with the same takes its place."""
    key = pool.key[block]
    pool.key[block] = NONE
    if pool.first[key] == block:
        pool.first[key] = pool.twin[block]
        return
    other = pool.first[key]
    while pool.twin[other] != block:
        other = pool.twin[other]
    pool.twin[other] = pool.twin[block]


@kernel
def hash_blocks(pool, row, blocks):
    """The first `blocks` blocks of `row` get their hash, as far as they have none."""
    begin = pool.begin[row]
    for place in range(begin + pool.hashed[row], begin + blocks):
        block, key = pool.table[place], pool.keys[place]
        pool.key[block], pool.twin[block] = key, NONE
        if pool.first[key] == NONE:
            pool.first[key] = block
        else:
            other = pool.first[key]
            while pool.twin[other] != NONE:
                other = pool.twin[other]
            pool.twin[other] = block
    pool.hashed[row] = max(pool.hashed[row], blocks)


@kernel
def find_blocks(pool, row, most):
    """(how many of the first `most` blocks of `row` are cached, how many of those are free)."""
    begin, found, free = pool.begin[row], 0, 0
    while found < most:
        block = pool.first[pool.keys[begin + found]]
        if block == NONE:
            break
        found += 1
        if pool.holders[block] == 0:
            free += 1
    return found, free


@kernel
def hold_found(engine, row, blocks):
    """`row` holds the first `blocks` of its blocks, which are in the cache."""
    pool, begin = engine.cache.pool, engine.cache.pool.begin[row]
    for place in range(begin, begin + blocks):
        block = pool.first[pool.keys[place]]
        if pool.holders[block] == 0:
            unlink_block(pool, block)
            engine.state[FREE_KV] -= 1
        pool.holders[block] += 1
        pool.table[place] = block
        note_move(engine.record, block, row, FOUND)
    pool.held[row], pool.hashed[row] = blocks, blocks


@kernel
def release_blocks(engine, row, hashed):
    """`row` gives up its blocks, from the last to the first; `hashed` of them carry a hash."""
    pool, record = engine.cache.pool, engine.record
    hash_blocks(pool, row, hashed)
    begin, tail, freed = pool.begin[row], pool.before[QUEUE], 0
    for place in range(begin + pool.held[row] - 1, begin - 1, -1):
        block = pool.table[place]
        pool.holders[block] -= 1
        if pool.holders[block] > 0:
            note_move(record, block, row, GIVEN_UP)
            continue
        freed += 1
        is_bare = pool.key[block] == NONE
        if is_bare and not engine.cache.bare_last:
            # The last one, not full: nothing has gone to the tail yet.
            insert_behind(pool, block, QUEUE)
            tail = pool.before[QUEUE]
            note_move(record, block, row, TO_HEAD)
            continue
        pool.before[block], pool.after[tail] = tail, block
        tail = block
        note_move(record, block, row, TO_TAIL_BARE if is_bare else TO_TAIL)
    pool.after[tail], pool.before[QUEUE] = QUEUE, tail
    pool.held[row], pool.hashed[row] = 0, 0
    engine.state[FREE_KV] += freed


@kernel
def enter_day(pool, stamp, day, row):
    """`row` takes its blocks on `day` from now on; the list stays in running order."""
    ahead = pool.days.last[day]
    while ahead != NONE and stamp[ahead] > stamp[row]:
        ahead = pool.days.ahead[ahead]
    link_behind(pool.days, day, ahead, row)
