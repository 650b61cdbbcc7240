"""The state that every discipline works on.

Rows are numbered in arrival order here; `vecsched.simulation` maps them back to the trace's rows.
"""

from typing import NamedTuple

import numpy as np

from vecsched._jit import kernel
from vecsched.clock import HORIZON_PS
from vecsched.cost import CostTables
from vecsched.kernels.bitset import BitSet
from vecsched.kernels.calendar import Calendar
from vecsched.kernels.record import Record, is_full

# What a run returns.
FINISHED, CLOCK_OVERFLOW, NO_PROGRESS, RECORD_FULL = range(4)

# Why the head of the queue is not in the batch.
SLOT, KV_BLOCKS, TOKEN_BUDGET, NOT_BLOCKED = range(4)

BLOCK_REASONS = ("slot", "kv_blocks", "token_budget")

# A capacity that never binds.
UNLIMITED = 2**62

# Mutable whole numbers of a run, by their place in `Engine.state`.
(
    NOW,  # the clock, ps
    ITERATION,  # iterations run so far
    ARRIVED,  # rows that have joined
    EXPIRED,  # entries of `end_order` that are dealt with
    OVERDUE,  # rows that have waited for max_wait_s, or would have
    QUEUED,  # requests in the waiting queue
    MEMBERS,  # slots in use
    DECODES,  # members that decode in every iteration
    CONTEXT_TOKENS,  # KV tokens that those read in the next iteration
    READY,  # members that have their first token and may not decode yet
    PREFILLS,  # members in mid-prefill
    PREFILL_TOKENS,  # prompt tokens they want in the next iteration
    PREFILL_CONTEXT,  # prompt tokens they have computed before it
    PREFILL_ATTENTION,  # sum of chunk * (2 * context_before + chunk) over those chunks
    FREE_KV,  # KV blocks nobody holds
    HEAD,  # the blocked head of the queue, or NONE
    REASON,  # the gate it failed
    PASSED_OVER,  # blocked requests that admission has passed over at this boundary
    WATCH,  # an arrival behind this queue position cannot change anything yet
    STATE_SIZE,
) = range(20)

EVERY_POSITION = 2**62


class Requests(NamedTuple):
    """Columns of the trace in arrival order; read-only and shared by all runs over it.

    `door` is 0 or the code of the reason to refuse the request; `end_order` lists the rows that
    have an end instant (cancellation or timeout), by that instant.
    """

    arrival_ps: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    kv_blocks: np.ndarray
    door: np.ndarray
    end_ps: np.ndarray
    end_status: np.ndarray
    end_order: np.ndarray


class Limits(NamedTuple):
    """The scheduler's knobs as whole numbers; what is unlimited is very large.

    `smallest_demand` is the least that a long enough prompt must be given in one iteration.
    """

    slots: int
    tokens: int
    chunk: int
    prefill_tokens: int
    kv_capacity: int
    max_wait_ps: int
    lookahead: int
    most_output: int
    smallest_demand: int


class Queue(NamedTuple):
    """Waiting requests by position: rows that are overdue from 0, the others from `base` by rank.

    Without max_wait_s nothing is ever overdue and `base` is 0.
    """

    waiting: BitSet
    position: np.ndarray
    row_at_rank: np.ndarray
    base: int


class Outcome(NamedTuple):
    """What became of each request; instants are NEVER_PS until they come.

    `generated` counts the output tokens of a request whose decode has ended.
    """

    status: np.ndarray
    admitted_ps: np.ndarray
    first_token_ps: np.ndarray
    finished_ps: np.ndarray
    generated: np.ndarray
    preemptions: np.ndarray
    recomputed: np.ndarray


class Members(NamedTuple):
    """What is known of requests in the batch.

    Attributes:
        roster: rows of the batch in order, for disciplines that go through it; (slots,).
        prefilling: rows in mid-prefill, in batch order; (slots,).
        prompt_left: prompt tokens not yet computed, by row.
        finishes_in: iteration in which a decode makes its last token, by row.
    """

    roster: np.ndarray
    prefilling: np.ndarray
    prompt_left: np.ndarray
    finishes_in: np.ndarray


class Engine(NamedTuple):
    """Everything a discipline works on."""

    state: np.ndarray
    requests: Requests
    limits: Limits
    cost: CostTables
    queue: Queue
    members: Members
    calendar: Calendar
    record: Record
    outcome: Outcome


@kernel
def stop_reason(engine):
    """What stops the run at this point, or FINISHED if nothing does."""
    if engine.state[NOW] >= HORIZON_PS:
        return CLOCK_OVERFLOW
    return RECORD_FULL if is_full(engine.record) else FINISHED
