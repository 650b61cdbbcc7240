"""What happened, one entry a stretch of equal iterations: all metrics are computed from this.

With the log switched on, it also keeps every change of what a request is scheduled, from which the
batch of each single iteration can be told.
"""

from typing import NamedTuple

import numpy as np

from vecsched._jit import kernel

# Codes beside a number of tokens in the log of changes.
LEFT, PREEMPTED, PARKED, ENDED_WAITING = -1, -2, -3, -4

# What became of a block: taken from the head of the free queue; found by its hash; given up while
# others hold it; put to an end of the queue, with its hash (TO_TAIL) or without.
TAKEN, FOUND, GIVEN_UP, TO_HEAD, TO_TAIL, TO_TAIL_BARE = range(6)

NO_TOKEN = -1


# Columns of `Record.lines`, one line a stretch.
(
    START_PS,  # boundary at which it begins
    FIRST_PS,  # duration of its first iteration
    STEP_PS,  # how much longer each next one is
    ITERATIONS,  # how many there are
    STEADY_DECODES,  # requests that take a token in each of them, and took one just before
    GAP_PS,  # longest wait for a token of those that decode all the time; NO_TOKEN: they get none
    SLOTS_USED,  # members of the batch
    TOKENS,  # tokens scheduled in each iteration
    KV_HELD,  # KV blocks held once the batch is formed
    QUEUE_LENGTH,  # requests waiting
    BLOCKED_ROW,  # the blocked head of the queue, or -1
    BLOCK_REASON,  # the gate it failed
    LINE_SIZE,
) = range(13)


class Record(NamedTuple):
    """What happened; a line is written at once, so all of it stands together in memory.

    Attributes:
        written: how many lines, changes, lone gaps, periods and moves so far.
        lines: int64 (capacity, LINE_SIZE).
        logging: whether changes are kept.
        changes: int64 (capacity, 4): from line on, row is scheduled tokens (or one of the codes);
            the tokens it has found in the cache, if it enters the batch.
        lone_gaps: int64 (capacity, 4): row (or -1), ps, tokens, line: gaps between tokens of a
            request that are not the duration of one iteration, how many tokens came after such a
            gap, and in which line.
        periods: int64 (capacity, 3): row, first line, last line: when a request took a token in
            every iteration; in order of the last line.
        moves: int64 (capacity, 4): line, block, row and what became of the block; (0, 4) unless the
            blocks are logged, too.
        slack: changes, lone gaps and periods that one boundary may add.
    """

    written: np.ndarray
    lines: np.ndarray
    logging: bool
    changes: np.ndarray
    lone_gaps: np.ndarray
    periods: np.ndarray
    moves: np.ndarray
    slack: int


@kernel
def is_full(record):
    """Tell whether what one more boundary may add could have no room."""
    return (
        record.written[0] + 2 > len(record.lines)
        or (record.logging and record.written[1] + record.slack > len(record.changes))
        or max(record.written[2], record.written[3]) + record.slack > len(record.lone_gaps)
        or (len(record.moves) > 0 and 2 * record.written[4] > len(record.moves))
    )


def empty_record(capacity: int, slots: int, logging: bool) -> Record:
    """Return a record with room for `capacity` lines, and as many changes if `logging`."""
    # A boundary moves each member a few times at most: planned, preempted, completed, replaced.
    slack = 4 * slots + 16
    return Record(
        written=np.zeros(5, np.int64),
        lines=np.empty((capacity, LINE_SIZE), np.int64),
        logging=logging,
        changes=np.empty((capacity + slack if logging else 1, 4), np.int64),
        lone_gaps=np.empty((capacity + slack, 4), np.int64),
        periods=np.empty((capacity + slack, 3), np.int64),
        moves=np.empty((0, 4), np.int64),
        slack=slack,
    )


def written_lines(record: Record) -> np.ndarray:
    """The lines written so far, (l, LINE_SIZE): a view."""
    return record.lines[: record.written[0]]


def line_durations_ps(lines: np.ndarray) -> np.ndarray:
    """Duration of each line's whole stretch: int64 (l,)."""
    k = lines[:, ITERATIONS]
    return k * lines[:, FIRST_PS] + lines[:, STEP_PS] * (k * (k - 1) // 2)


def written_changes(record: Record) -> np.ndarray:
    """The changes logged so far, (c, 4): a view."""
    return record.changes[: record.written[1]]


def written_gaps(record: Record) -> np.ndarray:
    """The lone gaps noted so far, (g, 4): a view."""
    return record.lone_gaps[: record.written[2]]


def written_moves(record: Record) -> np.ndarray:
    """The moves of blocks logged so far, (m, 4): a view."""
    return record.moves[: record.written[4]]


def written_periods(record: Record) -> np.ndarray:
    """The periods noted so far, (p, 3): a view."""
    return record.periods[: record.written[3]]


@kernel
def note_change(record, row, tokens):
    """Log that from the next line on `row` is scheduled `tokens`, or has left, or was preempted."""
    if record.logging:
        change = record.changes[record.written[1]]
        change[0], change[1], change[2], change[3] = record.written[0], row, tokens, 0
        record.written[1] += 1


@kernel
def note_cached(record, tokens):
    """Log that the request of the last change has found so many tokens in the cache."""
    if record.logging:
        record.changes[record.written[1] - 1, 3] = tokens


@kernel
def note_move(record, block, row, what):
    """Log what became of a block."""
    if len(record.moves) > 0:
        move = record.moves[record.written[4]]
        move[0], move[1], move[2], move[3] = record.written[0], block, row, what
        record.written[4] += 1


@kernel
def note_lone_gap(record, row, gap_ps, tokens):
    """Note that `tokens` tokens, of `row` if it is one, came `gap_ps` after the one before."""
    gap = record.lone_gaps[record.written[2]]
    gap[0], gap[1], gap[2], gap[3] = row, gap_ps, tokens, record.written[0] - 1
    record.written[2] += 1


@kernel
def note_period(record, row, first_line, last_line):
    """Note that `row` took a token in every iteration of these lines, if there are any."""
    if first_line <= last_line:
        period = record.periods[record.written[3]]
        period[0], period[1], period[2] = row, first_line, last_line
        record.written[3] += 1
