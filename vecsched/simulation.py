"""simulate: one trace, one configuration, one cost model."""

from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from vecsched._jit import engine_version, is_compiled
from vecsched.assembly import RunOptions, assemble
from vecsched.block_log import BlockState, replay_blocks
from vecsched.clock import HORIZON_PS, PS_PER_S
from vecsched.columns import by_size, discipline_of
from vecsched.config import SchedulerConfig
from vecsched.cost import CostModel
from vecsched.errors import ClockOverflowError, NoProgressError
from vecsched.isolated import isolated_of
from vecsched.kernels.cache import POOL
from vecsched.kernels.engine import (
    CLOCK_OVERFLOW,
    FINISHED,
    HEAD,
    ITERATION,
    NOW,
    QUEUED,
    QUIET,
    RECORD_FULL,
    RUNS_ARE_NOT_ENOUGH,
    Engine,
)
from vecsched.metrics import summarise
from vecsched.options import MetricOptions
from vecsched.pool import RecordPool
from vecsched.replay import Iteration, replay
from vecsched.results import Result
from vecsched.tenancy import summarise_tenants
from vecsched.trace import Trace

__all__ = [
    "BlockState",
    "Decisions",
    "Result",
    "decisions_until_stuck",
    "engine_version",
    "is_compiled",
    "simulate",
    "warm_up",
]

_records = RecordPool()
_DEFAULT_METRICS = MetricOptions()


def simulate(
    trace: Trace,
    config: SchedulerConfig,
    cost: CostModel,
    log_iterations: bool = False,
    *,
    metrics: MetricOptions = _DEFAULT_METRICS,
) -> Result:
    """Run a trace through a scheduler until every request has ended.

    Args:
        trace: the requests.
        config: the scheduler's knobs.
        cost: how long an iteration takes.
        log_iterations: keep what every single iteration did in `Result.iterations`.
        metrics: SLOs, starvation limit and steady window of the summary.

    Returns:
        A `Result`: `summary`, and the tables `requests`, `iterations`, `stretches`.

    Raises:
        ConfigError: the trace lacks a column that the policy needs, or none of its requests fits
            the KV cache.
        CostError: the cost model gives some iteration a negative duration.
        ClockOverflowError: simulated time leaves the clock.
        NoProgressError: the scheduler stood still: a bug.
    """
    engine, status = _run(trace, config, cost, RunOptions(bool(log_iterations)))
    if status != FINISHED:
        _fail(status, engine, trace)
    return _result(trace, config, cost, engine, metrics)


class Decisions(NamedTuple):
    """What a scheduler decided, in steps of one second.

    Attributes:
        iterations: every iteration.
        stuck: the id of the request behind which the queue stands still; None: the run came to its
            end.
        blocks: the KV cache in each iteration; empty unless it was logged.
    """

    iterations: list[Iteration]
    stuck: Any
    blocks: list[BlockState]


def decisions_until_stuck(
    trace: Trace, config: SchedulerConfig, *, log_blocks: bool = False
) -> Decisions:
    """Run, as a real engine does, without refusing requests that can never be served.

    For comparison with step logs of engines: their queue stands still behind such a request. Every
    iteration lasts one second, whatever it holds.

    Args:
        trace: the requests.
        config: the scheduler's knobs.
        log_blocks: keep the KV cache block by block and tell where each block is; the decisions
            are the same.
    """
    options = RunOptions(True, refuses=False, tick_ps=PS_PER_S, log_blocks=log_blocks)
    engine, status = _run(trace, config, CostModel.unit(), options)
    stuck = None if status == FINISHED else trace.id[trace.order[engine.state[HEAD]]]
    order = trace.order.tolist()
    has_blocks = log_blocks and engine.cache.kind == POOL
    found = Decisions(
        iterations=list(replay(engine, order)),
        stuck=stuck,
        blocks=list(replay_blocks(engine, order)) if has_blocks else [],
    )
    _records.give_back(engine.record)
    return found


def _run(
    trace: Trace, config: SchedulerConfig, cost: CostModel, options: RunOptions
) -> tuple[Engine, int]:
    # Six lines a request hold most runs; one that needs more is run again with twice the room, and
    # one that needs the cache block by block is run again with it.
    capacity = 6 * len(trace) + 1024
    while True:
        record = _records.borrow(capacity, config.max_batch_size, options.logging)
        engine = assemble(trace, config, cost, record, options)
        status = discipline_of(config).run(engine)
        if status not in (RECORD_FULL, RUNS_ARE_NOT_ENOUGH):
            return engine, status
        _records.give_back(record)
        if status == RECORD_FULL:
            capacity *= 2
        else:
            options = options._replace(block_by_block=True)


def _result(
    trace: Trace, config: SchedulerConfig, cost: CostModel, engine: Engine, options: MetricOptions
) -> Result:
    isolated = isolated_of(trace, config, cost, engine)
    result = Result((trace, config), engine, isolated)
    result.summary |= summarise(engine, isolated, by_size(trace, config, engine.requests), options)
    result.summary |= summarise_tenants(trace, config, engine)
    _records.give_back_with(result, engine.record)
    return result


def warm_up(disciplines: Iterable[str]) -> None:
    """Compile, or load from disk, every kernel that these disciplines need."""
    trace = Trace([0.0, 0.0], [2, 1], [2, 1])
    for discipline in disciplines:
        simulate(trace, SchedulerConfig(discipline=discipline), CostModel.unit())


def _fail(status: int, engine: Engine, trace: Trace) -> NoReturn:
    now = int(engine.state[NOW]) / PS_PER_S
    iteration = int(engine.state[ITERATION])
    if status == CLOCK_OVERFLOW:
        raise ClockOverflowError(
            f"after {iteration} iterations simulated time is {now} s, beyond the clock's "
            f"{HORIZON_PS / PS_PER_S:.0f} s: the load is far above what this setting can serve"
        )
    quiet, waiting = int(engine.state[QUIET]), int(engine.state[QUEUED])
    if quiet > engine.limits.patience:
        raise NoProgressError(
            f"at {now} s no output token was made for {quiet} iterations, {waiting} requests wait: "
            "requests of equal urgency preempt each other for ever, which vLLM's rules allow "
            "without scheduler_reserve_full_isl"
        )
    head = int(engine.state[HEAD])
    name = "none" if head < 0 else repr(trace.id[trace.order[head]])
    raise NoProgressError(
        f"at {now} s, after {iteration} iterations, {waiting} requests wait and nothing runs; the "
        f"queue's head is request {name}. Please report this as a bug."
    )
