"""Any table of requests: CSV, JSONL or Parquet with the columns of `Trace`, or mapped to them."""

from collections.abc import Mapping

import numpy as np

from sweeps.workloads.build import first_arrival, make_trace, seconds_since
from sweeps.workloads.convert import NS_PER_S, labels, numbers, required_numbers
from sweeps.workloads.source import ROW_LABELS, Converter, Format, Source
from vecsched import Trace
from vecsched.errors import InputError, did_you_mean

REQUIRED = ("arrival_s", "prompt_tokens", "output_tokens")
TIMES = ("arrival_s", "deadline_s", "cancel_at_s")
TIME_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": NS_PER_S}

CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys(REQUIRED, required_numbers),
    "kv_blocks": required_numbers,
    "priority": required_numbers,
    "tenant": labels,
    "deadline_s": numbers,
    "cancel_at_s": numbers,
    "id": labels,
}


def recognises(source: Source) -> bool:
    """Tell by any one of the three required names, so that a misspelled one is named."""
    return any(name in source.head_columns for name in REQUIRED)


def read(
    source: Source, *, columns: Mapping[str, str] | None = None, time_unit: str = "s"
) -> Trace:
    """Read a table of requests; the first arrival becomes 0, and deadlines move with it.

    Args:
        source: CSV, JSONL or Parquet.
        columns: our names to the file's, for those that differ. Given this, other columns of the
            file are passed over; without it, a column that `Trace` does not have is an error. (A
            column without a name, as pandas writes for row labels, is always passed over.)
        time_unit: unit of all times in the file, a key of `TIME_UNITS`. Whole numbers are shifted
            before they are divided, so that epoch nanoseconds lose nothing.

    Raises:
        InputError: naming file, row, field and value.
    """
    if time_unit not in TIME_UNITS:
        raise InputError(
            f"unknown unit; {did_you_mean(time_unit, TIME_UNITS)}",
            source=source.path,
            field="time_unit",
            value=time_unit,
        )
    names = _names(source, columns)
    values = load(source, names)
    origin = first_arrival(values["arrival_s"])
    for name in TIMES:
        if name in values:
            values[name] = seconds_since(origin, values[name], TIME_UNITS[time_unit])
    return make_trace(source, values, names)


def load(source: Source, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Read columns (our names to the file's) and return them under our names, times untouched."""
    values = source.read({theirs: CONVERTERS[ours] for ours, theirs in names.items()})
    return {ours: values[theirs] for ours, theirs in names.items()}


def _names(source: Source, mapping: Mapping[str, str] | None) -> dict[str, str]:
    """Return our names to the file's, for the columns to read."""
    for ours in mapping or ():
        if ours not in CONVERTERS:
            hint = did_you_mean(ours, CONVERTERS)
            raise InputError(
                f"a trace has no such column; {hint}",
                source=source.path,
                field="columns",
                value=ours,
            )
    if mapping is None:
        for name in source.columns:
            if name not in CONVERTERS and name not in ROW_LABELS:
                hint = did_you_mean(name, CONVERTERS)
                raise InputError(f"unknown column; {hint}", source=source.path, field=name)
    present = {name: name for name in CONVERTERS if name in source.columns}
    return {name: name for name in REQUIRED} | present | dict(mapping or {})


FORMAT = Format(
    f"CSV, JSONL or Parquet with the columns {', '.join(REQUIRED)}, or others mapped to them; "
    f"optional: {', '.join(name for name in CONVERTERS if name not in REQUIRED)}",
    recognises,
    read,
    options=("columns", "time_unit"),
)
