"""RequestTable: the state of requests at an iteration boundary, one NumPy array a field."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from vecsched._numbers import is_whole_number
from vecsched.errors import InputError, did_you_mean

PHASES = ("prefill", "decode")
STATUSES = ("waiting", "active", "completed", "cancelled", "timed_out", "failed")

PREFILL, DECODE = range(2)
WAITING, ACTIVE, COMPLETED, CANCELLED, TIMED_OUT, FAILED = range(6)
# Statuses from here on are terminal: the request leaves the batch and its blocks return.
FIRST_TERMINAL = COMPLETED

TOKEN_FIELDS = ("remaining_prefill_tokens", "remaining_decode_tokens", "kv_blocks")
FIELDS = ("id", "phase", *TOKEN_FIELDS, "status")


@dataclass(frozen=True, kw_only=True, eq=False)
class RequestTable:
    """Columns of n requests, all of shape (n,); row order is batch or queue order.

    Attributes:
        id: object; the caller's own identifiers.
        phase: int8 index into `phase_names`; 0 is prefill, 1 is decode. Higher codes are phases
            this scheduler does not know: they may be stored, but not scheduled.
        remaining_prefill_tokens: int64 tokens of the prompt not yet computed.
        remaining_decode_tokens: int64 tokens still to be generated.
        kv_blocks: int64 KV-cache blocks the request holds, or will hold once admitted.
        status: int8 index into `STATUSES`.
        scheduled_tokens: int64 tokens of this iteration; None outside a formed batch.
        phase_names: names the phase codes stand for.
    """

    id: np.ndarray
    phase: np.ndarray
    remaining_prefill_tokens: np.ndarray
    remaining_decode_tokens: np.ndarray
    kv_blocks: np.ndarray
    status: np.ndarray
    scheduled_tokens: np.ndarray | None = None
    phase_names: tuple[str, ...] = PHASES

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self._columns().items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns differ in length: {lengths}", source="RequestTable")

    def __len__(self) -> int:
        return len(self.id)

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]]) -> Self:
        """Build a table from dictionaries with the keys of `FIELDS` (and `scheduled_tokens`).

        Raises:
            InputError: a key is missing or unknown, a count is no whole number, a status does not
                exist; names the record, the key and the value.
        """
        rows = list(records)
        has_schedule = bool(rows) and all("scheduled_tokens" in row for row in rows)
        counts = (*TOKEN_FIELDS, "scheduled_tokens") if has_schedule else TOKEN_FIELDS
        for index, row in enumerate(rows):
            _check_keys(index, row, (*FIELDS, "scheduled_tokens") if has_schedule else FIELDS)
        unknown = dict.fromkeys(row["phase"] for row in rows if row["phase"] not in PHASES)
        phase_names = (*PHASES, *unknown)
        columns = {name: _whole_numbers(rows, name) for name in counts}
        return cls(
            id=_objects([row["id"] for row in rows]),
            phase=np.array([phase_names.index(row["phase"]) for row in rows], np.int8),
            status=np.array(
                [_status_code(i, row["status"]) for i, row in enumerate(rows)], np.int8
            ),
            phase_names=phase_names,
            **columns,
        )

    def to_records(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of plain Python values; inverse of `from_records`."""
        columns = {name: column.tolist() for name, column in self._columns().items()}
        columns["phase"] = [self.phase_names[code] for code in columns["phase"]]
        columns["status"] = [STATUSES[code] for code in columns["status"]]
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]

    def take(self, rows: np.ndarray | slice) -> Self:
        """Return the chosen rows as a new table; arrays are copied."""
        chosen: dict[str, Any] = {
            name: np.array(column[rows]) for name, column in self._columns().items()
        }
        return replace(self, **chosen)

    def followed_by(self, other: "RequestTable") -> Self:
        """Return this table with the rows of `other` behind its own."""
        names = tuple(dict.fromkeys(self.phase_names + other.phase_names))
        recode = np.array([names.index(name) for name in other.phase_names], np.int8)
        theirs = {**other._columns(), "phase": recode[other.phase]}
        both: dict[str, Any] = {
            name: np.concatenate([column, theirs[name]]) for name, column in self._columns().items()
        }
        return replace(self, phase_names=names, **both)

    def _columns(self) -> dict[str, np.ndarray]:
        columns = {name: getattr(self, name) for name in FIELDS}
        if self.scheduled_tokens is not None:
            columns["scheduled_tokens"] = self.scheduled_tokens
        return columns


def _objects(values: list[Any]) -> np.ndarray:
    """Make an object array without letting NumPy look into the values (ids may be tuples)."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _check_keys(index: int, row: Mapping[str, Any], expected: tuple[str, ...]) -> None:
    for name in expected:
        if name not in row:
            raise InputError("the key is missing", source="RequestTable", row=index, field=name)
    for name in row:
        if name not in expected:
            problem = f"unknown key; {did_you_mean(name, expected)}"
            raise InputError(problem, source="RequestTable", row=index, field=name)


def _whole_numbers(rows: list[Mapping[str, Any]], name: str) -> np.ndarray:
    for index, row in enumerate(rows):
        value = row[name]
        if not is_whole_number(value) or not -(2**63) <= value < 2**63:
            problem = "must be a whole number of at most 64 bits"
            raise InputError(problem, source="RequestTable", row=index, field=name, value=value)
    return np.array([row[name] for row in rows], np.int64)


def _status_code(index: int, status: Any) -> int:
    if status not in STATUSES:
        raise InputError(
            f"unknown status; {did_you_mean(str(status), STATUSES)}",
            source="RequestTable",
            row=index,
            field="status",
            value=status,
        )
    return STATUSES.index(status)
