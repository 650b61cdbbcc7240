"""Taking, finding and giving back KV blocks, whatever the form of the free queue."""

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE
from vecsched.kernels.cache import NO_CACHE, POOL, RUNS
from vecsched.kernels.engine import FREE_KV
from vecsched.kernels.pool import (
    find_blocks,
    hash_blocks,
    hold_found,
    release_blocks,
    take_from_pool,
)
from vecsched.kernels.runs import adopt_run, give_back_dead, give_back_run, take_from_runs


@kernel
def take_blocks(engine, row, blocks):
    """`row` takes blocks from the head of the free queue."""
    if engine.cache.kind == POOL:
        take_from_pool(engine, row, blocks)
    else:
        take_uncounted(engine, blocks)


@kernel
def take_uncounted(engine, blocks):
    """Somebody takes blocks, and nobody keeps count of whose they are."""
    engine.state[FREE_KV] -= blocks
    if engine.cache.kind == RUNS:
        take_from_runs(engine, blocks)


@kernel
def take_on_day(engine, day, takers):
    """The steady members whose blocks are full on `day` take one each, in running order."""
    if engine.cache.kind != POOL:
        take_uncounted(engine, takers)
        return
    row = engine.cache.pool.days.first[day]
    while row != NONE:
        take_from_pool(engine, row, 1)
        row = engine.cache.pool.days.behind[row]


@kernel
def look_up(engine, row):
    """(blocks of `row` that are in the cache, from the first on; how many of those are free).

    At least one token is left to compute.
    """
    if engine.cache.kind == NO_CACHE:
        return 0, 0
    most = (engine.paging.known[row] - 1) // engine.paging_rules.block_size
    if engine.cache.kind == RUNS:
        kept = min(engine.cache.runs.kept[row], most)
        return kept, kept
    return find_blocks(engine.cache.pool, row, most)


@kernel
def hold_cached(engine, row, blocks):
    """`row`, which is admitted, holds the blocks that were found."""
    outcome, tokens = engine.outcome, blocks * engine.paging_rules.block_size
    outcome.looked_up[row] += engine.paging.known[row]
    outcome.cached[row] += tokens
    if outcome.preemptions[row] > 0:
        outcome.cached_again[row] += tokens
        outcome.recomputed[row] += max(engine.paging.lost[row] - tokens, 0)
    if engine.cache.kind == RUNS:
        adopt_run(engine, row, blocks)
    elif engine.cache.kind == POOL:
        hold_found(engine, row, blocks)


@kernel
def hash_computed(engine, row, tokens):
    """Full blocks of a member's first `tokens` tokens can be found from now on."""
    if engine.cache.kind == POOL:
        hash_blocks(engine.cache.pool, row, tokens // engine.paging_rules.block_size)


@kernel
def give_back(engine, row, blocks, hashed):
    """A request that has ended gives back its blocks; `hashed` of them carry a hash."""
    if engine.cache.kind == POOL:
        release_blocks(engine, row, hashed)
    elif engine.cache.kind == RUNS:
        give_back_dead(engine, blocks, hashed)
    else:
        engine.state[FREE_KV] += blocks


@kernel
def leave_behind(engine, row, blocks, hashed):
    """A preempted request gives back its blocks and may find them again."""
    if engine.cache.kind == RUNS:
        give_back_run(engine, row, blocks, hashed)
    else:
        give_back(engine, row, blocks, hashed)
