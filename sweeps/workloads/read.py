"""Read a trace file of any format."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

from sweeps.workloads.formats import FORMATS
from sweeps.workloads.parameters import is_number
from sweeps.workloads.source import Source, Window, inspect
from vecsched import Trace
from vecsched.errors import InputError, did_you_mean


def read_trace(
    path: str | PathLike[str],
    format: str = "auto",
    *,
    window_s: Sequence[float] | None = None,
    **options: Any,
) -> Trace:
    """Read a trace file, or a folder where the format is one of folders.

    The first arrival becomes 0, whatever clock the file has, except in our own Parquet traces,
    which keep theirs. Rows stay in the order of the file; `Trace.backward_steps` counts those that
    are out of time order. Requests that failed, with no prompt or no output, are rows like others.
    Blank lines are skipped, and rows in messages count from 0 without them.

    Args:
        path: the file, which may be compressed (.gz, .bz2, .zst, .lz4).
        format: a key of `FORMATS`, or "auto": the first one that recognises the file and takes the
            options, else "columns" if that takes them.
        window_s: from and to, in seconds after the first arrival: keep requests that arrive from
            the one and before the other. They are counted from the first of them.
        **options: what the format's `read` takes; `FORMATS[format].options` has the names.

    Raises:
        InputError: naming file, row, field and value, and what would be right.
        ConfigError: a model that an option describes, such as an arrival process, is impossible.
    """
    source = replace(inspect(fspath(path)), window=None if window_s is None else _window(window_s))
    if format == "auto":
        format = _recognise(source, options)
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
            known = ", ".join((*row.options, "window_s"))
            raise InputError(
                f"the format {format!r} does not take this option; it takes: {known}",
                source=source.path,
                field=option,
                value=value,
            )
    return row.read(source, **options)


def _window(bounds: Sequence[float]) -> Window:
    numbers = isinstance(bounds, list | tuple) and all(map(is_number, bounds))
    if numbers and len(bounds) == 2 and 0 <= bounds[0] < bounds[1]:
        return Window(*bounds)
    raise InputError(
        "must be two numbers of seconds, the second above the first, such as [0, 3600]",
        field="window_s",
        value=bounds,
    )


def _recognise(source: Source, options: dict[str, Any]) -> str:
    """Return the name of a format that recognises the file, at best one that takes the options."""
    known = [name for name, row in FORMATS.items() if row.recognises(source)]
    able = [name for name in (*known, "columns") if options.keys() <= set(FORMATS[name].options)]
    if able and (known or options):
        return able[0]
    if known:
        return known[0]
    raise InputError(
        f"unknown kind of trace: {_shape(source)}. Known: {', '.join(FORMATS)}; `vecsched trace "
        "formats` tells more. For another table, map its columns to ours: columns={arrival_s: ...}",
        source=source.path,
    )


def _shape(source: Source) -> str:
    """Return what was found, for people."""
    if source.kind == "folder":
        return f"a folder with {', '.join(source.files[:5]) or 'no files'}"
    columns = ", ".join(source.head_columns)
    return f"a {source.kind} file with {f'the columns {columns}' if columns else 'no columns'}"
