"""Running what was formed of members whose KV grows block by block."""

from vecsched._jit import kernel
from vecsched.clock import NEVER_PS
from vecsched.kernels.accounting import add_product
from vecsched.kernels.arrivals import plan_stretch
from vecsched.kernels.batch import Stretch, run_stretch
from vecsched.kernels.blocks import take_on_day
from vecsched.kernels.cache import NO_CACHE
from vecsched.kernels.calendar import iterations_to_next
from vecsched.kernels.duration import PrefillWork, decode_ps, mixed_ps
from vecsched.kernels.engine import (
    CONTEXT_TOKENS,
    DECODES,
    FIRSTS,
    FREE_KV,
    ITERATION,
    ITERATION_CHUNKS,
    LONE_CONTEXT,
    LONE_DECODES,
    NOW,
    PREFILL_ATTENTION,
    PREFILL_CONTEXT,
    PREFILL_TOKENS,
    PREFILLS,
    QUEUED,
    QUIET,
)
from vecsched.kernels.fair import charge_token
from vecsched.kernels.leaving import begin_leaving
from vecsched.kernels.paged import LEAVING_AFTER_CHUNK, add_pending, begin_steady
from vecsched.kernels.queue import iterations_to_other_head
from vecsched.kernels.record import PARKED, note_change, note_lone_gap
from vecsched.kernels.stretch import stretch_ps


@kernel
def run_planned(engine):
    """Run one iteration: the steady members and what is planned of the pending ones."""
    state = engine.state
    steady = state[DECODES]
    duration = planned_ps(engine, steady, state[CONTEXT_TOKENS])
    tokens = steady + state[LONE_DECODES] + state[PREFILL_TOKENS]
    state[QUIET] = 0 if steady > 0 else state[QUIET] + 1
    run_stretch(engine, Stretch(1, duration, 0, tokens, steady))
    advance_pending(engine)


@kernel
def planned_ps(engine, steady, context_tokens):
    """Duration of the iteration that is planned."""
    state = engine.state
    decodes, context = (steady + state[LONE_DECODES], context_tokens + state[LONE_CONTEXT])
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
    """All known tokens of a member are computed: it gets the next one, now or a step later."""
    state = engine.state
    made = engine.paging.known[row] - engine.requests.prompt[row] + 1
    state[QUIET] = 0
    if engine.paging_rules.asynchronous:
        engine.flight.firsts[state[FIRSTS]] = row
        state[FIRSTS] += 1
    else:
        receive_token(engine, row, state[NOW])
    if made == engine.requests.output[row]:
        begin_leaving(engine, row, LEAVING_AFTER_CHUNK)
    elif engine.paging_rules.prefill_alone and state[ITERATION_CHUNKS] > 0:
        await_decode(engine, row)
    else:
        begin_steady(engine, row, made)


@kernel
def receive_token(engine, row, now):
    """A token of `row` that is no steady decode's has come."""
    charge_token(engine.fair, row)
    if engine.outcome.first_token_ps[row] == NEVER_PS:
        engine.outcome.first_token_ps[row] = now
    else:
        note_lone_gap(engine.record, row, now - engine.members.last_token_ps[row], 1)
    engine.members.last_token_ps[row] = now


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
    state = engine.state
    first_ps, step_ps = decode_ps(engine.cost, state[DECODES], state[CONTEXT_TOKENS])
    run_decodes_alone(engine, first_ps, step_ps)


@kernel
def run_decodes_alone(engine, first_ps, step_ps):
    """Run iterations of steady decodes, of which the first one lasts `first_ps`."""
    state, takers = engine.state, engine.paging.takers
    most = 1 + iterations_to_next(engine.calendar, state[ITERATION] + 1)
    most = min(most, iterations_to_other_head(engine))
    most = iterations_to_shortage(engine, most)
    if goes_step_by_step(engine):
        most = 1
    iterations = plan_stretch(engine, first_ps, step_ps, most)
    begin = state[ITERATION]
    run_stretch(engine, Stretch(iterations, first_ps, step_ps, state[DECODES], state[DECODES]))
    if engine.paging_rules.reserve_all:
        return
    # The first iteration's blocks were taken when the batch was formed. For the others one addition
    # an iteration, which only the utilization of the KV cache needs, is all that grows with tokens.
    whole = stretch_ps(iterations, first_ps, step_ps)
    for done in range(1, iterations):
        day = (begin + done) % engine.paging_rules.block_size
        taken = takers[day]
        if taken > 0:
            take_on_day(engine, day, taken)
            rest = whole - stretch_ps(done, first_ps, step_ps)
            add_product(engine.paging.kv_growth[0], taken, rest)


@kernel
def goes_step_by_step(engine):
    """Tell whether each iteration has to be looked at."""
    if len(engine.record.moves) > 0:
        return True
    # Where chunks may not be cut, the head could fail another gate once its cached blocks are gone.
    has_cache = engine.cache.kind != NO_CACHE
    return has_cache and not engine.paging_rules.chunked and engine.state[QUEUED] > 0


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
