"""The waiting queue: who is in, in which order, and why its head is not in the batch."""

from vecsched._jit import kernel
from vecsched.clock import NEVER_PS
from vecsched.kernels.bitset import NONE, insert, least, least_from, remove
from vecsched.kernels.engine import (
    ARRIVED,
    EVERY_POSITION,
    HEAD,
    ITERATION,
    NOT_BLOCKED,
    NOW,
    OVERDUE,
    PASSED_OVER,
    QUEUED,
    REASON,
    SLOT,
    WATCH,
)
from vecsched.kernels.fair import (
    NEVER_CHANGES,
    STATIC,
    count_waiting,
    first_of,
    iterations_to_other_tenant,
    next_tenant,
)
from vecsched.requests import WAITING


@kernel
def row_at(queue, position):
    """The row that waits at `position`."""
    return position if position < queue.base else queue.row_at_rank[position - queue.base]


@kernel
def enqueue(engine, row):
    """Put a request into the waiting queue."""
    engine.state[QUEUED] += 1
    count_waiting(engine.fair, row, 1)
    insert(engine.queue.waiting, engine.queue.position[row])


@kernel
def dequeue(engine, row):
    """Take a request out of the waiting queue."""
    engine.state[QUEUED] -= 1
    count_waiting(engine.fair, row, -1)
    remove(engine.queue.waiting, engine.queue.position[row])


@kernel
def next_overdue_ps(engine):
    """When the next request will have waited for max_wait_s, or NEVER_PS."""
    row = engine.state[OVERDUE]
    if engine.queue.base == 0 or row >= engine.state[ARRIVED]:
        return NEVER_PS
    return engine.requests.arrival_ps[row] + engine.limits.max_wait_ps


@kernel
def promote_overdue(engine):
    """Move requests that have waited for max_wait_s to the head of the queue, oldest first."""
    while next_overdue_ps(engine) <= engine.state[NOW]:
        row = engine.state[OVERDUE]
        engine.state[OVERDUE] += 1
        if engine.outcome.status[row] == WAITING and engine.requests.door[row] == 0:
            remove(engine.queue.waiting, engine.queue.position[row])
            engine.queue.position[row] = row
            insert(engine.queue.waiting, row)


@kernel
def first_waiting(engine):
    """Queue position of the head, or NONE."""
    queue, fair = engine.queue, engine.fair
    position = least(queue.waiting)
    # Overdue requests go ahead of all fairness.
    if fair.kind == STATIC or position < queue.base:
        return position
    if engine.state[QUEUED] == 0:
        return NONE
    return first_of(fair, queue, next_tenant(fair, queue, engine.state[ITERATION]))


@kernel
def next_waiting(engine, position):
    """The position to look at after the one that was admitted, or passed over, at `position`."""
    if engine.fair.kind == STATIC:
        return least_from(engine.queue.waiting, position + 1)
    return first_waiting(engine)


@kernel
def stays_behind(engine, row):
    """Tell whether the arrival of `row` cannot change who is at the head or who is admitted."""
    state, fair = engine.state, engine.fair
    if fair.kind == STATIC:
        return engine.queue.position[row] > state[WATCH]
    return state[WATCH] != EVERY_POSITION and fair.waiting[fair.tenant[row]] > 0


@kernel
def iterations_to_other_head(engine):
    """Iterations of the present decodes after which the head of the queue would be another."""
    head, fair = engine.state[HEAD], engine.fair
    if fair.kind == STATIC or head == NONE or engine.queue.position[head] < engine.queue.base:
        return NEVER_CHANGES
    return iterations_to_other_tenant(fair, fair.tenant[head])


@kernel
def open_gates(engine):
    """Begin admission: nobody is blocked, and any arrival could change something."""
    state = engine.state
    state[HEAD], state[REASON] = NONE, NOT_BLOCKED
    state[PASSED_OVER], state[WATCH] = 0, EVERY_POSITION


@kernel
def may_pass_over(engine, position, reason):
    """Note that the request at `position` is blocked; tell whether the next one may be looked at.

    Without a free slot nobody can enter; otherwise `lookahead` blocked requests may be passed over.
    """
    state = engine.state
    if state[HEAD] == NONE:
        state[HEAD], state[REASON] = row_at(engine.queue, position), reason
    if reason == SLOT or state[PASSED_OVER] == engine.limits.lookahead:
        state[WATCH] = position
        return False
    state[PASSED_OVER] += 1
    return True


@kernel
def shut_gates(engine, reason):
    """Admit nobody at this boundary: the head, if there is one, is blocked for `reason`."""
    open_gates(engine)
    head = first_waiting(engine)
    if head != NONE:
        may_pass_over(engine, head, SLOT)
        engine.state[REASON] = reason
