"""`prefill_first`: vLLM before chunked prefill (Kwon et al., SOSP'23; the scheduler of vLLM v0).

An iteration computes whole prompts and nothing else if anybody can be admitted; otherwise every
member decodes. Newcomers get their first token soon; the others wait for them ("generation stalls",
Agrawal et al., OSDI'24). KV is paged, with preemption by recompute.
"""

from vecsched._jit import entry_point, kernel
from vecsched.config import SchedulerConfig
from vecsched.kernels.arrivals import join_arrivals
from vecsched.kernels.batch import Stretch, pass_time
from vecsched.kernels.bitset import NONE
from vecsched.kernels.chunked import schedule_running
from vecsched.kernels.engine import (
    CONTEXT_TOKENS,
    DECODES,
    FREE_KV,
    ITERATION,
    ITERATION_CHUNKS,
    KV_BLOCKS,
    LONE_DECODES,
    MEMBERS,
    NOT_BLOCKED,
    NOW,
    PREFILL_LEFT,
    PREFILL_TOKENS,
    SLOT,
    STALLED_SINCE,
    TOKEN_BUDGET,
    TOKENS_LEFT,
)
from vecsched.kernels.paged import blocks_of, clear_plan, enter_running, is_steady
from vecsched.kernels.paged_run import advance_pending, planned_ps
from vecsched.kernels.queue import (
    first_waiting,
    may_pass_over,
    next_waiting,
    open_gates,
    promote_overdue,
    row_at,
    shut_gates,
)
from vecsched.kernels.record import NO_TOKEN, PARKED, note_change, note_lone_gap
from vecsched.kernels.running import first_member, next_member
from vecsched.kernels.step import GOES_ON, complete_due, end_expired, run_batch

IDLE_ITERATION = False
IS_PAGED = True
_WHOLE_PROMPT = 2**31


def smallest_demand(config: SchedulerConfig) -> int:
    """Whole prompts only."""
    return _WHOLE_PROMPT


def lone_chunk(config: SchedulerConfig) -> int:
    """Prompt tokens of one iteration: all of them."""
    return _WHOLE_PROMPT


@entry_point
def run(engine):
    """Simulate until every request has ended; returns a status of `kernels.engine`."""
    while True:
        join_arrivals(engine)
        end_expired(engine)
        promote_overdue(engine)
        admit_whole(engine)
        if engine.state[ITERATION_CHUNKS] > 0:
            run_prefills(engine)
            status = complete_due(engine)
        else:
            preempted = schedule_running(engine, 0, False)
            if preempted:
                shut_gates(engine, KV_BLOCKS)
            if engine.state[DECODES] == 0:
                # None is left of those that stood still.
                engine.state[STALLED_SINCE] = NONE
            if engine.state[STALLED_SINCE] == NONE:
                status = run_batch(engine, preempted)
            else:
                run_stalled(engine)
                status = complete_due(engine)
        if status != GOES_ON:
            return status


@kernel
def admit_whole(engine):
    """Admit from the head of the queue what fits one iteration as a whole."""
    state, queue = engine.state, engine.queue
    clear_plan(engine)
    state[TOKENS_LEFT], state[PREFILL_LEFT] = (engine.limits.tokens, engine.limits.prefill_tokens)
    open_gates(engine)
    position = first_waiting(engine)
    while position != NONE:
        row = row_at(queue, position)
        reason = closed_gate(engine, row)
        if reason == NOT_BLOCKED:
            known = engine.paging.known[row]
            state[TOKENS_LEFT] -= known
            state[PREFILL_LEFT] -= known
            enter_running(engine, row, known, 0)
        elif not may_pass_over(engine, position, reason):
            return
        position = next_waiting(engine, position)


@kernel
def closed_gate(engine, row):
    """The first gate that keeps `row` out: slot, then KV blocks, then tokens."""
    state, known = engine.state, engine.paging.known[row]
    if state[MEMBERS] >= engine.limits.slots:
        return SLOT
    watermark = engine.paging_rules.watermark if state[MEMBERS] > 0 else 0
    if blocks_of(engine, row, known) + watermark > state[FREE_KV]:
        return KV_BLOCKS
    fits = known <= min(state[TOKENS_LEFT], state[PREFILL_LEFT])
    return NOT_BLOCKED if fits else TOKEN_BUDGET


@kernel
def run_prefills(engine):
    """Run an iteration of prefills; decodes stand still."""
    state = engine.state
    if state[DECODES] > 0 and state[STALLED_SINCE] == NONE:
        state[STALLED_SINCE] = state[NOW]
    log_decodes(engine, PARKED)
    duration = planned_ps(engine, 0, 0)
    pass_time(engine, Stretch(1, duration, 0, state[PREFILL_TOKENS], 0), NO_TOKEN)
    advance_pending(engine)


@kernel
def run_stalled(engine):
    """Run the first iteration of decodes after prefills: the wait for its tokens began before."""
    state, decodes = engine.state, engine.state[DECODES]
    log_decodes(engine, 1)
    duration = planned_ps(engine, decodes, state[CONTEXT_TOKENS])
    gap = state[NOW] + duration - state[STALLED_SINCE]
    if decodes > 0:
        note_lone_gap(engine.record, NONE, gap, decodes)
    state[STALLED_SINCE] = NONE
    pass_time(engine, Stretch(1, duration, 0, decodes + state[LONE_DECODES], 0), gap)
    state[ITERATION] += 1
    state[CONTEXT_TOKENS] += decodes
    advance_pending(engine)


@kernel
def log_decodes(engine, tokens):
    """Log what the steady members are scheduled."""
    if engine.record.logging:
        row = first_member(engine)
        while row != NONE:
            if is_steady(engine, row):
                note_change(engine.record, row, tokens)
            row = next_member(engine, row)
