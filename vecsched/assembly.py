"""From a trace, a configuration and a cost model to the arrays that a discipline works on.

What depends on the trace alone, or on a knob that many configurations share, is computed once and
kept with the trace, so that a sweep pays for it once.
"""

from typing import NamedTuple

import numpy as np

from vecsched.cache_state import cache_state, with_moves
from vecsched.clock import HORIZON_PS, NEVER_PS, PS_PER_S, to_ps
from vecsched.columns import discipline_of, once_per_trace, requests_of
from vecsched.config import SchedulerConfig
from vecsched.cost import CostModel, CostTables
from vecsched.errors import ClockOverflowError
from vecsched.fairness import fair_state
from vecsched.kernels.bitset import NONE, empty_bitset
from vecsched.kernels.calendar import empty_calendar
from vecsched.kernels.chain import empty_chains
from vecsched.kernels.engine import (
    EVERY_POSITION,
    FREE_KV,
    HEAD,
    NEVER_HASHED,
    NOT_BLOCKED,
    REASON,
    STALLED_SINCE,
    STATE_SIZE,
    UNLIMITED,
    WATCH,
    Engine,
    Flight,
    Limits,
    Members,
    Outcome,
    Paging,
    PagingRules,
    Queue,
)
from vecsched.kernels.record import Record
from vecsched.mixed_attention import longest_ps as longest_attention_ps
from vecsched.policies import as_believed, order_of, parse_policy
from vecsched.trace import Trace


class RunOptions(NamedTuple):
    """How a run differs from an ordinary one.

    Attributes:
        logging: keep what every single iteration did.
        refuses: fail requests that can never be served; otherwise they block the queue.
        tick_ps: what every iteration lasts; 0: what it costs. Of asynchronous runs.
        block_by_block: keep the free queue of the cache so, whatever would do.
        log_blocks: keep every move of a block, and the free queue so.
    """

    logging: bool = False
    refuses: bool = True
    tick_ps: int = 0
    block_by_block: bool = False
    log_blocks: bool = False


def assemble(
    trace: Trace, config: SchedulerConfig, cost: CostModel, record: Record, options: RunOptions
) -> Engine:
    """Lay out a run: columns in arrival order, knobs, tables, and everything empty.

    Args:
        trace: the requests.
        config: the knobs.
        cost: how long an iteration takes.
        record: empty, with room for what will happen.
        options: how the run differs from an ordinary one.

    Raises:
        ConfigError: the trace lacks a column that the policy needs, or none of its requests fits
            the KV cache.
        CostError: some iteration would take negative time.
        ClockOverflowError: one request could outlast the clock.
    """
    n = len(trace)
    # The member that is served first computes a token an iteration, so some output comes in time.
    longest = _longest(trace, "prompt_tokens") + _longest(trace, "output_tokens")
    limits = limits_of(config)._replace(
        refuses=options.refuses, patience=2 * longest + 100, tick_ps=options.tick_ps
    )
    tables = cost.tables(config.max_num_batched_tokens, config.max_batch_size)
    requests = requests_of(trace, config, limits)
    check_range(trace, tables, limits)
    cache = cache_state(trace, config, block_by_block=options.block_by_block or options.log_blocks)
    state = np.zeros(STATE_SIZE, np.int64)
    state[FREE_KV] = limits.kv_capacity
    state[HEAD], state[REASON], state[WATCH] = NONE, NOT_BLOCKED, EVERY_POSITION
    state[NEVER_HASHED], state[STALLED_SINCE] = limits.kv_capacity, NONE
    return Engine(
        state=state,
        requests=requests,
        limits=limits,
        cost=tables,
        queue=_queue(trace, config),
        members=Members(
            roster=np.empty(limits.slots, np.int64),
            prefilling=np.empty(limits.slots, np.int64),
            prompt_left=np.empty(n, np.int64),
            finishes_in=np.empty(n, np.int64),
            steady_from=np.empty(n, np.int64),
            last_token_ps=np.empty(n, np.int64),
        ),
        calendar=empty_calendar(n, _longest(trace, "output_tokens")),
        paging_rules=paging_rules_of(config),
        paging=_paging(trace, config, requests.prompt),
        flight=Flight(*np.empty((3, limits.slots), np.int64)),
        cache=cache,
        fair=fair_state(trace, config),
        record=with_moves(record, cache, limits.slots) if options.log_blocks else record,
        outcome=Outcome(
            status=np.zeros(n, np.int8),
            admitted_ps=np.full(n, NEVER_PS),
            first_token_ps=np.full(n, NEVER_PS),
            finished_ps=np.full(n, NEVER_PS),
            preemptions=np.zeros(n, np.int32),
            recomputed=np.zeros(n, np.int64),
            looked_up=np.zeros(n, np.int64),
            cached=np.zeros(n, np.int64),
            cached_again=np.zeros(n, np.int64),
        ),
    )


