"""The four functions of one iteration boundary, on columns.

Every discipline is these four steps repeated: what does each request want, who leaves, who enters,
what has changed. They are pure: inputs are never modified. `vecsched.disciplines` takes the same
decisions for whole traces at once.
"""

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from vecsched._jit import entry_point, kernel
from vecsched.errors import BoundaryError
from vecsched.requests import (
    ACTIVE,
    COMPLETED,
    DECODE,
    FIRST_TERMINAL,
    PREFILL,
    RequestTable,
)

BLOCK_REASONS = ("slot", "kv_blocks", "token_budget")

# Kernels return (status, row): what happened, and to which row.
OK, BAD_CHUNK, BAD_PHASE, OVERDRAWN = range(4)
NOT_BLOCKED = -1


@dataclass(frozen=True, kw_only=True)
class IterationReport:
    """What one boundary decided.

    Attributes:
        batch: requests of this iteration, actives first; has `scheduled_tokens`.
        waiting: the queue that is left, in order.
        terminal: requests that left `active`.
        blocked: at most one entry `{"id", "reason"}`: the queue's head and the first gate it fails.
        released_kv_blocks: blocks the terminal requests gave back.
        free_slots, free_kv_blocks, free_token_budget: what is left once the batch is formed.
    """

    batch: RequestTable
    waiting: RequestTable
    terminal: RequestTable
    blocked: list[dict[str, Any]]
    released_kv_blocks: int
    free_slots: int
    free_kv_blocks: int
    free_token_budget: int

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists and ints."""
        return {
            "batch": self.batch.to_records(),
            "waiting": self.waiting.to_records(),
            "terminal": self.terminal.to_records(),
            "blocked": [dict(entry) for entry in self.blocked],
            "released_kv_blocks": self.released_kv_blocks,
            "free_slots": self.free_slots,
            "free_kv_blocks": self.free_kv_blocks,
            "free_token_budget": self.free_token_budget,
        }


def iteration_token_demand(table: RequestTable, prefill_chunk_size: int) -> np.ndarray:
    """Return the tokens each request wants in this iteration: int64, shape (n,).

    A prefill wants its rest, at most one chunk; a decode wants 1 while tokens remain, else 0.

    Raises:
        BoundaryError: the chunk size is not positive, or a request has an unknown phase.
    """
    demand = np.empty(len(table), np.int64)
    status, row = _demands(*_work(table), int(prefill_chunk_size), demand)
    if status != OK or prefill_chunk_size <= 0:
        _refuse(BAD_CHUNK if prefill_chunk_size <= 0 else status, table, row, prefill_chunk_size)
    return demand


def release_terminal_requests(active: RequestTable) -> tuple[RequestTable, RequestTable, int]:
    """Split `active` into those that stay and those that ended, and count the returned blocks.

    Returns:
        (kept, terminal, released_kv_blocks); both tables keep the order of `active`.
    """
    ended = active.status >= FIRST_TERMINAL
    terminal = active.take(ended)
    return active.take(~ended), terminal, int(terminal.kv_blocks.sum())


def form_iteration_batch(
    active_requests: RequestTable,
    waiting_requests: RequestTable,
    max_batch_size: int,
    free_kv_blocks: int,
    max_num_batched_tokens: int,
    prefill_chunk_size: int,
) -> IterationReport:
    """Form the batch of one iteration under slots, KV-cache blocks and the token budget.

    Actives are in first, with what they want. Then the waiting queue in order: its head is checked
    for a slot, then KV blocks, then tokens; the first gate it fails is its block reason and
    admission stops. The head is never skipped and nothing is dropped.

    Raises:
        BoundaryError: the actives alone exceed the slots or the token budget; the chunk size is
            not positive; a request that had to be looked at has an unknown phase.
    """
    active, terminal, released = release_terminal_requests(active_requests)
    running_tokens = np.empty(len(active), np.int64)
    status, row = _demands(*_work(active), int(prefill_chunk_size), running_tokens)
    if status != OK:
        _refuse(status, active, row, prefill_chunk_size)
    free = np.array(
        [
            max_batch_size - len(active),
            free_kv_blocks + released,
            max_num_batched_tokens - int(running_tokens.sum()),
        ],
        np.int64,
    )
    if free[0] < 0 or free[2] < 0:
        raise BoundaryError(
            f"active requests exceed this iteration's budget: {len(active)} of {max_batch_size} "
            f"slots, {int(running_tokens.sum())} of {max_num_batched_tokens} tokens"
        )
    tokens = np.empty(len(waiting_requests), np.int64)
    status, admitted, reason = _admit(
        *_work(waiting_requests),
        _read_only(waiting_requests.kv_blocks),
        int(prefill_chunk_size),
        free,
        tokens,
    )
    if status != OK:
        _refuse(status, waiting_requests, admitted, prefill_chunk_size)
    entering = waiting_requests.take(slice(admitted))
    entering = replace(
        entering,
        status=np.full(admitted, ACTIVE, np.int8),
        scheduled_tokens=tokens[:admitted],
    )
    blocked = []
    if reason != NOT_BLOCKED:
        blocked.append({"id": waiting_requests.id[admitted], "reason": BLOCK_REASONS[reason]})
    return IterationReport(
        batch=replace(active, scheduled_tokens=running_tokens).followed_by(entering),
        waiting=waiting_requests.take(slice(admitted, None)),
        terminal=terminal,
        blocked=blocked,
        released_kv_blocks=released,
        free_slots=int(free[0]),
        free_kv_blocks=int(free[1]),
        free_token_budget=int(free[2]),
    )


def advance_iteration(batch: RequestTable) -> RequestTable:
    """Take the scheduled tokens off the phase's remainder and move requests on.

    A prefill with nothing left becomes a decode; a decode with nothing left is completed.

    Raises:
        BoundaryError: there is no `scheduled_tokens` column, a request has more tokens scheduled
            than remain, or its phase is unknown.
    """
    if batch.scheduled_tokens is None and len(batch) == 0:
        return batch.take(slice(None))
    if batch.scheduled_tokens is None:
        raise BoundaryError(
            "the batch has no scheduled_tokens: pass `form_iteration_batch().batch`"
        )
    after = batch.take(slice(None))
    status, row = _advance(
        after.phase,
        after.remaining_prefill_tokens,
        after.remaining_decode_tokens,
        _read_only(batch.scheduled_tokens),
        after.status,
    )
    if status != OK:
        _refuse(status, batch, row, 0)
    return after


def _work(table: RequestTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    columns = (table.phase, table.remaining_prefill_tokens, table.remaining_decode_tokens)
    phase, prefill, decode = (_read_only(column) for column in columns)
    return phase, prefill, decode


def _read_only(column: np.ndarray) -> np.ndarray:
    """One type for the kernels, whatever the caller's array is: each other would be compiled."""
    view = np.ascontiguousarray(column).view()
    view.flags.writeable = False
    return view


