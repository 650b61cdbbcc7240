"""Workloads: trace files in, synthetic traces, statistics, and our own trace file out.

A new file format is one file with a `FORMAT` and one row in `FORMATS`.
"""

from os import PathLike, fspath
from typing import Any

from sweeps.workloads import azure, columns, native
from sweeps.workloads.source import Format, Source, inspect
from sweeps.workloads.stats import describe
from sweeps.workloads.synthetic import PRESETS, SyntheticSpec, generate
from sweeps.workloads.write import write_trace
from vecsched import Trace
from vecsched.errors import InputError, did_you_mean

__all__ = [
    "FORMATS",
    "PRESETS",
    "Format",
    "SyntheticSpec",
    "describe",
    "generate",
    "read_trace",
    "write_trace",
]

# Asked in this order; the general one comes last.
FORMATS: dict[str, Format] = {
    "vecsched": native.FORMAT,
    "azure": azure.FORMAT,
    "columns": columns.FORMAT,
}


def read_trace(path: str | PathLike[str], format: str = "auto", **options: Any) -> Trace:
    """Read a trace file.

    The first arrival becomes 0, whatever clock the file has, except in our own Parquet traces,
    which keep theirs. Rows stay in the order of the file; `Trace.backward_steps` counts those that
    are out of time order. Blank lines are skipped, and rows in messages count from 0 without them.

    Args:
        path: the file, which may be compressed (.gz, .bz2, .zst, .lz4).
        format: a key of `FORMATS`, or "auto": the first one that recognises the file, or "columns"
            if options are given.
        **options: what the format's `read` takes; see `sweeps.workloads.columns.read`.

    Raises:
        InputError: naming file, row, field and value, and what would be right.
    """
    source = inspect(fspath(path))
    if format == "auto":
        format = "columns" if options else _recognise(source)
    if format not in FORMATS:
        raise InputError(
            f"unknown format; {did_you_mean(format, ['auto', *FORMATS])}",
            source=source.path,
            field="format",
            value=format,
        )
    row = FORMATS[format]
    for option, value in options.items():
        if option not in row.options:
            known = ", ".join(row.options) or "none"
            raise InputError(
                f"the format {format!r} does not take this option; it takes: {known}",
                source=source.path,
                field=option,
                value=value,
            )
    return row.read(source, **options)


def _recognise(source: Source) -> str:
    for name, row in FORMATS.items():
        if row.recognises(source):
            return name
    found = f"the columns {', '.join(source.head_columns)}" if source.head_columns else "no columns"
    known = "; ".join(f"{name} ({row.description})" for name, row in FORMATS.items())
    raise InputError(
        f"unknown kind of trace: a {source.kind} file with {found}. Known: {known}. For another "
        "table, map its columns to ours",
        source=source.path,
    )
