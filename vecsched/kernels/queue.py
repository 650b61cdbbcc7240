"""The waiting queue: who is in, in which order, and why its head is not in the batch."""

from vecsched._jit import kernel
from vecsched.clock import NEVER_PS
from vecsched.kernels.bitset import NONE, insert, least, remove
from vecsched.kernels.engine import (
    ARRIVED,
    EVERY_POSITION,
    HEAD,
    NOT_BLOCKED,
    NOW,
    OVERDUE,
    PASSED_OVER,
    QUEUED,
    REASON,
    SLOT,
    WATCH,
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
    insert(engine.queue.waiting, engine.queue.position[row])


@kernel
def dequeue(engine, row):
    """Take a request out of the waiting queue."""
    engine.state[QUEUED] -= 1
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
            dequeue(engine, row)
            engine.queue.position[row] = row
            enqueue(engine, row)


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
    head = least(engine.queue.waiting)
    if head != NONE:
        may_pass_over(engine, head, SLOT)
        engine.state[REASON] = reason
