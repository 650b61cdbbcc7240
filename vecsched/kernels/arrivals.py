"""What time brings: arrivals, ends (cancellation, timeout), and how far a stretch may run."""

from vecsched._jit import entry_point, kernel
from vecsched.clock import NEVER_PS
from vecsched.kernels.bitset import NONE
from vecsched.kernels.engine import (
    ARRIVED,
    EXPIRED,
    HEAD,
    ITERATION,
    KV_BLOCKS,
    NOW,
    QUEUED,
    REASON,
)
from vecsched.kernels.fair import arrive
from vecsched.kernels.queue import dequeue, enqueue, next_overdue_ps, stays_behind
from vecsched.kernels.stretch import iterations_to_reach, stretch_ps
from vecsched.requests import ACTIVE, FAILED, FIRST_TERMINAL

# Why a request is refused at the door, by code; the first reason that applies counts.
DOOR_REASONS = (
    "",
    "empty_prompt",
    "empty_output",
    "max_model_len",
    "max_tokens",
    "kv_blocks",
    "token_budget",
)
(
    WELCOME,
    EMPTY_PROMPT,
    EMPTY_OUTPUT,
    PROMPT_TOO_LONG,
    OUTPUT_TOO_LONG,
    KV_TOO_LARGE,
    DEMAND_TOO_LARGE,
) = range(7)


@entry_point
def check_at_door(prompt, output, kv_need, limits, door):
    """Fill `door` with the reason why each request could never be served, or WELCOME.

    Args:
        prompt: int64 (n,), tokens.
        output: int64 (n,), tokens, as cut to the model's length.
        kv_need: int64 (n,), blocks that the request holds at its largest.
        limits: the scheduler's knobs.
        door: int8 (n,), filled.
    """
    budget = min(limits.tokens, limits.prefill_tokens)
    for row in range(len(door)):
        door[row] = WELCOME
        if not limits.refuses:
            continue
        if prompt[row] == 0:
            door[row] = EMPTY_PROMPT
        elif output[row] == 0:
            door[row] = EMPTY_OUTPUT
        elif prompt[row] >= limits.model_length:
            door[row] = PROMPT_TOO_LONG
        elif output[row] > limits.most_output:
            door[row] = OUTPUT_TOO_LONG
        elif kv_need[row] > limits.kv_capacity:
            door[row] = KV_TOO_LARGE
        else:
            at_once = prompt[row] + (output[row] - 1 if limits.recomputes_at_once else 0)
            if min(at_once, limits.smallest_demand) > budget:
                door[row] = DEMAND_TOO_LARGE


@kernel
def join_next_arrival(engine):
    """The next request joins the queue, or fails at the door if it could never be served."""
    row = engine.state[ARRIVED]
    engine.state[ARRIVED] += 1
    if engine.requests.door[row] != 0:
        engine.outcome.status[row] = FAILED
        engine.outcome.finished_ps[row] = engine.requests.arrival_ps[row]
    else:
        arrive(engine.fair, row, engine.state[ITERATION])
        enqueue(engine, row)


@kernel
def next_arrival_ps(engine):
    """When the next request arrives, or NEVER_PS."""
    row = engine.state[ARRIVED]
    return engine.requests.arrival_ps[row] if row < len(engine.requests.arrival_ps) else NEVER_PS


@kernel
def join_arrivals(engine):
    """All that has arrived by now joins."""
    while next_arrival_ps(engine) <= engine.state[NOW]:
        join_next_arrival(engine)


@kernel
def next_end_ps(engine):
    """When the next request that is still under way has to end, or NEVER_PS."""
    state, order = engine.state, engine.requests.end_order
    while state[EXPIRED] < len(order):
        row = order[state[EXPIRED]]
        if engine.outcome.status[row] < FIRST_TERMINAL:
            return engine.requests.end_ps[row]
        state[EXPIRED] += 1
    return NEVER_PS


@kernel
def next_expired_member(engine):
    """End the waiting requests that are over; return the first member that is, or NONE.

    Its status and end are set; taking it out of the batch is the discipline's part.
    """
    state = engine.state
    while next_end_ps(engine) <= state[NOW]:
        row = engine.requests.end_order[state[EXPIRED]]
        was_member = engine.outcome.status[row] == ACTIVE
        engine.outcome.status[row] = engine.requests.end_status[row]
        engine.outcome.finished_ps[row] = state[NOW]
        if was_member:
            return row
        dequeue(engine, row)
    return NONE


@kernel
def skip_to_next_arrival(engine):
    """With nothing to do, let time pass until the next arrival; False if none is left."""
    arrival = next_arrival_ps(engine)
    if arrival == NEVER_PS:
        return False
    engine.state[NOW] = max(engine.state[NOW], arrival)
    return True


@kernel
def skip_to_next_change(engine):
    """Let time pass until the waiting queue may look different; False if it never will."""
    state = engine.state
    change = min(next_arrival_ps(engine), next_end_ps(engine), next_overdue_ps(engine))
    if change == NEVER_PS:
        return False
    state[NOW] = max(state[NOW], change)
    return True


@kernel
def refuse_head(engine):
    """The blocked head can never be served: it fails with the reason of its gate."""
    row, reason = engine.state[HEAD], engine.state[REASON]
    dequeue(engine, row)
    engine.requests.door[row] = KV_TOO_LARGE if reason == KV_BLOCKS else DEMAND_TOO_LARGE
    engine.outcome.status[row] = FAILED
    engine.outcome.finished_ps[row] = engine.state[NOW]


@kernel
def plan_stretch(engine, first_ps, step_ps, most):
    """How many iterations, at most `most`, run before anything but time changes.

    A stretch ends at the first boundary at or after a request's end or promotion, or an arrival
    that could be served or would be the new blocked head. Other arrivals join on the way: they can
    only queue.
    """
    state = engine.state
    start = state[NOW]
    interruption = next_end_ps(engine)
    if state[QUEUED] > 0:
        interruption = min(interruption, next_overdue_ps(engine))
    iterations = iterations_to_reach(interruption - start, first_ps, step_ps, most)
    stop = start + stretch_ps(iterations, first_ps, step_ps)
    while next_arrival_ps(engine) < stop:
        row = state[ARRIVED]
        arrival = engine.requests.arrival_ps[row]
        joins_behind = stays_behind(engine, row)
        interruption = arrival
        if engine.requests.door[row] != 0 or joins_behind:
            join_next_arrival(engine)
            if engine.queue.base == 0:
                continue
            interruption = max(arrival + engine.limits.max_wait_ps, start + 1)
        iterations = iterations_to_reach(interruption - start, first_ps, step_ps, iterations)
        stop = start + stretch_ps(iterations, first_ps, step_ps)
        if not joins_behind and engine.requests.door[row] == 0:
            break
    return iterations
