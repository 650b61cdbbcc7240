"""`vecsched sweep`: thousands of configurations into one Parquet file and a frontier."""

from pathlib import Path
from typing import Annotated

import typer

from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.frontier import draw, find, read_points, show_frontier
from sweeps.cli.output import note, print_json, print_pairs
from sweeps.cli.progress import sweep_progress
from sweeps.cli.trace import note_quirks
from sweeps.run import SweepOutcome, estimate, run_sweep
from sweeps.spec import SweepSpec, load_spec

app = typer.Typer(add_completion=False)

SOME_POINTS_FAILED = 1  # exit code


@app.command(cls=Command)
def sweep(
    *,
    spec: Annotated[
        str, typer.Argument(metavar="SPEC", help="A sweep file, or the name of a ready-made one.")
    ] = "default",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the results go; ends in .parquet.")
    ] = Path("sweep.parquet"),
    workers: Annotated[
        int | None, typer.Option(help="Simulations at once; by default one a core.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the sweep and estimate its time; run nothing.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Simulate every point of a grid; write a row a point, and draw the frontier beside it."""
    if output.suffix != ".parquet":
        raise typer.BadParameter(f"{output} must end in .parquet", param_hint="--output")
    loaded = load_spec(spec)
    if loaded.trace.path is not None:
        note_quirks(loaded.trace_of(None), loaded.trace.label)
    if dry_run:
        _estimate(loaded, workers, as_json)
    else:
        _run(loaded, output, workers, as_json)


def _estimate(spec: SweepSpec, workers: int | None, as_json: bool) -> None:
    with sweep_progress() as progress:
        expected = estimate(spec, workers=workers, progress=progress)._asdict()
    if as_json:
        print_json(expected)
    else:
        each = expected.pop("seconds_per_point")
        expected |= {f"seconds_per_point, {name}": seconds for name, seconds in each.items()}
        print_pairs(f"{spec.source} would run", expected)


def _run(spec: SweepSpec, output: Path, workers: int | None, as_json: bool) -> None:
    with sweep_progress() as progress:
        outcome = run_sweep(spec, output, workers=workers, progress=progress)
    several_loads = len(spec.axes.get("load", ())) > 1
    found = find(read_points(output), by="load" if several_loads else None)
    figure = draw(found, output.with_suffix(".png"))
    if as_json:
        print_json(outcome._asdict() | {"figure": figure})
    else:
        show_frontier(found, figure)
    _report(outcome)


def _report(outcome: SweepOutcome) -> None:
    """Say how it went; leave with an exit code of its own if points failed."""
    points = f"{outcome.points:,} points of {outcome.requests:,} requests"
    note(f"{outcome.output}: {points} in {outcome.seconds:,.2f} s")
    if outcome.failed:
        note(f"{outcome.failed:,} of {outcome.points:,} points failed, first {outcome.first_error}")
        raise typer.Exit(SOME_POINTS_FAILED)
