"""From a trace, a configuration and a cost model to the arrays that a discipline works on.

What depends on the trace alone, or on a knob that many configurations share, is computed once and
kept with the trace, so that a sweep pays for it once.
"""

import importlib
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from vecsched.clock import HORIZON_PS, NEVER_PS, PS_PER_S, to_ps
from vecsched.config import SchedulerConfig
from vecsched.cost import CostModel, CostTables
from vecsched.errors import ClockOverflowError
from vecsched.kernels.arrivals import check_at_door
from vecsched.kernels.bitset import NONE, empty_bitset
from vecsched.kernels.calendar import empty_calendar
from vecsched.kernels.duration import fill_isolated_ps
from vecsched.kernels.engine import (
    EVERY_POSITION,
    FREE_KV,
    HEAD,
    NOT_BLOCKED,
    REASON,
    RUNNING_FIRST,
    RUNNING_LAST,
    STALLED_SINCE,
    STATE_SIZE,
    UNLIMITED,
    WATCH,
    Engine,
    Limits,
    Members,
    Outcome,
    Paging,
    PagingRules,
    Queue,
    Requests,
)
from vecsched.kernels.record import Record, empty_record
from vecsched.metrics import Isolated
from vecsched.policies import order_of, parse_policy
from vecsched.quantiles import SelectionScratch, quantiles_of
from vecsched.requests import CANCELLED, TIMED_OUT
from vecsched.trace import Trace


def once_per_trace(trace: Trace, key: Any, compute: Callable[[], Any]) -> Any:
    """Return what `compute` returned when this trace was first asked for `key`."""
    if key not in trace.memo:
        trace.memo[key] = compute()
    return trace.memo[key]


