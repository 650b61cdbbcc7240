"""Asynchronous scheduling: a batch is formed while the worker is at the one before it.

At a boundary, step j is formed without the outcome of step j - 1, which the worker begins now; the
iteration that follows lasts as long as step j - 1 does, and ends with the tokens of that step. So
everything is decided as ever, as if the tokens on the way had come, and comes one iteration later:
tokens, completions, and with them slots and blocks. Rules: `docs/semantics.md`.
"""

from vecsched._jit import kernel
from vecsched.clock import PS_PER_S
from vecsched.kernels.batch import Stretch, pass_time
from vecsched.kernels.bitset import NONE
from vecsched.kernels.duration import decode_ps
from vecsched.kernels.engine import (
    CONTEXT_TOKENS,
    DECODES,
    FIRSTS,
    FLIGHT_PS,
    FLIGHT_STEADY,
    FLIGHT_TOKENS,
    ITERATION,
    LEAVING,
    LONE_DECODES,
    MEMBERS,
    NOW,
    PREFILL_TOKENS,
    PREFILLS,
    QUEUED,
    QUIET,
    STOPPED,
)
from vecsched.kernels.fair import change_decodes
from vecsched.kernels.leaving import end_leaving
from vecsched.kernels.paged import is_steady
from vecsched.kernels.paged_run import advance_pending, planned_ps, receive_token, run_decodes_alone
from vecsched.kernels.record import note_lone_gap
from vecsched.kernels.step import GOES_ON, how_it_goes_on, nothing_is_scheduled, pass_idle_time
from vecsched.requests import ACTIVE, FIRST_TERMINAL

# vLLM's engine loop sleeps so long after a step with nothing in it, if requests are left.
SLEEP_PS = PS_PER_S // 1000


@kernel
def run_ahead(engine, preempted):
    """Hand over the step that was formed, run the one before; GOES_ON, or what ends the run."""
    state = engine.state
    if state[MEMBERS] + state[QUEUED] == 0 and state[FLIGHT_TOKENS] > 0:
        return await_dropped(engine)
    if not preempted and nothing_is_scheduled(engine) and state[FLIGHT_TOKENS] == 0:
        return pass_idle_time(engine)
    if goes_on_as_before(engine):
        run_more_decodes(engine)
    else:
        run_one(engine)
    return how_it_goes_on(engine)


@kernel
def await_dropped(engine):
    """All whose tokens are on the way were cancelled: the worker is waited for, nothing comes."""
    state = engine.state
    state[NOW] += state[FLIGHT_PS]
    state[FLIGHT_PS], state[FLIGHT_TOKENS], state[FLIGHT_STEADY] = 0, 0, 0
    state[FIRSTS], state[LEAVING] = 0, 0
    return GOES_ON


@kernel
def goes_on_as_before(engine):
    """Tell whether the step that was formed and the one on the way are the same steady decodes."""
    state = engine.state
    # Who joins them had other tokens on the way, who leaves is missing now.
    steady = state[FLIGHT_TOKENS] == state[DECODES] and state[FLIGHT_STEADY] == state[DECODES]
    return steady and state[DECODES] > 0 and state[PREFILLS] == 0


@kernel
def run_more_decodes(engine):
    """Run iterations of the same decodes until something changes."""
    state, begin = engine.state, engine.state[ITERATION]
    _, step_ps = decode_ps(engine.cost, state[DECODES], state[CONTEXT_TOKENS])
    run_decodes_alone(engine, lasting_ps(engine), 0 if engine.limits.tick_ps > 0 else step_ps)
    state[FLIGHT_PS] += (state[ITERATION] - begin) * step_ps


@kernel
def lasting_ps(engine):
    """How long the worker is at the step on the way."""
    return engine.limits.tick_ps if engine.limits.tick_ps > 0 else engine.state[FLIGHT_PS]


@kernel
def run_one(engine):
    """Run the step on the way; the one that was formed is on the way then."""
    state = engine.state
    steady, wait = state[DECODES], lasting_ps(engine)
    tokens = steady + state[LONE_DECODES] + state[PREFILL_TOKENS]
    duration = planned_ps(engine, steady, state[CONTEXT_TOKENS]) if tokens > 0 else 0
    state[QUIET] = 0 if steady > 0 else state[QUIET] + 1
    received = state[NOW] + wait
    if tokens == 0 and engine.limits.tick_ps == 0 and leaves_anyone(engine):
        # The tokens come before the sleep: their gaps are not the iteration's duration.
        if state[FLIGHT_STEADY] > 0:
            note_lone_gap(engine.record, NONE, wait, state[FLIGHT_STEADY])
        pass_time(engine, Stretch(1, wait + SLEEP_PS, 0, 0, 0), wait)
    else:
        pass_time(engine, Stretch(1, wait, 0, tokens, state[FLIGHT_STEADY]), wait)
    state[ITERATION] += 1
    state[CONTEXT_TOKENS] += steady
    receive(engine, received)
    state[FLIGHT_PS], state[FLIGHT_TOKENS], state[FLIGHT_STEADY] = (duration, tokens, steady)
    advance_pending(engine)


@kernel
def leaves_anyone(engine):
    """Tell whether anybody is unfinished once the tokens on the way are there."""
    state, ending = engine.state, 0
    for place in range(state[LEAVING]):
        if engine.outcome.status[engine.flight.leaving[place]] < FIRST_TERMINAL:
            ending += 1
    return state[MEMBERS] + state[QUEUED] > ending


@kernel
def receive(engine, now):
    """The tokens on the way have come, at `now`."""
    state, flight = engine.state, engine.flight
    for place in range(state[FIRSTS]):
        row = flight.firsts[place]
        status = engine.outcome.status[row]
        if status < FIRST_TERMINAL:
            receive_token(engine, row, now)
        if status == ACTIVE and is_steady(engine, row):
            change_decodes(engine.fair, row, 1, state[ITERATION])
    for place in range(state[STOPPED]):
        row = flight.stopped[place]
        engine.members.last_token_ps[row] = now
        change_decodes(engine.fair, row, -1, state[ITERATION])
    state[FIRSTS], state[STOPPED] = 0, 0
    end_leaving(engine, now)