def limits_of(config: SchedulerConfig) -> Limits:
    """The knobs as whole numbers; `None` becomes a bound that never binds."""
    discipline = discipline_of(config)
    return Limits(
        slots=config.max_batch_size,
        tokens=config.max_num_batched_tokens,
        chunk=discipline.lone_chunk(config),
        prefill_tokens=config.max_prefill_tokens or UNLIMITED,
        kv_capacity=config.kv_blocks or UNLIMITED,
        max_wait_ps=NEVER_PS if config.max_wait_s is None else int(to_ps(config.max_wait_s)),
        lookahead=config.lookahead,
        model_length=config.max_model_len or UNLIMITED,
        most_output=config.max_tokens or UNLIMITED,
        smallest_demand=discipline.smallest_demand(config),
        recomputes_at_once=discipline.__name__.endswith("prefill_first"),
        idle_iteration=discipline.IDLE_ITERATION,
        refuses=True,
        patience=0,
        tick_ps=0,
    )


def paging_rules_of(config: SchedulerConfig) -> PagingRules:
    """The paged disciplines' knobs."""
    blocks = 0 if config.kv_blocks is None else int(config.watermark * (config.kv_blocks + 1))
    is_vllm = config.discipline == "vllm"
    older = is_vllm and config.vllm_version == "0.19"
    return PagingRules(
        block_size=config.block_size,
        reserve_all=config.kv_reserve == "full",
        reserve_prompt=config.scheduler_reserve_full_isl,
        # vLLM counts its placeholder block in the share.
        watermark=blocks,
        chunked=config.enable_chunked_prefill or not is_vllm,
        threshold=config.long_prefill_token_threshold,
        adaptive=config.long_prefill_token_threshold_adaptive,
        lone_threshold=older,
        by_priority=parse_policy(config.policy)[0] == "priority",
        stop_after_self=older,
        prefill_alone=config.discipline == "prefill_first",
        asynchronous=is_vllm and config.async_scheduling,
    )


def _paging(trace: Trace, config: SchedulerConfig, prompt: np.ndarray) -> Paging:
    n = len(trace) if discipline_of(config).IS_PAGED else 0
    urgency = np.empty(0, np.int64)
    if n > 0 and parse_policy(config.policy)[0] == "priority":
        urgency = once_per_trace(trace, "urgency", lambda: _urgency(trace))
    return Paging(
        takers=np.zeros(config.block_size, np.int64),
        running=empty_chains(1, n),
        known=prompt[:n].copy(),
        chunk=np.zeros(n, np.int64),
        lost=np.empty(n, np.int64),
        stamp=np.empty(n, np.int64),
        left_out=np.zeros(n, np.bool_),
        urgency=urgency,
        kv_growth=np.zeros((1, 2), np.int64),
    )


def _urgency(trace: Trace) -> np.ndarray:
    """Rank by priority, then the engine's time stamp; full equals share one."""
    assert trace.priority is not None
    priority = np.unique(trace.priority[trace.order], return_inverse=True)[1]
    instant = np.arange(len(trace))
    if trace.engine_time_s is not None:
        instant = np.unique(trace.engine_time_s[trace.order], return_inverse=True)[1]
    return priority * len(trace) + instant


def _queue(trace: Trace, config: SchedulerConfig) -> Queue:
    n = len(trace)
    error, seed = config.prediction_error, config.prediction_seed
    rank, row_at_rank = once_per_trace(
        trace,
        ("policy", config.policy, error, seed),
        lambda: _ranks(order_of(as_believed(trace, error, seed), config.policy)),
    )
    if config.max_wait_s is None:
        return Queue(empty_bitset(n), rank, row_at_rank, 0)
    return Queue(empty_bitset(2 * n), rank + n, row_at_rank, n)


def _ranks(order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank, order


def _longest(trace: Trace, name: str) -> int:
    return once_per_trace(trace, ("longest", name), lambda: int(getattr(trace, name).max()))


def check_range(trace: Trace, cost: CostTables, limits: Limits) -> None:
    """Make sure that no single stretch, nor any request alone, can overflow the clock.

    Raises:
        ClockOverflowError: it could; says by how much.
    """
    prompt, output = _longest(trace, "prompt_tokens"), _longest(trace, "output_tokens")
    context = limits.slots * (prompt + output)
    slots, tokens = limits.slots, limits.tokens
    mixed = cost.longest_mixed_ps + cost.longest_context_ps * context
    mixed += cost.prefill_attention_ps * tokens * 2 * max(prompt, 1)
    mixed += cost.prefill_context_ps * context + cost.chunk_decode_ps * tokens * slots
    longest = prompt + output
    mixed += longest_attention_ps(cost.attention, (tokens, longest, slots, longest))
    decode = cost.longest_decode_ps + cost.longest_context_ps * context
    longest_ps = (prompt + output + 1) * max(mixed, decode)
    if longest_ps >= HORIZON_PS:
        raise ClockOverflowError(
            f"a request of {prompt} prompt and {output} output tokens could take "
            f"{longest_ps / PS_PER_S:.3g} s at this cost, beyond the clock's "
            f"{HORIZON_PS / PS_PER_S:.3g} s"
        )