def requests_of(trace: Trace, config: SchedulerConfig, limits: Limits) -> Requests:
    """Columns in arrival order."""
    longest = config.max_model_len
    arrival_ps, prompt, output = once_per_trace(
        trace, ("work", longest), lambda: _work(trace, longest)
    )
    kv_blocks = once_per_trace(trace, _kv_key(config), lambda: _kv_blocks(trace, output, config))
    kv_need = kv_blocks
    if discipline_of(config).IS_PAGED and config.kv_reserve == "on_demand":
        # The last token's KV is never computed.
        kv_need = once_per_trace(
            trace,
            ("kv_need", config.block_size, longest),
            lambda: -(-(prompt + output - 1) // config.block_size),
        )
    ends = once_per_trace(trace, ("ends", config.timeout_s), lambda: _ends(trace, config.timeout_s))
    door = np.empty(len(trace), np.int8)
    check_at_door(prompt, output, kv_need, limits, door)
    return Requests(arrival_ps, prompt, output, kv_blocks, door, *ends)


def _work(trace: Trace, max_model_len: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(arrival in ps, prompt, output as cut to the model's length), in arrival order."""
    prompt, output = trace.prompt_tokens[trace.order], trace.output_tokens[trace.order]
    if max_model_len is not None:
        room = max_model_len - prompt
        output = np.where(room > 0, np.minimum(output, room), output)
    return to_ps(trace.arrival_s[trace.order]), prompt, output


def _kv_key(config: SchedulerConfig) -> tuple[Any, ...]:
    whole_model = config.discipline == "orca"
    return "kv", config.block_size, config.max_tokens, config.max_model_len, whole_model


def _kv_blocks(trace: Trace, output: np.ndarray, config: SchedulerConfig) -> np.ndarray:
    """Blocks that an admission sets aside if it sets aside all."""
    if trace.kv_blocks is not None:
        return trace.kv_blocks[trace.order]
    if config.discipline == "orca" and config.max_model_len is not None:
        return np.full(len(trace), -(-config.max_model_len // config.block_size), np.int64)
    reserved = output if config.max_tokens is None else config.max_tokens
    return -(-(trace.prompt_tokens[trace.order] + reserved) // config.block_size)


def _ends(trace: Trace, timeout_s: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(instant, status it gives, rows by instant) of cancellations and timeouts."""
    arrival_ps = to_ps(trace.arrival_s[trace.order])
    cancel = np.full(len(trace), NEVER_PS)
    if trace.cancel_at_s is not None:
        given = trace.cancel_at_s[trace.order]
        cancel[~np.isnan(given)] = to_ps(given[~np.isnan(given)])
    timeout = np.full(len(trace), NEVER_PS)
    if timeout_s is not None:
        timeout = arrival_ps + to_ps(timeout_s)
    status = np.where(cancel <= timeout, CANCELLED, TIMED_OUT).astype(np.int8)
    # Whatever is over before it arrives ends at the boundary at which it joins.
    end_ps = np.maximum(np.minimum(cancel, timeout), arrival_ps)
    by_end = np.argsort(end_ps, kind="stable")
    return end_ps, status, by_end[: int((end_ps < NEVER_PS).sum())]


def assemble(
    trace: Trace,
    config: SchedulerConfig,
    cost: CostModel,
    record: Record,
    *,
    refuses: bool = True,
) -> Engine:
    """Lay out a run: columns in arrival order, knobs, tables, and everything empty.

    Args:
        trace, config, cost: what to run.
        record: empty, with room for what will happen.
        refuses: fail requests that can never be served; otherwise they block the queue.

    Raises:
        ConfigError: the trace lacks a column that the policy needs.
        CostError: some iteration would take negative time.
        ClockOverflowError: one request could outlast the clock.
    """
    n = len(trace)
    limits = limits_of(config)._replace(refuses=refuses)
    tables = cost.tables(config.max_num_batched_tokens, config.max_batch_size)
    requests = requests_of(trace, config, limits)
    check_range(trace, tables, limits)
    state = np.zeros(STATE_SIZE, np.int64)
    state[FREE_KV] = limits.kv_capacity
    state[HEAD], state[REASON], state[WATCH] = NONE, NOT_BLOCKED, EVERY_POSITION
    state[RUNNING_FIRST], state[RUNNING_LAST], state[STALLED_SINCE] = NONE, NONE, NONE
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
        record=record,
        outcome=Outcome(
            status=np.zeros(n, np.int8),
            admitted_ps=np.full(n, NEVER_PS),
            first_token_ps=np.full(n, NEVER_PS),
            finished_ps=np.full(n, NEVER_PS),
            preemptions=np.zeros(n, np.int32),
            recomputed=np.zeros(n, np.int64),
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
    )


def paging_rules_of(config: SchedulerConfig) -> PagingRules:
    """The paged disciplines' knobs."""
    blocks = 0 if config.kv_blocks is None else int(config.watermark * (config.kv_blocks + 1))
    older = config.vllm_version == "0.19"
    return PagingRules(
        block_size=config.block_size,
        reserve_all=config.kv_reserve == "full",
        reserve_prompt=config.scheduler_reserve_full_isl,
        # vLLM counts its placeholder block in the share.
        watermark=blocks,
        chunked=config.enable_chunked_prefill,
        threshold=config.long_prefill_token_threshold,
        adaptive=config.long_prefill_token_threshold_adaptive,
        lone_threshold=older,
        by_priority=parse_policy(config.policy)[0] == "priority",
        stop_after_self=older,
        prefill_alone=config.discipline == "prefill_first",
    )


def _paging(trace: Trace, config: SchedulerConfig, prompt: np.ndarray) -> Paging:
    n = len(trace) if discipline_of(config).IS_PAGED else 0
    urgency = np.empty(0, np.int64)
    if n > 0 and parse_policy(config.policy)[0] == "priority":
        urgency = once_per_trace(trace, "urgency", lambda: _urgency(trace))
    return Paging(
        takers=np.zeros(config.block_size, np.int64),
        behind=np.empty(n, np.int64),
        ahead=np.empty(n, np.int64),
        known=prompt[:n].copy(),
        chunk=np.zeros(n, np.int64),
        urgency=urgency,
        kv_growth=np.zeros((1, 2), np.int64),
    )


def _urgency(trace: Trace) -> np.ndarray:
    """Rank by priority, then the engine's time stamp; full equals share one."""
    assert trace.priority is not None
    priority = trace.priority[trace.order]
    stamp = (
        np.arange(len(trace)) if trace.engine_time_s is None else trace.engine_time_s[trace.order]
    )
    _, rank = np.unique(np.stack([priority, stamp]), axis=1, return_inverse=True)
    return rank.reshape(-1).astype(np.int64)


def discipline_of(config: SchedulerConfig) -> Any:
    """The module of the configuration's discipline."""
    return importlib.import_module(f"vecsched.disciplines.{config.discipline}")


def _queue(trace: Trace, config: SchedulerConfig) -> Queue:
    n = len(trace)
    rank, row_at_rank = once_per_trace(
        trace, ("policy", config.policy), lambda: _ranks(order_of(trace, config.policy))
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
    decode = cost.longest_decode_ps + cost.longest_context_ps * context
    longest_ps = (prompt + output + 1) * max(mixed, decode)
    if longest_ps >= HORIZON_PS:
        raise ClockOverflowError(
            f"a request of {prompt} prompt and {output} output tokens could take "
            f"{longest_ps / PS_PER_S:.3g} s at this cost; the clock holds {HORIZON_PS / PS_PER_S:.3g} s"
        )


def isolated_of(trace: Trace, config: SchedulerConfig, cost: CostModel, engine: Engine) -> Isolated:
    """End-to-end time of each request alone on an idle engine of this configuration."""
    discipline = discipline_of(config)
    chunk, idle_iteration = discipline.lone_chunk(config), discipline.IDLE_ITERATION
    key = (cost, chunk, idle_iteration, config.max_num_batched_tokens, config.max_model_len)

    def compute() -> np.ndarray:
        isolated_ps = np.empty(len(trace), np.int64)
        fill_isolated_ps(engine.cost, engine.requests, chunk, idle_iteration, isolated_ps)
        return isolated_ps

    isolated_ps = once_per_trace(trace, ("isolated", *key), compute)
    # The default limit leaves out requests that this configuration refuses.
    refused = int(np.count_nonzero(engine.requests.door))

    if refused == 0:
        limit = once_per_trace(trace, ("starvation", *key), lambda: _starvation_s(isolated_ps))
    else:
        limit = _starvation_s(isolated_ps[engine.requests.door == 0])
    return Isolated(isolated_ps, limit)


def _starvation_s(isolated_ps: np.ndarray) -> float:
    scratch = SelectionScratch.for_size(len(isolated_ps))
    return 10 * quantiles_of(isolated_ps / PS_PER_S, [0.5], scratch)[0]


def by_size(trace: Trace) -> np.ndarray:
    """Rows by prompt + output, ascending, ties in arrival order: int64 (n,)."""
    return once_per_trace(
        trace,
        "by_size",
        lambda: np.argsort((trace.prompt_tokens + trace.output_tokens)[trace.order], kind="stable"),
    )


class RecordPool:
    """Records to be used again: fresh memory for each run would cost more than writing to it."""

    def __init__(self) -> None:
        self._free: defaultdict[tuple[int, int, bool], list[Record]] = defaultdict(list)
        self._lock = threading.Lock()

    def borrow(self, capacity: int, slots: int, logging: bool) -> Record:
        """Return an empty record."""
        # Rounded up, so that configurations with a few more slots share records.
        slots = 1 << (slots - 1).bit_length()
        with self._lock:
            free = self._free[capacity, slots, logging]
            record = free.pop() if free else None
        record = record or empty_record(capacity, slots, logging)
        record.count[:] = 0
        return record

    def give_back(self, record: Record) -> None:
        """Take a record that nobody reads any more."""
        with self._lock:
            slots = (record.slack - 16) // 4
            self._free[len(record.lines), slots, record.logging].append(record)

    def give_back_with(self, owner: object, record: Record) -> None:
        """Take the record back when `owner` is gone."""
        weakref.finalize(owner, self.give_back, record).atexit = False
