"""What every paged discipline does once it has formed an iteration's batch, and before."""

from vecsched._jit import kernel
from vecsched.kernels.arrivals import (
    next_expired_member,
    refuse_head,
    skip_to_next_arrival,
    skip_to_next_change,
)
from vecsched.kernels.bitset import NONE
from vecsched.kernels.engine import (
    DECODES,
    FINISHED,
    ITERATION_CHUNKS,
    LONE_DECODES,
    MEMBERS,
    NO_PROGRESS,
    NOW,
    PREFILLS,
    QUEUED,
    QUIET,
    stop_reason,
)
from vecsched.kernels.leaving import cut_short, end_leaving, gather_due, sort_as_running
from vecsched.kernels.paged_run import run_planned, run_steady

GOES_ON = -1


@kernel
def end_expired(engine):
    """End what is cancelled or timed out; members leave the batch."""
    rows, count = engine.flight.stopped, 0
    row = next_expired_member(engine)
    while row != NONE:
        rows[count] = row
        count += 1
        row = next_expired_member(engine)
    sort_as_running(engine, rows, count)
    for place in range(count):
        cut_short(engine, rows[place])


@kernel
def run_batch(engine, preempted):
    """Run what was formed; GOES_ON, or the status that ends the run."""
    state = engine.state
    if not preempted and nothing_is_scheduled(engine):
        return pass_idle_time(engine)
    # After a preemption the gates open again at the next boundary: no stretch.
    if preempted or state[PREFILLS] > 0:
        run_planned(engine)
    else:
        run_steady(engine)
    return complete_due(engine)


@kernel
def complete_due(engine):
    """Requests whose last token has come leave; GOES_ON, or the status that ends the run."""
    gather_due(engine)
    end_leaving(engine, engine.state[NOW])
    return how_it_goes_on(engine)


@kernel
def how_it_goes_on(engine):
    """GOES_ON, or what stops the run after an iteration."""
    if engine.state[QUIET] > engine.limits.patience:
        # Requests of equal urgency may preempt each other for ever.
        return NO_PROGRESS
    status = stop_reason(engine)
    return GOES_ON if status == FINISHED else status


@kernel
def nothing_is_scheduled(engine):
    """Tell whether the iteration that was formed is empty."""
    state = engine.state
    return state[DECODES] + state[LONE_DECODES] + state[ITERATION_CHUNKS] == 0


@kernel
def pass_idle_time(engine):
    """Nothing can run: wait for what comes, or refuse the head if nothing will."""
    state = engine.state
    if state[MEMBERS] > 0:
        return NO_PROGRESS
    if state[QUEUED] == 0:
        return GOES_ON if skip_to_next_arrival(engine) else FINISHED
    if not skip_to_next_change(engine):
        if not engine.limits.refuses:
            return NO_PROGRESS
        refuse_head(engine)
    return GOES_ON
