"""Trace: the requests of a workload, one array a field, validated once and then read-only."""

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from vecsched._numbers import MAX_TOKENS, is_number
from vecsched.clock import HORIZON_S, fits, to_ps
from vecsched.errors import InputError
from vecsched.ragged import Ragged, prefix_rows

# File formats live one package up, in the driver; the one wheel holds both. Looked up by name when
# a file is read, so that the engine imports nothing from above.
_READERS = "sweeps.workloads"

_OPTIONAL_TIMES = ("deadline_s", "cancel_at_s")


@dataclass(frozen=True, eq=False, init=False)
class Trace:
    """Columns of n requests, all of length n, in the order given.

    Arrivals need not be sorted: simulation takes them in time order, ties in row order, and
    `backward_steps` counts the rows that stood behind a later one. Times are seconds on the trace's
    own clock; instants that do not exist are NaN. A request with an empty prompt or no output is
    accepted and ends as `failed` with its reason, so that it stays in every denominator.

    Attributes:
        arrival_s: float64, finite, >= 0.
        prompt_tokens, output_tokens: int64, >= 0.
        kv_blocks: int64, KV blocks to reserve; None: computed from the lengths.
        priority: int64, smaller is more urgent; None: no priorities.
        tenant: object, one label a request; None: a single tenant.
        deadline_s, cancel_at_s: float64 instants, NaN for none; None: no such column.
        engine_time_s: float64, the engine's own time stamp, which breaks ties of the priority
            policy; None: every request has its own, in arrival order.
        predicted_output_tokens: int64, >= 0, what the scheduler believes `output_tokens` to be.
        prefix_ids: what the prompts have in common, a row of ids for each (`Ragged`): id q stands
            for the prompt's tokens from q x prefix_block_tokens on, the last one for what is left.
            Two prompts begin alike as far as their ids do. None: no two have anything in common.
        prefix_block_tokens: tokens that one of these ids stands for; 0 without ids.
        id: object; row numbers where none are given.

    Raises:
        InputError: naming the row, the field and the value.
    """

    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    kv_blocks: np.ndarray | None
    priority: np.ndarray | None
    tenant: np.ndarray | None
    deadline_s: np.ndarray | None
    cancel_at_s: np.ndarray | None
    engine_time_s: np.ndarray | None
    predicted_output_tokens: np.ndarray | None
    prefix_ids: Ragged | None
    prefix_block_tokens: int
    id: np.ndarray

    def __init__(
        self,
        arrival_s: ArrayLike,
        prompt_tokens: ArrayLike,
        output_tokens: ArrayLike,
        *,
        kv_blocks: ArrayLike | None = None,
        priority: ArrayLike | None = None,
        tenant: Iterable[Any] | None = None,
        deadline_s: ArrayLike | None = None,
        cancel_at_s: ArrayLike | None = None,
        engine_time_s: ArrayLike | None = None,
        predicted_output_tokens: ArrayLike | None = None,
        prefix_ids: Ragged | Iterable[Sequence[int]] | None = None,
        prefix_block_tokens: int = 0,
        id: Iterable[Any] | None = None,
    ) -> None:
        arrival = _times("arrival_s", arrival_s)
        prompt = _counts("prompt_tokens", prompt_tokens)
        columns: dict[str, np.ndarray | None] = {
            "arrival_s": arrival,
            "prompt_tokens": prompt,
            "output_tokens": _counts("output_tokens", output_tokens),
            "kv_blocks": None if kv_blocks is None else _counts("kv_blocks", kv_blocks),
            "priority": None if priority is None else _integers("priority", priority),
            "tenant": None if tenant is None else _labels("tenant", tenant),
            "deadline_s": None if deadline_s is None else _instants("deadline_s", deadline_s),
            "cancel_at_s": None if cancel_at_s is None else _instants("cancel_at_s", cancel_at_s),
            "engine_time_s": (
                None if engine_time_s is None else _times("engine_time_s", engine_time_s)
            ),
            "predicted_output_tokens": (
                None
                if predicted_output_tokens is None
                else _counts("predicted_output_tokens", predicted_output_tokens)
            ),
        }
        requests = len(arrival)
        columns["id"] = _labels("id", range(requests) if id is None else id)
        for name, column in columns.items():
            if column is not None and len(column) != requests:
                raise InputError(
                    f"has {len(column)} rows, but arrival_s has {requests}",
                    source="Trace",
                    field=name,
                )
            if column is not None:
                column.flags.writeable = False
            object.__setattr__(self, name, column)
        if requests == 0:
            raise InputError("the trace is empty: at least one request is needed", source="Trace")
        prefixes = prefix_rows(prefix_ids, prefix_block_tokens, prompt)
        object.__setattr__(self, "prefix_ids", prefixes)
        tokens = 0 if prefixes is None else int(prefix_block_tokens)
        object.__setattr__(self, "prefix_block_tokens", tokens)

    def __len__(self) -> int:
        return len(self.arrival_s)

    @classmethod
    def read(cls, path: str | PathLike[str], format: str = "auto") -> "Trace":
        """Read a trace file; `vecsched trace formats` lists the formats.

        Args:
            path: the file.
            format: a format's name, or "auto" to recognise it by its columns.

        Raises:
            InputError: the file cannot be read, naming file, row, field and value.
        """
        return importlib.import_module(_READERS).read_trace(path, format)

    def scaled(self, load: float) -> Self:
        """Return the trace at `load` times its request rate: gaps shrink, their pattern stays.

        Deadlines and cancellations keep their distance from the arrival.
        """
        if not (np.isfinite(load) and load > 0):
            raise InputError("a load factor must be positive", field="load", value=load)
        if load == 1:
            return self
        first = self.arrival_s.min()
        arrival = first + (self.arrival_s - first) / load
        # An instant ahead of its arrival may land before the clock starts; it is over either way.
        moved = {
            name: np.maximum(arrival + (column - self.arrival_s), 0)
            for name in _OPTIONAL_TIMES
            if (column := getattr(self, name)) is not None
        }
        scaled = replace(self, arrival_s=arrival, **moved)
        scaled.__dict__["timeless_memo"] = self.timeless_memo
        return scaled

    def arrays(self) -> dict[str, np.ndarray]:
        """All that the trace holds as flat arrays, by name; columns that it lacks are left out.

        Of `prefix_ids` there are two, `values` and `begin`; `prefix_block_tokens` has one entry.
        """
        found: dict[str, np.ndarray] = {}
        for name in self.__dataclass_fields__:
            column = getattr(self, name)
            if isinstance(column, Ragged):
                found |= {f"{name}.values": column.values, f"{name}.begin": column.begin}
            elif column is not None:
                found[name] = np.atleast_1d(column)
        return found

    @cached_property
    def order(self) -> np.ndarray:
        """Rows in arrival order by the picosecond, ties in row order: int64 (n,)."""
        return np.argsort(to_ps(self.arrival_s), kind="stable")

    @cached_property
    def tenants(self) -> list[Any]:
        """The tenants, in the order in which they first arrive; one, None, without a column."""
        if self.tenant is None:
            return [None]
        return list(dict.fromkeys(self.tenant[self.order].tolist()))

    @cached_property
    def tenant_codes(self) -> np.ndarray:
        """Place of each request's tenant in `tenants`: int64 (n,)."""
        if self.tenant is None:
            return np.zeros(len(self), np.int64)
        code = {tenant: place for place, tenant in enumerate(self.tenants)}
        return np.array([code[tenant] for tenant in self.tenant.tolist()], np.int64)

    @cached_property
    def backward_steps(self) -> int:
        """How many rows arrive before the row ahead of them."""
        return int((np.diff(self.arrival_s) < 0).sum())

    @cached_property
    def timeless_memo(self) -> dict[Any, Any]:
        """The like of `memo`, of what does not depend on arrivals: shared by all scaled traces."""
        return {}

    @cached_property
    def memo(self) -> dict[Any, Any]:
        """Columns derived from this trace by other modules, shared by all runs over it."""
        return {}


