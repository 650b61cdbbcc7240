"""Where every KV block is, iteration by iteration, from the log of a run."""

from collections.abc import Iterator
from typing import NamedTuple

from vecsched.kernels.engine import Engine
from vecsched.kernels.record import (
    FOUND,
    GIVEN_UP,
    ITERATIONS,
    TAKEN,
    TO_HEAD,
    TO_TAIL,
    written_lines,
    written_moves,
)


class BlockState(NamedTuple):
    """The cache once an iteration's batch is formed.

    Attributes:
        free_queue: the free blocks' numbers, from the head on; negative if they carry a hash.
        tables: the numbers of each member's blocks, by the trace's row.
    """

    free_queue: list[int]
    tables: dict[int, list[int]]


def replay_blocks(engine: Engine, order: list[int]) -> Iterator[BlockState]:
    """Yield the state of the cache at each line of the record, each a single iteration.

    Args:
        engine: state after a run that logged its blocks.
        order: the trace's row for each of the engine's.
    """
    queue = list(range(1, len(engine.cache.pool.after)))
    tables: dict[int, list[int]] = {}
    moves = written_moves(engine.record).tolist()
    done = 0
    for number, line in enumerate(written_lines(engine.record).tolist()):
        assert line[ITERATIONS] == 1
        while done < len(moves) and moves[done][0] <= number:
            _, block, row, what = moves[done]
            _apply(queue, tables.setdefault(order[row], []), block, what)
            done += 1
        yield BlockState(list(queue), {row: list(held) for row, held in tables.items() if held})


def _apply(queue: list[int], table: list[int], block: int, what: int) -> None:
    if what == TAKEN:
        queue.pop(0)
        table.append(block)
    elif what == FOUND:
        table.append(block)
        if -block in queue:  # else somebody holds it
            queue.remove(-block)
    else:
        table.remove(block)
        if what == TO_HEAD:
            queue.insert(0, block)
        elif what != GIVEN_UP:
            queue.append(-block if what == TO_TAIL else block)
