"""Members whose KV grows block by block, and who may lose it to others.

A member is *steady* while it takes one token in every iteration: then it is a number in the
calendar, and a place in `takers`, which tells in which iterations it takes a block. It is *leaving*
when its last token is sampled. All others are *pending* (`Members.prefilling`): they have tokens to
compute before their next one, be it a prompt, a prompt and output lost to a preemption, or the one
token of a decode that was left out.

`Members.prompt_left` holds the tokens that a pending member has left, or one of three codes.
"""

from vecsched._jit import kernel
from vecsched.clock import NEVER_PS
from vecsched.kernels.batch import start_decoding, stop_decoding_after
from vecsched.kernels.bitset import NONE
from vecsched.kernels.blocks import hash_computed, hold_cached, take_blocks
from vecsched.kernels.cache import POOL
from vecsched.kernels.chain import unlink
from vecsched.kernels.engine import (
    ADMISSIONS,
    ITERATION,
    ITERATION_CHUNKS,
    LONE_CONTEXT,
    LONE_DECODES,
    NOW,
    PREFILL_ATTENTION,
    PREFILL_CONTEXT,
    PREFILL_TOKENS,
    PREFILLS,
    STALLED_SINCE,
)
from vecsched.kernels.fair import change_decodes, charge_admission
from vecsched.kernels.pool import enter_day
from vecsched.kernels.queue import dequeue
from vecsched.kernels.record import PARKED, note_cached, note_change
from vecsched.kernels.running import append_running
from vecsched.requests import ACTIVE

# Codes in `Members.prompt_left`: steady; leaving, and whether the last token is the first since the
# request was admitted or left out (after a chunk), or one of a row (after a decode).
STEADY, LEAVING_AFTER_CHUNK, LEAVING_AFTER_DECODE = 0, -1, -2


@kernel
def blocks_of(engine, row, tokens):
    """Blocks that `row` holds with `tokens` computed."""
    rules = engine.paging_rules
    if rules.reserve_all:
        return engine.requests.kv_blocks[row]
    return (tokens + rules.block_size - 1) // rules.block_size


@kernel
def is_steady(engine, row):
    """Tell whether a member decodes in every iteration."""
    return engine.members.prompt_left[row] == STEADY


@kernel
def has_decoded(engine, row):
    """Tell whether the step on the way holds a decode of a steady member."""
    return engine.members.steady_from[row] <= engine.record.written[0]


@kernel
def is_leaving(engine, row):
    """Tell whether a member's last token is sampled."""
    return engine.members.prompt_left[row] < STEADY


@kernel
def computed_tokens(engine, row):
    """Tokens of a member whose KV exists."""
    if is_steady(engine, row):
        left = engine.members.finishes_in[row] - engine.state[ITERATION]
        return engine.requests.prompt[row] + engine.requests.output[row] - 1 - left
    if is_leaving(engine, row):
        return engine.requests.prompt[row] + engine.requests.output[row] - 1
    return engine.paging.known[row] - engine.members.prompt_left[row]


@kernel
def wants_one_token(engine, row):
    """Tell whether a pending member has output and only its last token to compute."""
    has_output = engine.paging.known[row] > engine.requests.prompt[row]
    return has_output and engine.members.prompt_left[row] == 1


@kernel
def hashed_tokens(engine, row):
    """Tokens of a member that count for hashes; asynchronously one on the way is not known yet."""
    computed, chunk = computed_tokens(engine, row), engine.paging.chunk[row]
    if not engine.paging_rules.asynchronous:
        return computed + chunk
    if is_steady(engine, row):
        return computed - 1 if has_decoded(engine, row) and chunk == 0 else computed
    if engine.members.prompt_left[row] == LEAVING_AFTER_DECODE:
        return computed - 1
    return computed + chunk


