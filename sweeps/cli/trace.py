"""`vecsched trace`: look at trace files, and convert, scale and merge them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.output import note, print_json, print_pairs, print_table
from sweeps.cli.reader_options import Options, parse_options
from sweeps.workloads import (
    FORMATS,
    as_records,
    describe_tenants,
    merge_traces,
    read_trace,
    write_trace,
)
from sweeps.workloads import describe as statistics
from vecsched import Trace
from vecsched.errors import InputError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Look at traces; convert, scale, merge them."
)

_TENANTS_SHOWN = 20

File = Annotated[Path, typer.Argument(metavar="FILE", help="A trace file, or a folder of them.")]
Out = Annotated[Path, typer.Argument(metavar="OUT", help="A .parquet, .csv or .jsonl file.")]
Format = Annotated[
    str, typer.Option(help="One of `vecsched trace formats`; auto: told by the columns.")
]


@app.command(cls=Command)
def describe(
    *,
    file: File,
    format: Format = "auto",
    option: Options = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Print a trace's statistics: rate, burstiness, lengths, tenants."""
    trace = _read(file, format, option)
    figures, tenants = statistics(trace), describe_tenants(trace)
    if as_json:
        print_json({"trace": file, **figures, "by_tenant": tenants})
        return
    print_pairs(str(file), figures)
    if len(tenants) > 1:
        _show_tenants(tenants)


@app.command(cls=Command)
def head(
    *,
    file: File,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many rows.")] = 10,
    format: Format = "auto",
    option: Options = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Print a trace's first rows, in vecsched's columns."""
    records = as_records(_read(file, format, option), rows)
    if as_json:
        print_json(records)
    else:
        rows_shown = [[_brief(value) for value in record.values()] for record in records]
        print_table(str(file), list(records[0]), rows_shown)


@app.command(cls=Command)
def convert(
    *,
    file: File,
    output: Out,
    format: Format = "auto",
    option: Options = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Convert a trace to vecsched's columns; the ending of OUT tells the kind of file."""
    _write(_read(file, format, option), output, as_json)


@app.command(cls=Command)
def scale(
    *,
    file: File,
    output: Out,
    load: Annotated[float | None, typer.Option(help="Factor on the rate of arrivals.")] = None,
    rate: Annotated[float | None, typer.Option(help="Rate wanted, requests per second.")] = None,
    format: Format = "auto",
    option: Options = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Change a trace's load: all gaps shrink or grow alike, so its burstiness stays."""
    if (load is None) == (rate is None):
        raise typer.BadParameter("give exactly one of --load and --rate", param_hint="--load")
    trace = _read(file, format, option)
    factor = _factor(trace, file, rate) if load is None else load
    _write(trace.scaled(factor), output, as_json)


@app.command(cls=Command)
def merge(
    *,
    files: Annotated[
        list[str], typer.Argument(metavar="[LABEL=]FILE...", help="Traces; a label names a tenant.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .parquet, .csv or .jsonl file.")
    ],
    shared_prefixes: Annotated[
        bool,
        typer.Option("--shared-prefixes", help="Equal prefix ids of two traces mean the same."),
    ] = False,
    format: Format = "auto",
    option: Options = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Lay traces over each other, one tenant each; a label is the file's name unless given."""
    traces: dict[str, Trace] = {}
    for label, file in map(_labelled, files):
        if label in traces:
            raise InputError("two traces have this label: give others, LABEL=FILE", value=label)
        traces[label] = _read(file, format, option)
    _write(merge_traces(traces, shared_prefixes=shared_prefixes), output, as_json)


@app.command(cls=Command)
def formats(*, as_json: AsJson = False, debug: Debug = False) -> None:
    """List the trace formats that can be read, and the options of their readers."""
    if as_json:
        rows = FORMATS.items()
        print_json({name: {"about": x.description, "options": x.options} for name, x in rows})
    else:
        columns = ("format", "options", "")
        table = [[name, ", ".join(row.options), row.description] for name, row in FORMATS.items()]
        print_table("formats; all take window_s too", columns, table)


def note_quirks(trace: Trace, label: str) -> None:
    """Tell the user what is odd about a trace, though it can be used."""
    if trace.backward_steps:
        note(
            f"{label}: {trace.backward_steps:,} rows arrive before the row ahead of them; "
            "requests are taken in time order"
        )
    empty = int(((trace.prompt_tokens == 0) | (trace.output_tokens == 0)).sum())
    if empty:
        note(
            f"{label}: requests without a prompt or an output: {empty:,}; they stay in the trace, "
            "and a simulation counts them as failed"
        )


def _read(path: Path, format: str, options: Sequence[str] | None) -> Trace:
    trace = read_trace(path, format, **parse_options(options or ()))
    note_quirks(trace, str(path))
    return trace


def _write(trace: Trace, output: Path, as_json: bool) -> None:
    write_trace(trace, output)
    if as_json:
        print_json({"output": output, "requests": len(trace)})
    else:
        note(f"{output}: {len(trace):,} requests")


def _brief(value: Any) -> Any:
    """Return a cell for people: of a long list its ends."""
    if isinstance(value, list):
        ends = value if len(value) <= 4 else [*value[:2], "..", value[-1]]
        return " ".join(map(str, ends))
    return value


def _labelled(argument: str) -> tuple[str, Path]:
    label, equals, path = argument.partition("=")
    if equals and label and not Path(argument).exists():
        return label, Path(path)
    return Path(argument).stem, Path(argument)


def _factor(trace: Trace, file: Path, rate: float | None) -> float:
    """Return the load factor that gives the rate wanted."""
    now = statistics(trace)["rate_per_s"]
    if not now > 0:
        raise InputError("all requests arrive at once: there is no rate to scale", source=file)
    assert rate is not None
    return rate / now


def _show_tenants(tenants: Mapping[str, Mapping[str, float | int]]) -> None:
    shown = list(tenants.items())[:_TENANTS_SHOWN]
    columns = ("tenant", *shown[0][1])
    print_table("", columns, [[label, *figures.values()] for label, figures in shown])
    if len(tenants) > len(shown):
        note(f"and {len(tenants) - len(shown):,} smaller tenants; --json has all")
