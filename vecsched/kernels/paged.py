"""Members whose KV grows block by block, and who may lose it to others.

A member is *steady* while it takes one token in every iteration: then it is a number in the
calendar, and a place in `takers`, which tells in which iterations it takes a block. All others are
*pending* (`Members.prefilling`): they have tokens to compute before their next one, be it a prompt,
a prompt and output lost to a preemption, or the one token of a decode that was left out.
"""

from vecsched._jit import kernel
from vecsched.clock import NEVER_PS
from vecsched.kernels.batch import (
    start_decoding,
    stop_decoding,
)
from vecsched.kernels.bitset import NONE
from vecsched.kernels.engine import (
    FREE_KV,
    ITERATION,
    ITERATION_CHUNKS,
    LONE_CONTEXT,
    LONE_DECODES,
    NOW,
    OVERDUE,
    PREFILL_ATTENTION,
    PREFILL_CONTEXT,
    PREFILL_TOKENS,
    PREFILLS,
    STALLED_SINCE,
)
from vecsched.kernels.fair import charge_admission
from vecsched.kernels.queue import dequeue, enqueue
from vecsched.kernels.record import LEFT, PARKED, PREEMPTED, note_change
from vecsched.kernels.running import append_running, unlink_running
from vecsched.requests import ACTIVE, WAITING


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
    return engine.members.prompt_left[row] == 0


@kernel
def computed_tokens(engine, row):
    """Tokens of a member whose KV exists."""
    if is_steady(engine, row):
        left = engine.members.finishes_in[row] - engine.state[ITERATION]
        return engine.requests.prompt[row] + engine.requests.output[row] - 1 - left
    return engine.paging.known[row] - engine.members.prompt_left[row]


@kernel
def wants_one_token(engine, row):
    """Tell whether a pending member has output and only its last token to compute."""
    has_output = engine.paging.known[row] > engine.requests.prompt[row]
    return has_output and engine.members.prompt_left[row] == 1


@kernel
def enter_running(engine, row, tokens):
    """Take `row` from the queue into the batch and schedule its first `tokens`."""
    state = engine.state
    engine.outcome.status[row] = ACTIVE
    if engine.outcome.admitted_ps[row] == NEVER_PS:
        engine.outcome.admitted_ps[row] = state[NOW]
        charge_admission(engine.fair, row, engine.requests.prompt[row])
    dequeue(engine, row)
    engine.members.prompt_left[row] = engine.paging.known[row]
    state[FREE_KV] -= blocks_of(engine, row, tokens)
    append_running(engine, row)
    add_pending(engine, row)
    plan_chunk(engine, row, tokens)


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
    engine.members.prompt_left[row] = 0
    engine.paging.takers[taking_day(engine, row)] += 1
    note_change(engine.record, row, 1)


@kernel
def end_steady(engine, row):
    """`row` takes no token in the next iteration: what it has is known, not all is computed."""
    engine.paging.takers[taking_day(engine, row)] -= 1
    made = stop_decoding(engine, row)
    if engine.state[STALLED_SINCE] != NONE:
        engine.members.last_token_ps[row] = engine.state[STALLED_SINCE]
    engine.paging.known[row] = engine.requests.prompt[row] + made


@kernel
def taking_day(engine, row):
    """Iterations, mod block_size, in which a steady member takes a block."""
    computed = computed_tokens(engine, row)
    return (engine.state[ITERATION] - computed) % engine.paging_rules.block_size


@kernel
def park(engine, row):
    """A steady member gets no token this time."""
    end_steady(engine, row)
    engine.members.prompt_left[row] = 1
    add_pending(engine, row)


@kernel
def preempt(engine, row):
    """Take everything from a member but its output, and let it wait again."""
    state = engine.state
    computed = computed_tokens(engine, row)
    engine.outcome.preemptions[row] += 1
    engine.outcome.recomputed[row] += computed
    vacate(engine, row, computed + engine.paging.chunk[row])
    engine.paging.chunk[row] = 0
    engine.outcome.status[row] = WAITING
    note_change(engine.record, row, PREEMPTED)
    if engine.queue.base > 0 and row < state[OVERDUE]:
        engine.queue.position[row] = row
    enqueue(engine, row)


@kernel
def vacate(engine, row, tokens):
    """A member, with KV for `tokens`, gives back slot and blocks."""
    engine.state[FREE_KV] += blocks_of(engine, row, tokens)
    if is_steady(engine, row):
        end_steady(engine, row)
    else:
        remove_pending(engine, row)
    unlink_running(engine, row)


@kernel
def depart(engine, row):
    """A member that has ended leaves the batch."""
    vacate(engine, row, computed_tokens(engine, row))
    note_change(engine.record, row, LEFT)


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
