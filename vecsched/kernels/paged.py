"""Members whose KV grows block by block, and who may lose it to others.

A member is *steady* while it takes one token in every iteration: then it is a number in the
calendar, and a place in `takers`, which tells in which iterations it takes a block. All others are
*pending* (`Members.prefilling`): they have tokens to compute before their next one, be it a prompt,
a prompt and output lost to a preemption, or the one token of a decode that was left out.
"""

from vecsched._jit import kernel
from vecsched.clock import NEVER_PS
from vecsched.kernels.accounting import add_product
from vecsched.kernels.arrivals import plan_stretch
from vecsched.kernels.batch import Stretch, complete, run_stretch, start_decoding, stop_decoding
from vecsched.kernels.bitset import NONE
from vecsched.kernels.calendar import iterations_to_next
from vecsched.kernels.duration import PrefillWork, decode_ps, mixed_ps
from vecsched.kernels.engine import (
    CONTEXT_TOKENS,
    DECODES,
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
from vecsched.kernels.queue import dequeue, enqueue
from vecsched.kernels.record import LEFT, PARKED, PREEMPTED, note_change, note_lone_gap
from vecsched.kernels.running import append_running, unlink_running
from vecsched.kernels.stretch import stretch_ps
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
    dequeue(engine, row)
    engine.outcome.status[row] = ACTIVE
    if engine.outcome.admitted_ps[row] == NEVER_PS:
        engine.outcome.admitted_ps[row] = state[NOW]
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


@kernel
def run_planned(engine):
    """Run one iteration: the steady members and what is planned of the pending ones."""
    state = engine.state
    steady = state[DECODES]
    duration = planned_ps(engine, steady, state[CONTEXT_TOKENS])
    tokens = steady + state[LONE_DECODES] + state[PREFILL_TOKENS]
    run_stretch(engine, Stretch(1, duration, 0, tokens, steady))
    advance_pending(engine)


@kernel
def planned_ps(engine, steady, context_tokens):
    """Duration of the iteration that is planned."""
    state = engine.state
    decodes, context = steady + state[LONE_DECODES], context_tokens + state[LONE_CONTEXT]
    if state[ITERATION_CHUNKS] == 0:
        duration, _ = decode_ps(engine.cost, decodes, context)
        return duration
    work = PrefillWork(
        state[ITERATION_CHUNKS],
        state[PREFILL_TOKENS],
        state[PREFILL_CONTEXT],
        state[PREFILL_ATTENTION],
    )
    return mixed_ps(engine.cost, decodes, context, work)


@kernel
def advance_pending(engine):
    """Take each chunk off what is left; those with nothing left get a token."""
    state, members = engine.state, engine.members
    pending, state[PREFILLS] = state[PREFILLS], 0
    for place in range(pending):
        row = members.prefilling[place]
        members.prompt_left[row] -= engine.paging.chunk[row]
        engine.paging.chunk[row] = 0
        if members.prompt_left[row] == 0:
            take_token(engine, row)
        else:
            add_pending(engine, row)


@kernel
def take_token(engine, row):
    """All known tokens of a member are computed: it gets the next one."""
    state = engine.state
    known = engine.paging.known[row]
    made = known - engine.requests.prompt[row] + 1
    if made == 1:
        engine.outcome.first_token_ps[row] = state[NOW]
    else:
        note_lone_gap(engine.record, row, state[NOW] - engine.members.last_token_ps[row], 1)
    engine.members.last_token_ps[row] = state[NOW]
    if made < engine.requests.output[row]:
        if engine.paging_rules.prefill_alone and state[ITERATION_CHUNKS] > 0:
            await_decode(engine, row)
        else:
            begin_steady(engine, row, made)
        return
    complete(engine, row)
    state[FREE_KV] += blocks_of(engine, row, known)
    unlink_running(engine, row)
    note_change(engine.record, row, LEFT)


@kernel
def await_decode(engine, row):
    """A member with a new token may have to wait for the next one: others prefill first."""
    engine.paging.known[row] += 1
    engine.members.prompt_left[row] = 1
    add_pending(engine, row)
    note_change(engine.record, row, PARKED)


@kernel
def run_steady(engine):
    """Run iterations of steady decodes until something changes or blocks run short."""
    state, takers = engine.state, engine.paging.takers
    first_ps, step_ps = decode_ps(engine.cost, state[DECODES], state[CONTEXT_TOKENS])
    most = 1 + iterations_to_next(engine.calendar, state[ITERATION] + 1)
    most = iterations_to_shortage(engine, most)
    iterations = plan_stretch(engine, first_ps, step_ps, most)
    begin = state[ITERATION]
    run_stretch(engine, Stretch(iterations, first_ps, step_ps, state[DECODES], state[DECODES]))
    if engine.paging_rules.reserve_all:
        return
    # The first iteration's blocks were taken when the batch was formed. For the others one addition
    # an iteration, which only the utilization of the KV cache needs, is all that grows with tokens.
    whole = stretch_ps(iterations, first_ps, step_ps)
    for done in range(1, iterations):
        taken = takers[(begin + done) % engine.paging_rules.block_size]
        if taken > 0:
            state[FREE_KV] -= taken
            rest = whole - stretch_ps(done, first_ps, step_ps)
            add_product(engine.paging.kv_growth[0], taken, rest)


@kernel
def iterations_to_shortage(engine, most):
    """How many iterations, at most `most`, have the blocks they need; the first one has."""
    state, size = engine.state, engine.paging_rules.block_size
    decodes, free = state[DECODES], state[FREE_KV]
    # In any block_size iterations each decode takes one block.
    cycles = (most - 1) // size
    if engine.paging_rules.reserve_all or decodes * (cycles + 1) <= free:
        return most
    cycles = min(cycles, free // decodes)
    free -= cycles * decodes
    iterations = 1 + cycles * size
    while iterations < most:
        free -= engine.paging.takers[(state[ITERATION] + iterations) % size]
        if free < 0:
            return iterations
        iterations += 1
    return most