@kernel
def enter_running(engine, row, tokens, cached):
    """Take `row` from the queue into the batch: `cached` blocks are there, compute `tokens`."""
    state, found = engine.state, cached * engine.paging_rules.block_size
    engine.outcome.status[row] = ACTIVE
    if engine.outcome.admitted_ps[row] == NEVER_PS:
        engine.outcome.admitted_ps[row] = state[NOW]
        charge_admission(engine.fair, row, engine.requests.prompt[row])
    dequeue(engine, row)
    engine.members.prompt_left[row] = engine.paging.known[row] - found
    hold_cached(engine, row, cached)
    take_blocks(engine, row, blocks_of(engine, row, found + tokens) - cached)
    hash_computed(engine, row, found + tokens)
    engine.paging.stamp[row] = state[ADMISSIONS]
    state[ADMISSIONS] += 1
    append_running(engine, row)
    add_pending(engine, row)
    plan_chunk(engine, row, tokens)
    note_cached(engine.record, found)


@kernel
def add_pending(engine, row):
    """`row` has tokens to compute before its next one."""
    engine.members.prefilling[engine.state[PREFILLS]] = row
    engine.state[PREFILLS] += 1


@kernel
def remove_pending(engine, row):
    """`row` is pending no more."""
    state, pending = engine.state, engine.members.prefilling
    place = 0
    while pending[place] != row:
        place += 1
    state[PREFILLS] -= 1
    for behind in range(place, state[PREFILLS]):
        pending[behind] = pending[behind + 1]


@kernel
def begin_steady(engine, row, made):
    """`row`, which has made `made` tokens, decodes in every iteration from now on."""
    start_decoding(engine, row, made)
    engine.members.prompt_left[row] = STEADY
    day = taking_day(engine, row)
    engine.paging.takers[day] += 1
    if engine.cache.kind == POOL:
        enter_day(engine.cache.pool, engine.paging.stamp, day, row)
    note_change(engine.record, row, 1)


@kernel
def end_steady(engine, row, lines_to_come):
    """`row` is scheduled no more token; its last one comes in the last line, or the one to come.

    What it has is known, not all is computed.
    """
    day = taking_day(engine, row)
    engine.paging.takers[day] -= 1
    if engine.cache.kind == POOL:
        unlink(engine.cache.pool.days, day, row)
    made = stop_decoding_after(engine, row, engine.record.written[0] - 1 + lines_to_come)
    if not engine.paging_rules.asynchronous:
        stalled = engine.state[STALLED_SINCE]
        engine.members.last_token_ps[row] = engine.state[NOW] if stalled == NONE else stalled
        change_decodes(engine.fair, row, -1, engine.state[ITERATION])
    engine.paging.known[row] = engine.requests.prompt[row] + made


@kernel
def taking_day(engine, row):
    """Iterations, mod block_size, in which a steady member takes a block."""
    computed = computed_tokens(engine, row)
    return (engine.state[ITERATION] - computed) % engine.paging_rules.block_size


@kernel
def hashed_blocks(engine, row):
    """Blocks of a member that carry a hash, or should."""
    return hashed_tokens(engine, row) // engine.paging_rules.block_size


@kernel
def clear_plan(engine):
    """Nothing is scheduled yet beside the steady members."""
    state = engine.state
    state[ITERATION_CHUNKS], state[PREFILL_TOKENS] = 0, 0
    state[PREFILL_CONTEXT], state[PREFILL_ATTENTION] = 0, 0
    state[LONE_DECODES], state[LONE_CONTEXT] = 0, 0


@kernel
def plan_chunk(engine, row, tokens):
    """Schedule `tokens` of a pending member in the iteration that is being formed."""
    state = engine.state
    engine.paging.chunk[row] = tokens
    if tokens == 0:
        note_change(engine.record, row, PARKED)
        return
    note_change(engine.record, row, tokens)
    if wants_one_token(engine, row):
        state[LONE_DECODES] += 1
        state[LONE_CONTEXT] += engine.paging.known[row]
        return
    before = computed_tokens(engine, row)
    state[ITERATION_CHUNKS] += 1
    state[PREFILL_TOKENS] += tokens
    state[PREFILL_CONTEXT] += before
    state[PREFILL_ATTENTION] += tokens * (2 * before + tokens)
