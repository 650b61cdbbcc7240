"""Any table of requests: CSV, JSONL or Parquet with the columns of `Trace`, or mapped to them."""

from collections.abc import Mapping
from typing import Any

from sweeps.workloads.build import CONVERTERS, TIME_UNITS, read_table
from sweeps.workloads.draw import OPTIONS, Drawn
from sweeps.workloads.source import ROW_LABELS, Format, Source
from vecsched import Trace
from vecsched.errors import InputError, did_you_mean

REQUIRED = ("arrival_s", "prompt_tokens", "output_tokens")


def recognises(source: Source) -> bool:
    """Tell by any one of the three required names, so that a misspelled one is named."""
    return any(name in source.head_columns for name in REQUIRED)


def read(
    source: Source,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str = "s",
    prefix_block_tokens: int | None = None,
    rate_per_s: float | None = None,
    arrivals: str | Mapping[str, Any] = "poisson",
    seed: int = 0,
) -> Trace:
    """Read a table of requests; the first arrival becomes 0, and deadlines move with it.

    Args:
        source: CSV, JSONL or Parquet.
        columns: our names to the file's, for those that differ. Given this, other columns of the
            file are passed over; without it, a column that `Trace` does not have is an error. (A
            column without a name, as pandas writes for row labels, is always passed over.)
        time_unit: unit of all times in the file, a key of `TIME_UNITS`; "iso" for dates with times
            of day. Whole numbers are shifted before they are divided, so that epoch nanoseconds
            lose nothing.
        prefix_block_tokens: tokens that one of the `prefix_ids` stands for, if there are any.
        rate_per_s: draw arrivals at this rate, for tables of lengths only; times in the file are
            passed over.
        arrivals: the process to draw them; see `sweeps.workloads.draw.Drawn`.
        seed: of the process.

    Raises:
        InputError: naming file, row, field and value.
        ConfigError: the arrival process is impossible.
    """
    if time_unit not in TIME_UNITS:
        raise InputError(
            f"unknown unit; {did_you_mean(time_unit, TIME_UNITS)}",
            source=source.path,
            field="time_unit",
            value=time_unit,
        )
    drawn = Drawn(rate_per_s, arrivals, seed)
    names = _names(source, columns)
    if ("prefix_ids" in names) != (prefix_block_tokens is not None):
        problem = (
            "give prefix_block_tokens: how many tokens one of these ids stands for"
            if "prefix_ids" in names
            else "there are no prefix_ids that it could be of"
        )
        raise InputError(problem, source=source.path, field=names.get("prefix_ids"))
    return read_table(source, names, time_unit, drawn, prefix_block_tokens or 0)


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
    f"optional: {', '.join(name for name in CONVERTERS if name not in REQUIRED)}; lengths alone "
    "need an arrival process",
    recognises,
    read,
    options=("columns", "time_unit", "prefix_block_tokens", *OPTIONS),
)
