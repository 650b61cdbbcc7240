"""`strict`: the source document's four functions, iterated.

Every active request is in every batch with its whole demand, so a request's last iteration is known
once its prefill ends, and decodes need no work at all until then: they are numbers in a calendar.
An iteration with a prefill is taken alone; between those, stretches of pure decode are jumped.
"""

from vecsched._jit import entry_point, kernel
from vecsched.config import SchedulerConfig
from vecsched.kernels.arrivals import (
    join_arrivals,
    next_expired_member,
    skip_to_next_arrival,
)
from vecsched.kernels.batch import (
    Stretch,
    complete,
    enter_batch,
    leave_batch,
    next_completed,
    run_decodes,
    run_stretch,
    start_decoding,
    stop_decoding,
)
from vecsched.kernels.bitset import NONE
from vecsched.kernels.calendar import enter, leave
from vecsched.kernels.duration import PrefillWork, mixed_ps
from vecsched.kernels.engine import (
    CONTEXT_TOKENS,
    DECODES,
    FINISHED,
    FREE_KV,
    ITERATION,
    KV_BLOCKS,
    MEMBERS,
    NO_PROGRESS,
    NOT_BLOCKED,
    NOW,
    PREFILL_ATTENTION,
    PREFILL_CONTEXT,
    PREFILL_TOKENS,
    PREFILLS,
    QUEUED,
    SLOT,
    TOKEN_BUDGET,
    stop_reason,
)
from vecsched.kernels.fair import charge_token
from vecsched.kernels.queue import (
    first_waiting,
    may_pass_over,
    next_waiting,
    open_gates,
    promote_overdue,
    row_at,
)
from vecsched.kernels.record import LEFT, note_change

# A request with one output token waits out an iteration of 0 tokens.
IDLE_ITERATION = True
IS_PAGED = False


def smallest_demand(config: SchedulerConfig) -> int:
    """Whole chunks only."""
    return config.prefill_chunk_size


def lone_chunk(config: SchedulerConfig) -> int:
    """Prompt tokens of one iteration when a request is alone."""
    return config.prefill_chunk_size


@entry_point
def run(engine):
    """Simulate until every request has ended; returns a status of `kernels.engine`."""
    state = engine.state
    while True:
        join_arrivals(engine)
        end_expired(engine)
        promote_overdue(engine)
        admit(engine)
        if state[MEMBERS] == 0:
            if state[QUEUED] > 0:
                return NO_PROGRESS
            if not skip_to_next_arrival(engine):
                return FINISHED
            continue
        if state[PREFILLS] > 0:
            run_mixed(engine)
        else:
            run_decodes(engine)
        complete_due(engine)
        status = stop_reason(engine)
        if status != FINISHED:
            return status


@kernel
def end_expired(engine):
    """End what is cancelled or timed out; members leave the batch."""
    row = next_expired_member(engine)
    while row != NONE:
        if engine.members.prompt_left[row] > 0:
            drop_chunk(engine, row)
        else:
            end_decoding(engine, row)
        depart(engine, row)
        row = next_expired_member(engine)


@kernel
def admit(engine):
    """Admit from the head of the queue while the gates open."""
    queue = engine.queue
    open_gates(engine)
    position = first_waiting(engine)
    while position != NONE:
        row = row_at(queue, position)
        reason = closed_gate(engine, row)
        if reason == NOT_BLOCKED:
            enter_batch(engine, row)
            plan_chunk(engine, row)
        elif not may_pass_over(engine, position, reason):
            return
        position = next_waiting(engine, position)


@kernel
def closed_gate(engine, row):
    """The first gate that keeps `row` out of the batch: slot, then KV blocks, then tokens."""
    state, limits = engine.state, engine.limits
    if state[MEMBERS] >= limits.slots:
        return SLOT
    if engine.requests.kv_blocks[row] > state[FREE_KV]:
        return KV_BLOCKS
    demand = min(engine.requests.prompt[row], limits.chunk)
    if demand > limits.tokens - state[DECODES] - state[PREFILL_TOKENS]:
        return TOKEN_BUDGET
    if demand > limits.prefill_tokens - state[PREFILL_TOKENS]:
        return TOKEN_BUDGET
    return NOT_BLOCKED


@kernel
def run_mixed(engine):
    """Run one iteration with prefills in it, beside every decode."""
    state = engine.state
    decodes = state[DECODES]
    work = PrefillWork(
        state[PREFILLS], state[PREFILL_TOKENS], state[PREFILL_CONTEXT], state[PREFILL_ATTENTION]
    )
    duration = mixed_ps(engine.cost, decodes, state[CONTEXT_TOKENS], work)
    run_stretch(engine, Stretch(1, duration, 0, decodes + work.tokens, decodes))
    clear_chunks(engine)
    for place in range(work.chunks):
        row = engine.members.prefilling[place]
        engine.members.prompt_left[row] -= next_chunk(engine, row)
        if engine.members.prompt_left[row] == 0:
            end_prefill(engine, row)
        else:
            plan_chunk(engine, row)


@kernel
def next_chunk(engine, row):
    """Prompt tokens that `row`, in mid-prefill, wants in one iteration."""
    return min(engine.members.prompt_left[row], engine.limits.chunk)


@kernel
def plan_chunk(engine, row):
    """Put the next chunk of `row` into the next iteration."""
    state, chunk = engine.state, next_chunk(engine, row)
    before = engine.requests.prompt[row] - engine.members.prompt_left[row]
    engine.members.prefilling[state[PREFILLS]] = row
    state[PREFILLS] += 1
    state[PREFILL_TOKENS] += chunk
    state[PREFILL_CONTEXT] += before
    state[PREFILL_ATTENTION] += chunk * (2 * before + chunk)
    note_change(engine.record, row, chunk)


@kernel
def clear_chunks(engine):
    """Nothing is planned."""
    state = engine.state
    state[PREFILLS], state[PREFILL_TOKENS] = 0, 0
    state[PREFILL_CONTEXT], state[PREFILL_ATTENTION] = 0, 0


@kernel
def drop_chunk(engine, row):
    """Plan the next iteration without `row`."""
    prefilling, planned = engine.members.prefilling, engine.state[PREFILLS]
    clear_chunks(engine)
    for place in range(planned):
        if prefilling[place] != row:
            plan_chunk(engine, prefilling[place])


@kernel
def end_prefill(engine, row):
    """The first token has come; note when the last one will."""
    engine.outcome.first_token_ps[row] = engine.state[NOW]
    charge_token(engine.fair, row)
    if engine.requests.output[row] > 1:
        start_decoding(engine, row, 1)
        note_change(engine.record, row, 1)
    elif engine.limits.idle_iteration:
        # The document's quirk: with no token left to decode, one iteration of 0 tokens follows.
        engine.members.finishes_in[row] = engine.state[ITERATION] + 1
        enter(engine.calendar, engine.members.finishes_in[row], row)
        note_change(engine.record, row, 0)
    else:
        complete(engine, row)
        depart(engine, row)


@kernel
def complete_due(engine):
    """Requests whose last iteration has ended are completed and leave the batch."""
    row = next_completed(engine)
    while row != NONE:
        end_decoding(engine, row)
        depart(engine, row)
        row = next_completed(engine)


@kernel
def end_decoding(engine, row):
    """`row` decodes no more, or waits no longer for the end of its idle iteration."""
    if engine.requests.output[row] > 1:
        stop_decoding(engine, row)
    else:
        leave(engine.calendar, engine.members.finishes_in[row], row)


@kernel
def depart(engine, row):
    """Leave the batch."""
    leave_batch(engine, row)
    note_change(engine.record, row, LEFT)
