"""How members lose their place: preempted, cut short, or with all their tokens.

A member whose last token is sampled is *leaving*: synchronously that token is there at once,
asynchronously it comes one iteration later.
"""

from vecsched._jit import kernel
from vecsched.kernels.batch import complete_at
from vecsched.kernels.bitset import NONE
from vecsched.kernels.blocks import give_back, leave_behind
from vecsched.kernels.cache import POOL
from vecsched.kernels.calendar import due
from vecsched.kernels.engine import FLIGHT_STEADY, ITERATION, LEAVING, OVERDUE, STOPPED
from vecsched.kernels.fair import change_decodes
from vecsched.kernels.paged import (
    LEAVING_AFTER_DECODE,
    add_pending,
    blocks_of,
    computed_tokens,
    end_steady,
    has_decoded,
    hashed_blocks,
    is_leaving,
    is_steady,
    remove_pending,
)
from vecsched.kernels.queue import dequeue, enqueue
from vecsched.kernels.record import ENDED_WAITING, LEFT, PARKED, PREEMPTED, note_change
from vecsched.kernels.running import unlink_running
from vecsched.requests import FIRST_TERMINAL, WAITING


@kernel
def preempt(engine, row):
    """Take everything from a member but its output, and let it wait again."""
    state = engine.state
    computed = computed_tokens(engine, row)
    engine.outcome.preemptions[row] += 1
    engine.paging.lost[row] = computed
    blocks = blocks_of(engine, row, computed + engine.paging.chunk[row])
    leave_behind(engine, row, blocks, hashed_blocks(engine, row))
    if is_steady(engine, row):
        stop_for_now(engine, row)
    elif not is_leaving(engine, row):
        remove_pending(engine, row)
    unlink_running(engine, row)
    engine.paging.chunk[row] = 0
    engine.outcome.status[row] = WAITING
    note_change(engine.record, row, PREEMPTED)
    if engine.queue.base > 0 and row < state[OVERDUE]:
        engine.queue.position[row] = row
    enqueue(engine, row)


@kernel
def park(engine, row):
    """A steady member gets no token this time."""
    stop_for_now(engine, row)
    engine.members.prompt_left[row] = 1
    add_pending(engine, row)


@kernel
def stop_for_now(engine, row):
    """A steady member is scheduled no token; asynchronously one may be on the way all the same."""
    if not engine.paging_rules.asynchronous:
        end_steady(engine, row, 0)
        return
    if has_decoded(engine, row):
        engine.flight.stopped[engine.state[STOPPED]] = row
        engine.state[STOPPED] += 1
    end_steady(engine, row, 1)


@kernel
def cut_short(engine, row):
    """A member that is cancelled or timed out leaves; a token on the way is dropped."""
    blocks = blocks_of(engine, row, computed_tokens(engine, row))
    hashed = hashed_blocks(engine, row)
    if is_steady(engine, row):
        if engine.paging_rules.asynchronous and has_decoded(engine, row):
            engine.state[FLIGHT_STEADY] -= 1
            change_decodes(engine.fair, row, -1, engine.state[ITERATION])
        end_steady(engine, row, 0)
    elif not is_leaving(engine, row):
        remove_pending(engine, row)
    leave_running(engine, row, blocks, hashed)


@kernel
def leave_running(engine, row, blocks, hashed):
    """A member that has ended gives back slot and blocks."""
    give_back(engine, row, blocks, hashed)
    unlink_running(engine, row)
    note_change(engine.record, row, LEFT)


@kernel
def begin_leaving(engine, row, after):
    """The last token of `row` is sampled: it is scheduled no more."""
    engine.members.prompt_left[row] = after
    engine.flight.leaving[engine.state[LEAVING]] = row
    engine.state[LEAVING] += 1
    if engine.paging_rules.asynchronous:
        note_change(engine.record, row, PARKED)


@kernel
def gather_due(engine):
    """Steady members whose last token was sampled in the last step are leaving."""
    state, asynchronous = engine.state, engine.paging_rules.asynchronous
    row = due(engine.calendar, state[ITERATION])
    while row != NONE:
        end_steady(engine, row, 1 if asynchronous else 0)
        begin_leaving(engine, row, LEAVING_AFTER_DECODE)
        row = due(engine.calendar, state[ITERATION])


@kernel
def sort_as_running(engine, rows, count):
    """Put `count` rows into running order, if it decides what stays cached longest."""
    stamp = engine.paging.stamp
    if engine.cache.kind == POOL:
        for end in range(1, count):
            row, place = rows[end], end
            while place > 0 and stamp[rows[place - 1]] > stamp[row]:
                rows[place] = rows[place - 1]
                place -= 1
            rows[place] = row


@kernel
def end_leaving(engine, now):
    """Members whose last token has come, at `now`, are completed.

    One that was preempted meanwhile waits in the queue, one that was cancelled is gone.
    """
    sort_as_running(engine, engine.flight.leaving, engine.state[LEAVING])
    for place in range(engine.state[LEAVING]):
        row = engine.flight.leaving[place]
        status = engine.outcome.status[row]
        if status >= FIRST_TERMINAL:
            continue
        complete_at(engine, row, now)
        after = engine.members.prompt_left[row]
        if engine.paging_rules.asynchronous and after == LEAVING_AFTER_DECODE:
            change_decodes(engine.fair, row, -1, engine.state[ITERATION])
        if status == WAITING:
            dequeue(engine, row)
            note_change(engine.record, row, ENDED_WAITING)
            continue
        computed = computed_tokens(engine, row)
        blocks = blocks_of(engine, row, computed)
        leave_running(engine, row, blocks, computed // engine.paging_rules.block_size)
    engine.state[LEAVING] = 0
