"""`vecsched frontier`: the best trade-offs of a sweep, as a table and a figure."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import typer

from sweeps.cli.command import AsJson, Command, Debug, Maximise, Minimise, SweepOutput
from sweeps.cli.output import note, print_json, show
from sweeps.cli.trade_off_tables import print_frame, show_answers
from sweeps.cli.trade_offs import (
    Frontier,
    Questions,
    answers,
    answers_as_dict,
    find,
    numbered,
)
from sweeps.effects import main_effects
from sweeps.errors import StoreError
from sweeps.frontier import POOR_SLO, POOR_SLO_ATTAINMENT, left_out
from sweeps.hypervolume import hypervolume
from sweeps.knobs import SEED, varying_conditions, varying_knobs
from sweeps.objectives import or_default
from sweeps.plots import frontier_plot, save_figure
from sweeps.trade_off_plots import effects_plot, parallel_plot

app = typer.Typer(add_completion=False)


class Figure(StrEnum):
    """What `--figure` can draw."""

    frontier = "frontier"
    effects = "effects"
    parallel = "parallel"


@app.command(cls=Command)
def frontier(
    *,
    file: SweepOutput,
    maximise: Maximise = None,
    minimise: Minimise = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A frontier for each of its values, such as load."),
    ] = None,
    explain: Annotated[
        int | None,
        typer.Option(
            metavar="ROW",
            help="Its nearest neighbours on the frontier: what they change, gain and cost.",
        ),
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="Which knob decides each objective.")
    ] = False,
    cliffs: Annotated[
        bool, typer.Option("--cliffs", help="Where one step of a knob changes an objective most.")
    ] = False,
    probability: Annotated[
        bool,
        typer.Option(
            "--probability",
            help="How surely each setting is on the frontier, when points ran with several seeds.",
        ),
    ] = False,
    figure: Annotated[
        Figure,
        typer.Option(help="What to draw: the frontier, the main effects, or its settings."),
    ] = Figure.frontier,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The figure, .png, .svg or .pdf; else beside the file."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List and draw the settings that no other setting beats on every objective.

    Without --max and --min: most goodput_requests_per_s against least slowdown_p99.
    """
    found = find(read_points(file), or_default(maximise, minimise), by)
    asked = Questions(explain, effects, cliffs, probability)
    tables = answers(found, asked)
    path = draw(found, output or file.with_suffix(".png"), figure)
    if as_json:
        print_json(as_dict(found) | answers_as_dict(tables) | {"figure": path})
    else:
        show_frontier(found, path)
        show_answers(found, asked, tables)


def read_points(file: Path) -> pd.DataFrame:
    """Read a Parquet table of points: a sweep's output, or what was made of it in pandas.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        # A row's number is its name: what else pandas may have kept is no column of a sweep.
        return pd.read_parquet(file).reset_index(drop=True)
    except OSError as error:
        raise StoreError(f"{file}: cannot be read: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise StoreError(f"{file}: is not a Parquet file: {error}") from error


def draw(found: Frontier, path: Path, kind: Figure = Figure.frontier) -> Path | None:
    """Draw the frontier along its first two objectives, or what else is wanted.

    Returns:
        The path; None if there is nothing to draw: for a frontier fewer than two objectives, or no
        point.

    Raises:
        StoreError: the path's ending is unknown, or the file cannot be written.
    """
    if found.front.empty or (kind is Figure.frontier and len(found.objectives) < 2):
        return None
    if kind is Figure.effects:
        return save_figure(effects_plot(main_effects(found.points, found.objectives)), path)
    if kind is Figure.parallel:
        settings = parallel_plot(found.front, found.maximise, found.minimise, found.by)
        return save_figure(settings, path)
    x, y = found.objectives[:2]
    figure = frontier_plot(found.points, found.front, x, y, found.by, maximise=found.maximise)
    return save_figure(figure, path)


def show_frontier(found: Frontier, figure: Path | None) -> None:
    """Print the frontier's table, and on stderr what was left out and where the figure is."""
    front = found.front
    marks = np.where(front["knee"], "knee", ""), front["mark"]
    front = front.assign(mark=[", ".join(filter(None, each)) for each in zip(*marks, strict=True)])
    shown = front[_columns(found, front)].assign(row=front.index)
    print_frame(f"{len(front):,} of {len(found.points):,} points are on the frontier", shown)
    if same := [name for name in _varying(found) if name not in shown]:
        row = front.iloc[0]
        note(f"all of them: {', '.join(f'{name} {show(row[name])}' for name in same)}")
    if twins := int((front["twins"] > 0).sum()):
        note(f"{twins:,} of them have twins: other points with the same objectives (--json)")
    for reason, count in left_out(found.points, found.objectives).items():
        note(f"left out: {count:,} points, {reason}")
    if (found.front["mark"] == POOR_SLO).any():
        note(f"{POOR_SLO}: met by fewer than {POOR_SLO_ATTAINMENT:.0%} of the requests submitted")
    if len(found.objectives) > 1 and len(front):
        volumes = _volumes(found).items()
        texts = [
            show(size) + (f" at {found.by} {group}" if found.by else "") for group, size in volumes
        ]
        note(f"hypervolume, from the worst values: {', '.join(texts)}")
    if SEED in varying_conditions(found.points):
        note("the points ran with several seeds: --probability tells merit from luck")
    note(f"figure: {figure}" if figure else "no figure: it takes two objectives and one point")


def as_dict(found: Frontier) -> dict[str, Any]:
    """Return the frontier for machines: its rows with all their columns."""
    return {
        "maximise": found.maximise,
        "minimise": found.minimise,
        "by": found.by,
        "points": len(found.points),
        "left_out": left_out(found.points, found.objectives),
        "hypervolume": _volumes(found).to_dict(),
        "front": numbered(found.front),
    }


def _volumes(found: Frontier) -> pd.Series:
    return hypervolume(found.points, found.maximise, found.minimise, found.by)


def _columns(found: Frontier, front: pd.DataFrame) -> list[str]:
    """Return the columns worth a reader's time: group, objectives, marks, and knobs that vary."""
    marks = ["mark"] if front["mark"].any() else []
    # What the whole frontier has in common takes a line, not a column.
    varying = [n for n in _varying(found) if len(front) < 2 or front[n].nunique(dropna=False) > 1]
    group = [found.by] if found.by else []
    return list(dict.fromkeys([*group, *found.objectives, *marks, *varying]))


def _varying(found: Frontier) -> list[str]:
    """Return the conditions and knobs that the points differ by."""
    return [*varying_conditions(found.points), *varying_knobs(found.points)]
