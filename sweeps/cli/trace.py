"""`vecsched trace`: look at trace files and convert them."""

from pathlib import Path
from typing import Annotated

import typer

from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.output import note, print_json, print_pairs
from sweeps.workloads import FORMATS, write_trace
from sweeps.workloads import describe as statistics
from vecsched import Trace

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Look at traces, convert them.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="A trace file.")]
Format = Annotated[
    str, typer.Option(help="One of `vecsched trace formats`; auto: told by the columns.")
]


@app.command(cls=Command)
def describe(
    *, file: File, format: Format = "auto", as_json: AsJson = False, debug: Debug = False
) -> None:
    """Print a trace's statistics: rate, burstiness, lengths."""
    figures = statistics(_read(file, format))
    if as_json:
        print_json({"trace": file, **figures})
    else:
        print_pairs(str(file), figures)


@app.command(cls=Command)
def convert(
    *,
    file: File,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="A .parquet, .csv or .jsonl file.")],
    format: Format = "auto",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Convert a trace to vecsched's columns; the ending of OUT tells the kind of file."""
    trace = _read(file, format)
    write_trace(trace, output)
    if as_json:
        print_json({"output": output, "requests": len(trace)})
    else:
        note(f"{output}: {len(trace):,} requests")


@app.command(cls=Command)
def formats(*, as_json: AsJson = False, debug: Debug = False) -> None:
    """List the trace formats that can be read."""
    descriptions = {name: row.description for name, row in FORMATS.items()}
    if as_json:
        print_json(descriptions)
    else:
        print_pairs("formats", descriptions)


def note_quirks(trace: Trace, label: str) -> None:
    """Tell the user what is odd about a trace, though it can be used."""
    if trace.backward_steps:
        note(
            f"{label}: {trace.backward_steps:,} rows arrive before the row ahead of them; "
            "requests are taken in time order"
        )


def _read(path: Path, format: str) -> Trace:
    trace = Trace.read(path, format)
    note_quirks(trace, str(path))
    return trace