def _column(name: str, values: Any) -> np.ndarray:
    try:
        column = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise InputError("must be one-dimensional", source="Trace", field=name) from None
    if column.ndim != 1:
        raise InputError(
            f"must be one-dimensional, not {column.ndim}-d", source="Trace", field=name
        )
    return column


def _reject(bad: np.ndarray, column: np.ndarray, name: str, problem: str) -> None:
    """Raise about the first row where `bad` is true."""
    if bad.any():
        row = int(np.argmax(bad))
        value = column[row].item() if isinstance(column[row], np.generic) else column[row]
        raise InputError(problem, source="Trace", row=row, field=name, value=value)


def _numbers(name: str, values: Any) -> np.ndarray:
    column = _column(name, values)
    if column.dtype.kind in "iuf":
        return column
    # Only a column of objects can hold numbers: texts, truth values and dates are none.
    bad = [column.dtype != object or not is_number(value) for value in column]
    _reject(np.array(bad, bool), column, name, "is not a number")
    return np.array(column, np.float64)


def _integers(name: str, values: Any) -> np.ndarray:
    column = _numbers(name, values)
    if column.dtype.kind == "f":
        _reject(np.isnan(column), column, name, "must be a whole number, not missing")
        _reject(column != np.rint(column), column, name, "must be a whole number")
        _reject(column < -(2.0**63), column, name, "must fit 64 bits")
    # 2^63 is the same number in float64 and uint64, which may hold more than int64 does.
    too_large = column >= 2**63 if column.dtype.kind in "uf" else np.zeros(len(column), bool)
    _reject(too_large, column, name, "must fit 64 bits")
    return np.array(column, np.int64)


def _counts(name: str, values: Any) -> np.ndarray:
    numbers = _numbers(name, values)
    _reject(numbers > MAX_TOKENS, numbers, name, f"must not exceed {MAX_TOKENS}")
    column = _integers(name, numbers)
    _reject(column < 0, column, name, "must not be negative")
    return column


def _times(name: str, values: Any) -> np.ndarray:
    column = np.array(_numbers(name, values), np.float64)
    _reject(~np.isfinite(column), column, name, "must be a finite number of seconds")
    _reject(column < 0, column, name, "must not be negative: count from the start of the trace")
    days = HORIZON_S / 86400
    problem = (
        f"is beyond the clock's {days:.0f} days: subtract the first arrival, or check the unit"
    )
    _reject(~fits(column), column, name, problem)
    return column


def _instants(name: str, values: Any) -> np.ndarray:
    column = _column(name, values)
    if column.dtype == object:
        column = np.array([np.nan if value is None else value for value in column], object)
    column = np.array(_numbers(name, column), np.float64)
    _reject(
        np.isinf(column) | (column < 0), column, name, "must be an instant >= 0, or NaN for none"
    )
    # An instant beyond the clock never comes: the same as none.
    return np.where(fits(column), column, np.nan)


def _labels(name: str, values: Iterable[Any]) -> np.ndarray:
    labels = _column(name, values).tolist() if isinstance(values, np.ndarray) else list(values)
    column = np.empty(len(labels), object)
    # One by one: NumPy would look into labels that are sequences themselves.
    for row, label in enumerate(labels):
        column[row] = label
    return column
