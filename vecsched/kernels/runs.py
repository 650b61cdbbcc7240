"""The free queue of unique prompts: runs of blocks that waiting requests would find again.

Whatever is not in a run is *dead*: never hashed, or of a request that has ended. A run loses its
highest block first, so what is left of it are always the request's first blocks. Blocks that were
never hashed go to the head of the queue and all others to its tail, so the former stand in front.
"""

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE
from vecsched.kernels.chain import link_last, unlink
from vecsched.kernels.engine import EVICTED, FREE_KV, IN_RUNS, NEEDS_POOL, NEVER_HASHED

ORDER = 0  # the only list of its chains


@kernel
def take_from_runs(engine, blocks):
    """`blocks` leave the head of the queue; the runs there shrink."""
    state, runs = engine.state, engine.cache.runs
    bare = min(blocks, state[NEVER_HASHED])
    state[NEVER_HASHED] -= bare
    state[EVICTED] += blocks - bare
    row = runs.order.first[ORDER]
    while blocks > 0 and row != NONE:
        dead = min(blocks, runs.dead[row])
        kept = min(blocks - dead, runs.kept[row])
        runs.dead[row] -= dead
        runs.kept[row] -= kept
        state[IN_RUNS] -= dead + kept
        blocks -= dead + kept
        if runs.kept[row] > 0:
            return
        unlink_run(engine, row)
        row = runs.order.first[ORDER]


@kernel
def give_back_dead(engine, blocks, hashed):
    """An ended request's blocks join: the one without hash at the head, the others at the tail."""
    state, bare = engine.state, blocks - hashed
    state[FREE_KV] += blocks
    state[NEVER_HASHED] += bare
    first = engine.cache.runs.order.first[ORDER]
    if first != NONE:
        engine.cache.runs.dead[first] += bare
        state[IN_RUNS] += bare


@kernel
def give_back_run(engine, row, blocks, hashed):
    """A preempted request's blocks join; those with a hash are its run, the last in the queue."""
    state, runs = engine.state, engine.cache.runs
    give_back_dead(engine, blocks, hashed)
    if runs.left[row]:
        state[NEEDS_POOL] = 1
    if hashed == 0:
        return
    runs.kept[row] = hashed
    runs.dead[row] = state[FREE_KV] - hashed - state[IN_RUNS]
    link_last(runs.order, ORDER, row)
    state[IN_RUNS] = state[FREE_KV]


@kernel
def adopt_run(engine, row, blocks):
    """`row` takes what is left of its run, `blocks`, out of the queue.

    A block with its last known token is not found, for at least one token is computed: it stays,
    with a hash that only `row` could look for if it were preempted once more.
    """
    state, runs = engine.state, engine.cache.runs
    if runs.kept[row] > 0:
        runs.left[row] = runs.left[row] or runs.kept[row] > blocks
        runs.dead[row] += runs.kept[row] - blocks
        runs.kept[row] = 0
        state[FREE_KV] -= blocks
        state[IN_RUNS] -= blocks
        unlink_run(engine, row)


@kernel
def unlink_run(engine, row):
    """The run of `row` is no more; dead blocks ahead of it stand ahead of the next one now."""
    state, runs = engine.state, engine.cache.runs
    behind = runs.order.behind[row]
    if behind == NONE:
        state[IN_RUNS] -= runs.dead[row]
    else:
        runs.dead[behind] += runs.dead[row]
    runs.dead[row] = 0
    unlink(runs.order, ORDER, row)
