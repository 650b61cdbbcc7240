"""The state that every discipline works on.

Rows are numbered in arrival order here; `vecsched.simulation` maps them back to the trace's rows.
"""

from typing import NamedTuple

import numpy as np

from vecsched._jit import kernel
from vecsched.clock import HORIZON_PS
from vecsched.cost import CostTables
from vecsched.kernels.bitset import BitSet
from vecsched.kernels.cache import Cache
from vecsched.kernels.calendar import Calendar
from vecsched.kernels.chain import Chains
from vecsched.kernels.fair import Fair
from vecsched.kernels.record import Record, is_full

# What a run returns.
FINISHED, CLOCK_OVERFLOW, NO_PROGRESS, RECORD_FULL, RUNS_ARE_NOT_ENOUGH = range(5)

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
    ITERATION_CHUNKS,  # prefill chunks in the next iteration
    LONE_DECODES,  # members that decode in it without doing so in every iteration
    LONE_CONTEXT,  # KV tokens that those read
    STALLED_SINCE,  # when the decodes that wait for a prefill-only iteration made a token, or NONE
    TOKENS_LEFT,  # what is left of the token budget while a batch is formed
    PREFILL_LEFT,  # what is left of the bound on prompt tokens
    QUIET,  # iterations since an output token was made
    PASSED_OVER,  # blocked requests that admission has passed over at this boundary
    WATCH,  # an arrival behind this queue position cannot change anything yet
    ADMISSIONS,  # how often a request has entered the batch
    LEAVING,  # entries of `Flight.leaving`
    FIRSTS,  # entries of `Flight.firsts`
    STOPPED,  # entries of `Flight.stopped`
    FLIGHT_PS,  # duration of the step that the worker is at
    FLIGHT_TOKENS,  # tokens scheduled in it
    FLIGHT_STEADY,  # members that decoded in it, and in the step before
    NEVER_HASHED,  # free blocks at the head of the queue that carry no hash
    IN_RUNS,  # free blocks from the head of the queue to the end of the last run
    EVICTED,  # blocks with a hash that were taken for something else
    NEEDS_POOL,  # 1: what happened cannot be told with runs of blocks
    STATE_SIZE,
) = range(38)

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

    `smallest_demand` is the least that a long enough prompt must be given in one iteration;
    `recomputes_at_once`: and so must what a preempted request has to compute anew;
    `idle_iteration`: a request with one output token waits out an iteration of 0 tokens;
    `refuses`: requests that can never be served fail instead of blocking the queue;
    `patience`: iterations without an output token after which a run is given up;
    `tick_ps`: what every iteration lasts whatever it costs, to count steps in; 0: what it costs.
    """

    slots: int
    tokens: int
    chunk: int
    prefill_tokens: int
    kv_capacity: int
    max_wait_ps: int
    lookahead: int
    model_length: int
    most_output: int
    smallest_demand: int
    recomputes_at_once: bool
    idle_iteration: bool
    refuses: bool
    patience: int
    tick_ps: int


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

    Attributes:
        recomputed: tokens computed once more, for their KV was lost to preemptions.
        looked_up: tokens looked for in the cache, over all admissions.
        cached: tokens found there; `cached_again`: of those, the ones found after a preemption.
    """

    status: np.ndarray
    admitted_ps: np.ndarray
    first_token_ps: np.ndarray
    finished_ps: np.ndarray
    preemptions: np.ndarray
    recomputed: np.ndarray
    looked_up: np.ndarray
    cached: np.ndarray
    cached_again: np.ndarray


class Members(NamedTuple):
    """What is known of requests in the batch.

    Attributes:
        roster: rows of the batch in order, for disciplines that go through it; (slots,).
        prefilling: rows in mid-prefill, in batch order; (slots,).
        prompt_left: prompt tokens not yet computed, by row.
        finishes_in: iteration in which a decode makes its last token, by row.
        steady_from: line of the record in which it began to take a token in every iteration.
        last_token_ps: when a request that has stopped decoding made its last token.
    """

    roster: np.ndarray
    prefilling: np.ndarray
    prompt_left: np.ndarray
    finishes_in: np.ndarray
    steady_from: np.ndarray
    last_token_ps: np.ndarray


class PagingRules(NamedTuple):
    """Knobs of the paged disciplines.

    Attributes:
        block_size: tokens of a KV block.
        reserve_all: hold the whole reservation from admission on.
        reserve_prompt: admit only if all known tokens would fit.
        watermark: blocks that an admission must leave free while anyone runs.
        chunked: a prompt may be cut to the budget at admission.
        threshold: tokens a request may compute in one iteration; 0: no such bound.
        adaptive: the threshold grows while few requests are there.
        lone_threshold: the threshold holds for a request that is alone, too.
        by_priority: victims are chosen by `Paging.urgency`, not by admission.
        stop_after_self: a request that preempts itself ends the pass under priority, too.
        prefill_alone: an iteration holds prefills or decodes, never both.
        asynchronous: a batch is formed while the one before it runs.
    """

    block_size: int
    reserve_all: bool
    reserve_prompt: bool
    watermark: int
    chunked: bool
    threshold: int
    adaptive: bool
    lone_threshold: bool
    by_priority: bool
    stop_after_self: bool
    prefill_alone: bool
    asynchronous: bool


class Paging(NamedTuple):
    """State of disciplines whose KV grows block by block; (0,) arrays for the others.

    Attributes:
        takers: decodes by the iterations (mod block_size) in which they take a block.
        running: the running list.
        known: tokens a request must compute before its next token, while it prefills or waits.
        chunk: tokens it is scheduled in the iteration that is being formed.
        lost: tokens whose KV the latest preemption took, by row.
        stamp: number of the latest admission, by row: the running list is in its order.
        left_out: members that vLLM 0.19 misses in this step.
        urgency: the larger, the sooner a victim.
        kv_growth: (1, 2): blocks taken in mid-stretch x the time they were held in it, two words.
    """

    takers: np.ndarray
    running: Chains
    known: np.ndarray
    chunk: np.ndarray
    lost: np.ndarray
    stamp: np.ndarray
    left_out: np.ndarray
    urgency: np.ndarray
    kv_growth: np.ndarray


class Flight(NamedTuple):
    """Rows with something on the way; (slots,) each, as many entries as `Engine.state` tells.

    Attributes:
        leaving: members whose last token is sampled; they leave when it is there.
        firsts: requests whose first token since their admission is on the way.
        stopped: requests that do not go on decoding, and whose last token so far is on the way.
    """

    leaving: np.ndarray
    firsts: np.ndarray
    stopped: np.ndarray


class Engine(NamedTuple):
    """Everything a discipline works on."""

    state: np.ndarray
    requests: Requests
    limits: Limits
    cost: CostTables
    queue: Queue
    members: Members
    calendar: Calendar
    paging_rules: PagingRules
    paging: Paging
    flight: Flight
    cache: Cache
    fair: Fair
    record: Record
    outcome: Outcome


@kernel
def stop_reason(engine):
    """What stops the run at this point, or FINISHED if nothing does."""
    if engine.state[NOW] >= HORIZON_PS:
        return CLOCK_OVERFLOW
    if engine.state[NEEDS_POOL] > 0:
        return RUNS_ARE_NOT_ENOUGH
    return RECORD_FULL if is_full(engine.record) else FINISHED
