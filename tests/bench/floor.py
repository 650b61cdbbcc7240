"""The floor: the least that any event-driven simulator could do for a request.

Its four columns are read, one event goes into a heap of the batch size and one comes out, three
columns are written. That is a queue with as many servers as there are slots, each held for about as
long as a request takes in a full batch, so that the heap has as much to sort as a scheduler's.
"""

import numpy as np

from vecsched import SchedulerConfig, Trace
from vecsched._jit import entry_point, kernel
from vecsched.clock import to_ps

# Of an iteration of 256 requests of the workload, and of a prompt token in it.
DECODE_PS, PREFILL_TOKEN_PS = 35_000_000_000, 80_000_000


class Floor:
    """The columns of a trace and room for the results; calling it runs the floor."""

    def __init__(self, trace: Trace, config: SchedulerConfig) -> None:
        prompt, output = trace.prompt_tokens, trace.output_tokens
        kv_blocks = -(-(prompt + output) // config.block_size)
        self._columns = (to_ps(trace.arrival_s), prompt, output, kv_blocks)
        self._written = tuple(np.empty(len(trace), np.int64) for _ in range(3))
        self._free_at = np.zeros(config.max_batch_size, np.int64)

    def __call__(self) -> tuple[np.ndarray, ...]:
        self._free_at[:] = 0
        pass_through_heap(*self._columns, self._free_at, *self._written)
        return self._written


@entry_point
def pass_through_heap(arrival, prompt, output, kv_blocks, free_at, admitted, first_token, finished):
    """Fill the last three columns; `free_at` is a heap of when each slot is free."""
    slots = len(free_at)
    for row in range(len(arrival)):
        start = max(arrival[row], pop_least(free_at, slots))
        admitted[row] = start
        first_token[row] = start + prompt[row] * PREFILL_TOKEN_PS
        # The blocks count next to nothing, but they are read.
        finished[row] = first_token[row] + output[row] * DECODE_PS + kv_blocks[row]
        push(free_at, slots - 1, finished[row])


@kernel
def pop_least(heap, size):
    """Take the least of `size` keys out of a binary heap."""
    least, key = heap[0], heap[size - 1]
    hole, child = 0, 1
    while child < size - 1:
        if child + 1 < size - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[hole] = heap[child]
        hole, child = child, 2 * child + 1
    heap[hole] = key
    return least


@kernel
def push(heap, size, key):
    """Put a key into a binary heap of `size` keys."""
    hole = size
    while hole > 0:
        parent = (hole - 1) // 2
        if heap[parent] <= key:
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = key
