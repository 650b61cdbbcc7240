"""`vecsched sweep`: thousands of configurations into one Parquet file and a frontier."""

from pathlib import Path
from typing import Annotated

import typer

from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.frontier import draw, find, read_points, show_frontier
from sweeps.cli.output import print_json, print_pairs
from sweeps.cli.progress import sweep_progress
from sweeps.cli.running import report, resumable
from sweeps.cli.trace import note_quirks
from sweeps.estimate import estimate
from sweeps.run import RunOptions, SweepOutcome, run_sweep
from sweeps.spec import SweepSpec, json_schema, load_spec

app = typer.Typer(add_completion=False)


def _print_schema(wanted: bool) -> None:
    if wanted:
        print_json(json_schema())
        raise typer.Exit


@app.command(cls=Command)
def sweep(
    *,
    spec: Annotated[
        str, typer.Argument(metavar="SPEC", help="A sweep file, or the name of a ready-made one.")
    ] = "default",
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Where the results go: a .parquet file, or a folder of them."
        ),
    ] = Path("sweep.parquet"),
    workers: Annotated[
        int | None, typer.Option(help="Simulations at once; by default one a core.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a sweep that was interrupted, or extended.")
    ] = False,
    per_request: Annotated[
        bool, typer.Option("--per-request", help="Keep every point's table of requests, too.")
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Run on a Dask cluster: tcp://HOST:PORT, or local for one on this machine.",
        ),
    ] = None,
    optimize: Annotated[
        int | None,
        typer.Option(
            metavar="TRIALS",
            help="Search the axes with Optuna in so many trials, in place of the file's design.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the sweep and estimate its time; run nothing.")
    ] = False,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            callback=_print_schema,
            is_eager=True,
            help="Print the JSON schema of sweep files, for editors.",
        ),
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Simulate every point of a sweep; write a row a point, and draw the frontier beside it.

    What is done is kept, whatever ends the sweep: add --resume to go on.
    """
    if output.suffix not in ("", ".parquet"):
        raise typer.BadParameter(
            f"{output} must end in .parquet, or be a folder", param_hint="--output"
        )
    loaded = load_spec(spec, searching=optimize)
    for section in loaded.trace:
        if section.path is not None:
            note_quirks(loaded.trace_of(section, None), section.label)
    if dry_run:
        _estimate(loaded, workers, as_json)
        return
    options = RunOptions(workers, resume, per_request, dask)
    command = ["sweep", spec, "-o", str(output), "--resume"]
    command += ["--per-request"] if per_request else []
    command += ["--dask", dask] if dask else []
    command += ["--optimize", str(optimize)] if optimize is not None else []
    with sweep_progress() as progress, resumable(command, progress):
        outcome = run_sweep(loaded, output, options, progress=progress)
    _show(loaded, outcome, as_json)


def _estimate(spec: SweepSpec, workers: int | None, as_json: bool) -> None:
    with sweep_progress() as progress:
        expected = estimate(spec, workers=workers, progress=progress)._asdict()
    if as_json:
        print_json(expected)
    else:
        each = expected.pop("seconds_per_point")
        expected |= {f"seconds_per_point, {name}": seconds for name, seconds in each.items()}
        print_pairs(f"{spec.source} would run", expected)


def _show(spec: SweepSpec, outcome: SweepOutcome, as_json: bool) -> None:
    """Print the frontier and how it went; leave with an exit code of its own if points failed."""
    by = "load" if len(spec.loads) > 1 else None
    found = find(read_points(outcome.output), by=by)
    figure = draw(found, outcome.output.with_suffix(".png"))
    if as_json:
        print_json(outcome._asdict() | {"figure": figure})
    else:
        show_frontier(found, figure)
    report(outcome)
