"""`static`: static batching, the baseline that continuous batching replaced.

A batch is formed, its prompts are computed, then its members decode in step until the *last* one
ends; only then is the next batch formed. Members that have ended keep slot and KV until then. This
is the request-level scheduling that Orca (Yu et al., OSDI'22, section 2) describes and replaces.
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
from vecsched.kernels.duration import PrefillWork, decode_ps, mixed_ps
from vecsched.kernels.engine import (
    CONTEXT_TOKENS,
    DECODES,
    FINISHED,
    FREE_KV,
    KV_BLOCKS,
    MEMBERS,
    NO_PROGRESS,
    NOT_BLOCKED,
    NOW,
    PREFILLS,
    QUEUED,
    READY,
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
    shut_gates,
)
from vecsched.kernels.record import (
    GAP_PS,
    LEFT,
    NO_TOKEN,
    PARKED,
    note_change,
    note_lone_gap,
)
from vecsched.requests import ACTIVE

IDLE_ITERATION = False
IS_PAGED = False


def smallest_demand(config: SchedulerConfig) -> int:
    """A prompt can be computed in pieces of any size."""
    return 1


def lone_chunk(config: SchedulerConfig) -> int:
    """Prompt tokens of one iteration when a request is alone."""
    bounds = (config.prefill_chunk_size, config.max_num_batched_tokens, config.max_prefill_tokens)
    return min(bound for bound in bounds if bound is not None)


@entry_point
def run(engine):
    """Simulate until every request has ended; returns a status of `kernels.engine`."""
    state = engine.state
    while True:
        join_arrivals(engine)
        end_expired(engine)
        promote_overdue(engine)
        if state[PREFILLS] + state[READY] + state[DECODES] == 0:
            dissolve(engine)
            form_batch(engine)
        else:
            # While a batch runs its slots are taken, whatever its members do.
            shut_gates(engine, SLOT)
        if state[MEMBERS] == 0:
            if state[QUEUED] > 0:
                return NO_PROGRESS
            if not skip_to_next_arrival(engine):
                return FINISHED
            continue
        if state[PREFILLS] > 0:
            run_prompts(engine)
        elif state[READY] > 0:
            run_first_decode(engine)
        else:
            run_decodes(engine)
        complete_due(engine)
        status = stop_reason(engine)
        if status != FINISHED:
            return status


@kernel
def end_expired(engine):
    """Members that are cancelled or timed out do no more work, but hold slot and KV."""
    state, members = engine.state, engine.members
    row = next_expired_member(engine)
    while row != NONE:
        if members.prompt_left[row] > 0:
            strike_prompt(engine, row)
        elif members.finishes_in[row] == NONE:
            state[READY] -= 1
        else:
            stop_decoding(engine, row)
        note_change(engine.record, row, LEFT)
        row = next_expired_member(engine)


@kernel
def dissolve(engine):
    """The batch is over: slots and blocks return."""
    for place in range(engine.state[MEMBERS]):
        leave_batch(engine, engine.members.roster[place])


@kernel
def form_batch(engine):
    """Take members from the head of the queue while the gates open."""
    state, queue = engine.state, engine.queue
    open_gates(engine)
    position = first_waiting(engine)
    while position != NONE:
        row = row_at(queue, position)
        reason = closed_gate(engine, row)
        if reason == NOT_BLOCKED:
            engine.members.roster[state[MEMBERS]] = row
            engine.members.prefilling[state[PREFILLS]] = row
            engine.members.finishes_in[row] = NONE
            state[PREFILLS] += 1
            enter_batch(engine, row)
        elif not may_pass_over(engine, position, reason):
            return
        position = next_waiting(engine, position)


@kernel
def closed_gate(engine, row):
    """The first gate that keeps `row` out of the batch that is being formed."""
    state, limits = engine.state, engine.limits
    if state[MEMBERS] >= limits.slots:
        return SLOT
    if engine.requests.kv_blocks[row] > state[FREE_KV]:
        return KV_BLOCKS
    # All members decode in the same iteration later.
    return TOKEN_BUDGET if state[MEMBERS] >= limits.tokens else NOT_BLOCKED


@kernel
def run_prompts(engine):
    """Run one iteration of prefill chunks, in batch order while the budget lasts."""
    state, members = engine.state, engine.members
    budget = min(engine.limits.tokens, engine.limits.prefill_tokens)
    chunks, tokens, context, attention = 0, 0, 0, 0
    for place in range(state[PREFILLS]):
        row = members.prefilling[place]
        chunk = min(members.prompt_left[row], engine.limits.chunk, budget - tokens)
        before = engine.requests.prompt[row] - members.prompt_left[row]
        members.prompt_left[row] -= chunk
        if chunk > 0:
            chunks += 1
            tokens += chunk
            context += before
            attention += chunk * (2 * before + chunk)
        note_change(engine.record, row, chunk if chunk > 0 else PARKED)
    duration = mixed_ps(engine.cost, 0, 0, PrefillWork(chunks, tokens, context, attention))
    run_stretch(engine, Stretch(1, duration, 0, tokens, 0))
    end_prefills(engine)


@kernel
def end_prefills(engine):
    """Prompts that are done have made their first token; the others stay in order."""
    state, members = engine.state, engine.members
    prefills, state[PREFILLS] = state[PREFILLS], 0
    for place in range(prefills):
        row = members.prefilling[place]
        if members.prompt_left[row] > 0:
            members.prefilling[state[PREFILLS]] = row
            state[PREFILLS] += 1
            continue
        engine.outcome.first_token_ps[row] = state[NOW]
        charge_token(engine.fair, row)
        if engine.requests.output[row] > 1:
            state[READY] += 1
            note_change(engine.record, row, PARKED)
        else:
            complete(engine, row)
            note_change(engine.record, row, LEFT)


@kernel
def strike_prompt(engine, row):
    """Compute no more of the prompt of `row`."""
    state, prefilling = engine.state, engine.members.prefilling
    prefills, state[PREFILLS] = state[PREFILLS], 0
    for place in range(prefills):
        if prefilling[place] != row:
            prefilling[state[PREFILLS]] = prefilling[place]
            state[PREFILLS] += 1


@kernel
def run_first_decode(engine):
    """All prompts are done: the first decode of every member that is left.

    It ends a wait that began when that member's own prefill ended, so the gaps differ.
    """
    state, roster = engine.state, engine.members.roster
    state[READY] = 0
    for place in range(state[MEMBERS]):
        if engine.outcome.status[roster[place]] == ACTIVE:
            start_decoding(engine, roster[place], 1)
            note_change(engine.record, roster[place], 1)
    duration, _ = decode_ps(engine.cost, state[DECODES], state[CONTEXT_TOKENS])
    run_stretch(engine, Stretch(1, duration, 0, state[DECODES], 0))
    engine.record.lines[engine.record.written[0] - 1, GAP_PS] = (
        NO_TOKEN  # They are noted one by one.
    )
    for place in range(state[MEMBERS]):
        row = roster[place]
        if engine.outcome.status[row] == ACTIVE:
            note_lone_gap(engine.record, row, state[NOW] - engine.outcome.first_token_ps[row], 1)


@kernel
def complete_due(engine):
    """Requests that have their last token are completed; slot and KV stay taken."""
    row = next_completed(engine)
    while row != NONE:
        stop_decoding(engine, row)
        note_change(engine.record, row, LEFT)
        row = next_completed(engine)