def _refuse(status: int, table: RequestTable, row: int, prefill_chunk_size: int) -> NoReturn:
    if status == BAD_CHUNK:
        raise BoundaryError(f"prefill_chunk_size must be positive, not {prefill_chunk_size}")
    request = f"request {table.id[row]!r}"
    if status == BAD_PHASE:
        name = table.phase_names[table.phase[row]]
        raise BoundaryError(f"{request} has the unknown phase {name!r}; known: prefill, decode")
    field = "prefill" if table.phase[row] == PREFILL else "decode"
    remaining = getattr(table, f"remaining_{field}_tokens")[row]
    scheduled = 0 if table.scheduled_tokens is None else table.scheduled_tokens[row]
    raise BoundaryError(
        f"{request} has {scheduled} tokens scheduled but only {remaining} {field} tokens remaining"
    )


@kernel
def _demand(phase, prefill, decode, chunk):
    """Tokens one request wants in this iteration."""
    if phase == PREFILL:
        return min(max(prefill, 0), chunk)
    return 1 if decode > 0 else 0


@entry_point
def _demands(phase, prefill, decode, chunk, demand):
    """Fill `demand`; (status, row) of the first request that has none."""
    for row in range(len(phase)):
        if chunk <= 0:
            return BAD_CHUNK, row
        if phase[row] > DECODE:
            return BAD_PHASE, row
        demand[row] = _demand(phase[row], prefill[row], decode[row], chunk)
    return OK, 0


@entry_point
def _admit(phase, prefill, decode, kv_blocks, chunk, free, tokens):
    """Admit from the head while the gates open; spends `free` (slots, KV blocks, tokens) in place.

    Returns (status, number admitted or offending row, reason the next one is blocked).
    """
    for row in range(len(phase)):
        if chunk <= 0:
            return BAD_CHUNK, row, NOT_BLOCKED
        if phase[row] > DECODE:
            return BAD_PHASE, row, NOT_BLOCKED
        tokens[row] = _demand(phase[row], prefill[row], decode[row], chunk)
        if free[0] <= 0:
            return OK, row, 0
        if kv_blocks[row] > free[1]:
            return OK, row, 1
        if tokens[row] > free[2]:
            return OK, row, 2
        free[0] -= 1
        free[1] -= kv_blocks[row]
        free[2] -= tokens[row]
    return OK, len(phase), NOT_BLOCKED


@entry_point
def _advance(phase, prefill, decode, scheduled, status):
    """Take `scheduled` off `prefill` or `decode` in place; (status, row) of the first overdraft."""
    for row in range(len(phase)):
        if phase[row] == PREFILL:
            prefill[row] -= scheduled[row]
            if prefill[row] < 0:
                return OVERDRAWN, row
            if prefill[row] == 0:
                phase[row] = DECODE
        else:
            decode[row] -= scheduled[row]
            if decode[row] < 0:
                return OVERDRAWN, row
            if phase[row] > DECODE:
                return BAD_PHASE, row
            if decode[row] == 0:
                status[row] = COMPLETED
    return OK, 0
