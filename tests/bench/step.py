"""The step-by-step reference: `strict`, first come first served, one iteration after another.

What one would write in Numba without looking for anything to skip: at every boundary arrivals join,
the head of the queue passes its three gates, and one loop goes over the batch. Same rules, same
affine cost in picoseconds, same results to the bit.
"""

from typing import NamedTuple

import numpy as np

from vecsched import SchedulerConfig, Trace
from vecsched._jit import entry_point
from vecsched.clock import to_ps


class Columns(NamedTuple):
    """Of requests in arrival order; the last three are filled."""

    arrival_ps: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    kv_blocks: np.ndarray
    admitted_ps: np.ndarray
    first_token_ps: np.ndarray
    finished_ps: np.ndarray


class Batch(NamedTuple):
    """Members in order of admission: row, prompt tokens and output tokens to come."""

    row: np.ndarray
    prefill_left: np.ndarray
    decode_left: np.ndarray


class Limits(NamedTuple):
    """The scheduler's knobs."""

    slots: int
    tokens: int
    chunk: int
    kv_blocks: int


class Cost(NamedTuple):
    """Picoseconds of an iteration, a prefill token, a decode, and a token of context it reads."""

    fixed: int
    prefill_token: int
    decode: int
    context_token: int


class Step:
    """A trace laid out for the loop; calling it returns (admitted, first token, finished) in ps."""

    def __init__(self, trace: Trace, config: SchedulerConfig, affine: dict[str, float]) -> None:
        n, slots = len(trace), config.max_batch_size
        prompt, output = trace.prompt_tokens, trace.output_tokens
        kv_blocks = -(-(prompt + output) // config.block_size)
        results = (np.empty(n, np.int64) for _ in range(3))
        self._columns = Columns(to_ps(trace.arrival_s), prompt, output, kv_blocks, *results)
        self._batch = Batch(*(np.empty(slots, np.int64) for _ in range(3)))
        self._limits = Limits(
            slots, config.max_num_batched_tokens, config.prefill_chunk_size, config.kv_blocks
        )
        self._cost = Cost(*(int(to_ps(seconds)) for seconds in affine.values()))

    def __call__(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        run(self._columns, self._batch, self._limits, self._cost)
        return self._columns[-3:]


@entry_point
def run(requests, batch, limits, cost):
    """Simulate until every request has ended. Arrivals must be in order."""
    n = len(requests.arrival_ps)
    now, head, arrived, members, free_kv = 0, 0, 0, 0, limits.kv_blocks
    # What the members want in the coming iteration, and the context that its decodes read.
    prefill_tokens, decodes, context = 0, 0, 0
    while head < n or members > 0:
        if members == 0 and head == arrived:
            now = max(now, requests.arrival_ps[arrived])
        while arrived < n and requests.arrival_ps[arrived] <= now:
            arrived += 1
        while head < arrived and members < limits.slots:
            chunk = min(requests.prompt[head], limits.chunk)
            if requests.kv_blocks[head] > free_kv:
                break
            if chunk > limits.tokens - prefill_tokens - decodes:
                break
            free_kv -= requests.kv_blocks[head]
            prefill_tokens += chunk
            requests.admitted_ps[head] = now
            batch.row[members] = head
            batch.prefill_left[members] = requests.prompt[head]
            batch.decode_left[members] = requests.output[head] - 1
            members += 1
            head += 1
        now += cost.fixed + cost.prefill_token * prefill_tokens
        now += cost.decode * decodes + cost.context_token * context
        prefill_tokens, decodes, context = 0, 0, 0
        stay = 0
        for member in range(members):
            row = batch.row[member]
            prefill, decode = batch.prefill_left[member], batch.decode_left[member]
            if prefill > 0:
                prefill -= min(prefill, limits.chunk)
                if prefill == 0:
                    requests.first_token_ps[row] = now
            else:
                # A request of one output token has none left here: it waits out one iteration.
                decode -= min(decode, 1)
                if decode == 0:
                    requests.finished_ps[row] = now
                    free_kv += requests.kv_blocks[row]
                    continue
            if prefill > 0:
                prefill_tokens += min(prefill, limits.chunk)
            elif decode > 0:
                decodes += 1
                context += requests.prompt[row] + requests.output[row] - decode
            batch.row[stay] = row
            batch.prefill_left[stay] = prefill
            batch.decode_left[stay] = decode
            stay += 1
        members = stay
