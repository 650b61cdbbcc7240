"""The log of a run, told iteration by iteration."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from vecsched.clock import PS_PER_S
from vecsched.kernels.engine import BLOCK_REASONS, NOT_BLOCKED, UNLIMITED, Engine
from vecsched.kernels.record import (
    BLOCK_REASON,
    BLOCKED_ROW,
    ENDED_WAITING,
    FIRST_PS,
    ITERATIONS,
    KV_HELD,
    LEFT,
    PREEMPTED,
    START_PS,
    STEP_PS,
    written_changes,
    written_lines,
)
from vecsched.requests import COMPLETED


class Iteration(NamedTuple):
    """One iteration; rows are the trace's, see `Result.iterations`."""

    iteration: int
    start_s: float
    end_s: float
    scheduled: list[tuple[int, int]]
    admitted: list[int]
    preempted: list[int]
    finished: list[int]
    num_cached_tokens: list[tuple[int, int]]
    blocked_reason: str
    blocked_row: int
    free_kv_blocks: int | None


def replay(engine: Engine, order: list[int]) -> Iterator[Iteration]:
    """Yield every iteration of a logged run.

    The log holds changes only, so the batch is kept up to date in a dictionary: it keeps the order
    of admission, which is batch order, and a request that comes back goes to its end.

    Args:
        engine: state after the run.
        order: the trace's row for each of the engine's.
    """
    changes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    cached: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for line, row, tokens, found in written_changes(engine.record).tolist():
        changes[line].append((row, tokens))
        if found > 0:
            cached[line].append((row, found))
    batch: dict[int, int] = {}
    computed: dict[int, int] = {}
    iteration = 0
    for number, line in enumerate(written_lines(engine.record).tolist()):
        before = list(batch)
        admitted = _update(batch, changes[number])
        computed |= dict.fromkeys(admitted, 0) | dict(cached[number])
        preempted = [order[row] for row, tokens in changes[number] if tokens == PREEMPTED]
        scheduled = {row: tokens for row, tokens in batch.items() if tokens >= 0}
        leaving = {row for row, tokens in changes[number + 1] if tokens in (LEFT, ENDED_WAITING)}
        # One that ends in the queue was in the batch until now.
        completing = [row for row in dict.fromkeys([*before, *batch]) if row in leaving]
        finished = [order[row] for row in completing if engine.outcome.status[row] == COMPLETED]
        start, held = line[START_PS], line[KV_HELD]
        for step in range(line[ITERATIONS]):
            if step > 0:
                held += _blocks_taken(engine, scheduled, computed)
            for row, tokens in scheduled.items():
                computed[row] += tokens
            end = start + line[FIRST_PS] + step * line[STEP_PS]
            yield Iteration(
                iteration=iteration,
                start_s=float(start) / PS_PER_S,
                end_s=float(end) / PS_PER_S,
                scheduled=[(order[row], tokens) for row, tokens in scheduled.items()],
                admitted=[order[row] for row in admitted] if step == 0 else [],
                preempted=preempted if step == 0 else [],
                finished=finished if step == line[ITERATIONS] - 1 else [],
                num_cached_tokens=[(order[row], tokens) for row, tokens in cached[number]]
                if step == 0
                else [],
                blocked_reason=(*BLOCK_REASONS, "")[line[BLOCK_REASON]],
                blocked_row=-1 if line[BLOCK_REASON] == NOT_BLOCKED else order[line[BLOCKED_ROW]],
                free_kv_blocks=_free_blocks(engine, held),
            )
            iteration, start = iteration + 1, end


def _free_blocks(engine: Engine, held: int) -> int | None:
    capacity = engine.limits.kv_capacity
    return capacity - held if capacity < UNLIMITED else None


def _blocks_taken(engine: Engine, scheduled: dict[int, int], computed: dict[int, int]) -> int:
    """Blocks that the decodes of a later iteration of a stretch take."""
    if len(engine.paging.known) == 0 or engine.paging_rules.reserve_all:
        return 0
    return sum(computed[row] % engine.paging_rules.block_size == 0 for row in scheduled)


def _update(batch: dict[int, int], changes: list[tuple[int, int]]) -> list[int]:
    """Apply the changes ahead of an iteration; returns the rows that are new in the batch."""
    admitted = []
    for row, tokens in changes:
        if tokens == ENDED_WAITING:
            continue
        if tokens in (LEFT, PREEMPTED):
            del batch[row]
            continue
        if row not in batch:
            admitted.append(row)
        batch[row] = tokens
    return admitted
