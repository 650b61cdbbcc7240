"""From columns read to a Trace, with times counted from the first arrival."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeps.workloads.convert import (
    NS_PER_S,
    labels,
    nanoseconds,
    numbers,
    optional_nanoseconds,
    required_numbers,
)
from sweeps.workloads.draw import Drawn
from sweeps.workloads.prefix import id_lists
from sweeps.workloads.source import Converter, Source
from vecsched import Trace
from vecsched.clock import HORIZON_S, fits
from vecsched.errors import InputError

# By the names of `Trace`: arrays with a row a request, and rows of prefix ids.
Columns = Mapping[str, Any]
Names = Mapping[str, str]

# Ticks a second of the clocks that files have. "iso": dates and times of day, as text.
TIME_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": NS_PER_S, "iso": NS_PER_S}

# The columns of `Trace`, by its names, and how each is converted.
CONVERTERS: dict[str, Converter] = {
    "arrival_s": required_numbers,
    "prompt_tokens": required_numbers,
    "output_tokens": required_numbers,
    "kv_blocks": required_numbers,
    "priority": required_numbers,
    "tenant": labels,
    "deadline_s": numbers,
    "cancel_at_s": numbers,
    "engine_time_s": required_numbers,
    "prefix_ids": id_lists,
    "id": labels,
}
# Instants on the clock of the arrivals. (The engine's own stamp is on a clock of its own.)
TIMES = ("arrival_s", "deadline_s", "cancel_at_s")
_ISO_CONVERTERS: dict[str, Converter] = {
    **CONVERTERS,
    "arrival_s": nanoseconds,
    "deadline_s": optional_nanoseconds,
    "cancel_at_s": optional_nanoseconds,
}


def read_table(
    source: Source,
    names: Names,
    time_unit: str = "s",
    drawn: Drawn | None = None,
    block_tokens: int = 0,
) -> Trace:
    """Read a table with a row a request; the first arrival becomes 0.

    Args:
        source: CSV, JSONL or Parquet.
        names: our names to the file's, for the columns to read.
        time_unit: a key of `TIME_UNITS`.
        drawn: an arrival process, for tables that may be without times; where it has a rate, times
            in the file are passed over.
        block_tokens: tokens that a prefix id stands for, if the names have such a column.

    Raises:
        InputError: naming file, row, field and value.
    """
    source.check_table()
    has_times = names["arrival_s"] in source.columns
    if drawn is not None and drawn.is_wanted(source, has_times=has_times):
        values = load(source, {ours: name for ours, name in names.items() if ours not in TIMES})
        values["arrival_s"] = drawn.times(source, len(values["prompt_tokens"]))
        return trace_of(source, values, names, block_tokens=block_tokens)
    converters = _ISO_CONVERTERS if time_unit == "iso" else CONVERTERS
    values = load(source, names, converters)
    return trace_of(source, values, names, TIME_UNITS[time_unit], block_tokens)


def load(
    source: Source, names: Names, converters: Mapping[str, Converter] = CONVERTERS
) -> dict[str, Any]:
    """Read columns (our names to the file's) and return them under our names, times untouched."""
    values = source.read({theirs: converters[ours] for ours, theirs in names.items()})
    return {ours: values[theirs] for ours, theirs in names.items()}


def with_tenant(names: Names, column: str | None) -> Names:
    """Return the names with the file's column that labels the tenants, if one is wanted."""
    return names if column is None else {**names, "tenant": column}


def with_ids(source: Source, names: Names, column: str) -> Names:
    """Return the names with the file's column of prefix ids, if it has one."""
    return {**names, "prefix_ids": column} if column in source.columns else names


def trace_of(
    source: Source, columns: Columns, names: Names, per_second: int = 1, block_tokens: int = 0
) -> Trace:
    """Make a trace of columns under our names, counting times from the first arrival.

    Whole numbers are shifted before they are divided, so that epoch nanoseconds lose nothing.

    Args:
        source: where they come from; its window is cut out here.
        columns: arrays of shape (rows,), by the names of `Trace`; times are ticks of any clock.
        names: our names to those in the file, for messages.
        per_second: ticks in a second.
        block_tokens: tokens that a prefix id stands for, if there are any.

    Raises:
        InputError: a value is impossible, the window is empty, or the span is beyond the clock.
    """
    rows = None
    columns = dict(columns)
    if source.window is not None:
        rows = _rows_inside(source, columns["arrival_s"], per_second)
        columns = {name: column[rows] for name, column in columns.items()}
    origin = _first(columns["arrival_s"])
    for name in TIMES:
        if name in columns:
            columns[name] = (columns[name] - origin) / per_second
    if "engine_time_s" in columns:
        columns["engine_time_s"] = columns["engine_time_s"] / per_second
    return make_trace(source, columns, names, rows, block_tokens)


def make_trace(
    source: Source,
    columns: Columns,
    names: Names,
    rows: np.ndarray | None = None,
    block_tokens: int = 0,
) -> Trace:
    """Make a trace of columns in seconds, or say where in the file a value is impossible.

    Args:
        source: where they come from.
        columns: arrays of shape (n,), by the names of `Trace`.
        names: our names to those in the file.
        rows: the file's rows that they are; None: all.
        block_tokens: tokens that a prefix id stands for, if there are any.

    Raises:
        InputError: naming file, row and value, and the field as the file does.
    """
    try:
        _check_span(columns["arrival_s"])
        return Trace(**columns, prefix_block_tokens=block_tokens)
    except InputError as error:
        field = names.get(error.field or "", error.field)
        if error.row is None:
            raise error.at(source.path, field) from None
        row = error.row if rows is None else int(rows[error.row])
        raise InputError(
            error.problem, source=source.path, row=row, field=field, value=error.value
        ) from None


def _first(arrivals: np.ndarray) -> Any:
    """Return the earliest arrival, of the array's own type; NaN and inf are left to `Trace`."""
    finite = arrivals[np.isfinite(arrivals)]
    return finite.min() if len(finite) else 0


def _rows_inside(source: Source, arrivals: np.ndarray, per_second: int) -> np.ndarray:
    """Return the rows inside the window, and those whose time is no number, to complain about."""
    assert source.window is not None
    start, stop = source.window
    seconds = (arrivals - _first(arrivals)) / per_second
    (rows,) = np.nonzero((start <= seconds) & (seconds < stop) | ~np.isfinite(seconds))
    if len(rows) == 0:
        raise InputError(
            f"no request arrives in it; the last one arrives {seconds.max():g} s after the first",
            source=source.path,
            field="window_s",
            value=list(source.window),
        )
    return rows


def _check_span(arrival_s: np.ndarray) -> None:
    """Raise about an arrival that the clock cannot hold, and say what helps."""
    late = np.isfinite(arrival_s) & ~fits(arrival_s)
    if late.any():
        row = int(np.argmax(late))
        raise InputError(
            f"is beyond the clock's {HORIZON_S / 86_400:.0f} days after the first arrival: check "
            "the time unit, or read a part, such as window_s=[0, 86400]",
            row=row,
            field="arrival_s",
            value=float(arrival_s[row]),
        )
