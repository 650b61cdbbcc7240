"""The batch: members with a slot and reserved KV, decodes in the calendar, time in stretches."""

from typing import NamedTuple

from vecsched._jit import kernel
from vecsched.kernels.arrivals import plan_stretch
from vecsched.kernels.bitset import NONE
from vecsched.kernels.calendar import due, enter, iterations_to_next, leave
from vecsched.kernels.duration import decode_ps
from vecsched.kernels.engine import (
    CONTEXT_TOKENS,
    DECODES,
    FREE_KV,
    HEAD,
    ITERATION,
    MEMBERS,
    NOW,
    QUEUED,
    REASON,
)
from vecsched.kernels.fair import change_decodes, charge_admission
from vecsched.kernels.queue import dequeue, iterations_to_other_head
from vecsched.kernels.record import (
    BLOCK_REASON,
    BLOCKED_ROW,
    FIRST_PS,
    GAP_PS,
    ITERATIONS,
    KV_HELD,
    QUEUE_LENGTH,
    SLOTS_USED,
    START_PS,
    STEADY_DECODES,
    STEP_PS,
    TOKENS,
    note_period,
)
from vecsched.kernels.stretch import stretch_ps
from vecsched.requests import ACTIVE, COMPLETED


class Stretch(NamedTuple):
    """Equal iterations: how many, how long the first takes and how much longer each next one.

    `tokens` are scheduled in each; `steady` decodes wait exactly one iteration for their token.
    """

    iterations: int
    first_ps: int
    step_ps: int
    tokens: int
    steady: int


@kernel
def enter_batch(engine, row):
    """Take `row` from the queue into the batch: a slot, and all the KV it will need."""
    state = engine.state
    # Charged before it leaves the queue: credit left over is lost only then.
    charge_admission(engine.fair, row, engine.requests.prompt[row])
    dequeue(engine, row)
    engine.outcome.status[row] = ACTIVE
    engine.outcome.admitted_ps[row] = state[NOW]
    state[MEMBERS] += 1
    state[FREE_KV] -= engine.requests.kv_blocks[row]
    engine.members.prompt_left[row] = engine.requests.prompt[row]


@kernel
def leave_batch(engine, row):
    """Give back slot and blocks."""
    engine.state[MEMBERS] -= 1
    engine.state[FREE_KV] += engine.requests.kv_blocks[row]


@kernel
def start_decoding(engine, row, made):
    """From the next iteration on `row`, which has made `made` tokens, takes one in each."""
    state, members = engine.state, engine.members
    members.finishes_in[row] = state[ITERATION] + engine.requests.output[row] - made
    # Asynchronously its next token comes one iteration after the one that will be formed next.
    delay = 1 if engine.paging_rules.asynchronous else 0
    members.steady_from[row] = engine.record.written[0] + delay
    enter(engine.calendar, members.finishes_in[row], row)
    if not engine.paging_rules.asynchronous:
        change_decodes(engine.fair, row, 1, state[ITERATION])
    state[DECODES] += 1
    state[CONTEXT_TOKENS] += engine.requests.prompt[row] + made


@kernel
def stop_decoding(engine, row):
    """`row` takes no token in the next iteration; returns how many it has made."""
    engine.members.last_token_ps[row] = engine.state[NOW]
    change_decodes(engine.fair, row, -1, engine.state[ITERATION])
    return stop_decoding_after(engine, row, engine.record.written[0] - 1)


@kernel
def stop_decoding_after(engine, row, last_line):
    """`row` is scheduled no more token, and its last one comes in `last_line` of the record."""
    state, members = engine.state, engine.members
    leave(engine.calendar, members.finishes_in[row], row)
    made = engine.requests.output[row] - (members.finishes_in[row] - state[ITERATION])
    note_period(engine.record, row, members.steady_from[row], last_line)
    state[DECODES] -= 1
    state[CONTEXT_TOKENS] -= engine.requests.prompt[row] + made
    return made


@kernel
def run_decodes(engine):
    """Run iterations that hold nothing but decodes until something changes."""
    state = engine.state
    first_ps, step_ps = decode_ps(engine.cost, state[DECODES], state[CONTEXT_TOKENS])
    most = 1 + iterations_to_next(engine.calendar, state[ITERATION] + 1)
    most = min(most, iterations_to_other_head(engine))
    iterations = plan_stretch(engine, first_ps, step_ps, most)
    run_stretch(engine, Stretch(iterations, first_ps, step_ps, state[DECODES], state[DECODES]))


@kernel
def run_stretch(engine, stretch):
    """Run iterations in each of which every decode takes a token."""
    state = engine.state
    pass_time(engine, stretch, stretch.first_ps + stretch.step_ps * (stretch.iterations - 1))
    state[ITERATION] += stretch.iterations
    state[CONTEXT_TOKENS] += stretch.iterations * state[DECODES]


@kernel
def pass_time(engine, stretch, gap_ps):
    """Put a stretch on record and let its time pass.

    `gap_ps` is the longest wait for a token, ending in it, of those that decode all the time.
    """
    state = engine.state
    line = engine.record.lines[engine.record.written[0]]
    engine.record.written[0] += 1
    line[START_PS] = state[NOW]
    line[FIRST_PS] = stretch.first_ps
    line[STEP_PS] = stretch.step_ps
    line[ITERATIONS] = stretch.iterations
    line[STEADY_DECODES] = stretch.steady
    line[GAP_PS] = gap_ps
    line[SLOTS_USED] = state[MEMBERS]
    line[TOKENS] = stretch.tokens
    line[KV_HELD] = engine.limits.kv_capacity - state[FREE_KV]
    line[QUEUE_LENGTH] = state[QUEUED]
    line[BLOCKED_ROW] = state[HEAD]
    line[BLOCK_REASON] = state[REASON]
    state[NOW] += stretch_ps(stretch.iterations, stretch.first_ps, stretch.step_ps)


@kernel
def next_completed(engine):
    """Complete one of the requests whose last token has just come; NONE when there are no more.

    It stays in the calendar until it stops decoding.
    """
    row = due(engine.calendar, engine.state[ITERATION])
    if row != NONE:
        complete(engine, row)
    return row


@kernel
def complete(engine, row):
    """`row` has all its tokens."""
    complete_at(engine, row, engine.state[NOW])


@kernel
def complete_at(engine, row, now):
    """`row` had all its tokens at `now`."""
    engine.outcome.status[row] = COMPLETED
    engine.outcome.finished_ps[row] = now
