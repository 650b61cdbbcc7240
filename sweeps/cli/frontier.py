"""`vecsched frontier`: the best trade-offs of a sweep, as a table and a figure."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
import pyarrow as pa
import typer

from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.output import note, print_json, print_table
from sweeps.errors import StoreError
from sweeps.frontier import (
    MAXIMISE,
    MINIMISE,
    POOR_SLO,
    POOR_SLO_ATTAINMENT,
    left_out,
    pareto_front,
)
from sweeps.plots import frontier_plot, save_figure
from vecsched import SchedulerConfig

app = typer.Typer(add_completion=False)


class Frontier(NamedTuple):
    """A frontier and what it was made of.

    Attributes:
        points: every row of the sweep.
        front: those on the frontier.
        maximise: the objectives where more is better.
        minimise: the objectives where less is better.
        by: the column with a frontier for each of its values.
    """

    points: pd.DataFrame
    front: pd.DataFrame
    maximise: tuple[str, ...]
    minimise: tuple[str, ...]
    by: str | None

    @property
    def objectives(self) -> tuple[str, ...]:
        """All objectives; the first two are the axes of the figure."""
        return self.maximise + self.minimise


@app.command(cls=Command)
def frontier(
    *,
    file: Annotated[Path, typer.Argument(metavar="OUT.parquet", help="The output of a sweep.")],
    maximise: Annotated[
        list[str] | None,
        typer.Option("--max", metavar="COLUMN", help="More is better; may be repeated."),
    ] = None,
    minimise: Annotated[
        list[str] | None,
        typer.Option("--min", metavar="COLUMN", help="Less is better; may be repeated."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A frontier for each of its values, such as load."),
    ] = None,
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
    objectives = (tuple(maximise or ()), tuple(minimise or ()))
    found = find(read_points(file), objectives if any(objectives) else None, by)
    figure = draw(found, output or file.with_suffix(".png"))
    if as_json:
        print_json(as_dict(found) | {"figure": figure})
    else:
        show_frontier(found, figure)


def read_points(file: Path) -> pd.DataFrame:
    """Read a Parquet table of points: a sweep's output, or what was made of it in pandas.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        return pd.read_parquet(file)
    except OSError as error:
        raise StoreError(f"{file}: cannot be read: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise StoreError(f"{file}: is not a Parquet file: {error}") from error


def find(
    points: pd.DataFrame,
    objectives: tuple[tuple[str, ...], tuple[str, ...]] | None = None,
    by: str | None = None,
) -> Frontier:
    """Find the frontier.

    Args:
        points: a row a point.
        objectives: the columns to maximise and those to minimise; None: the default ones.
        by: the column with a frontier for each of its values.

    Raises:
        InputError: a column does not exist or cannot be an objective.
    """
    maximise, minimise = objectives or (MAXIMISE, MINIMISE)
    front = pareto_front(points, maximise, minimise, by)
    return Frontier(points, front, maximise, minimise, by)


def draw(found: Frontier, path: Path) -> Path | None:
    """Draw the frontier along its first two objectives; with fewer there is nothing to draw.

    Raises:
        StoreError: the path's ending is unknown, or the file cannot be written.
    """
    if len(found.objectives) < 2 or found.front.empty:
        return None
    x, y = found.objectives[:2]
    figure = frontier_plot(found.points, found.front, x, y, found.by, maximise=found.maximise)
    return save_figure(figure, path)


def show_frontier(found: Frontier, figure: Path | None) -> None:
    """Print the frontier's table, and on stderr what was left out and where the figure is."""
    columns = _columns(found)
    front = found.front[columns].astype(object)
    rows = front.where(front.notna(), None).to_numpy().tolist()
    title = f"{len(front):,} of {len(found.points):,} points are on the frontier"
    print_table(title, columns, rows)
    for reason, count in left_out(found.points, found.objectives).items():
        note(f"left out: {count:,} points, {reason}")
    if (found.front["mark"] == POOR_SLO).any():
        note(f"{POOR_SLO}: met by fewer than {POOR_SLO_ATTAINMENT:.0%} of the requests submitted")
    note(f"figure: {figure}" if figure else "no figure: it takes two objectives and one point")


def as_dict(found: Frontier) -> dict[str, Any]:
    """Return the frontier for machines: its rows with all their columns."""
    return {
        "maximise": found.maximise,
        "minimise": found.minimise,
        "by": found.by,
        "points": len(found.points),
        "left_out": left_out(found.points, found.objectives),
        "front": found.front.to_dict("records"),
    }


def _columns(found: Frontier) -> list[str]:
    """Return the columns worth a reader's time: group, objectives, marks, and knobs that vary."""
    knobs = ["variant", "trace", "cost", "load", "seed", *SchedulerConfig.__dataclass_fields__]
    varying = [
        name
        for name in knobs
        if name in found.points and found.points[name].nunique(dropna=False) > 1
    ]
    marks = [name for name in ("mark", "twins") if found.front[name].any()]
    group = [found.by] if found.by else []
    return list(dict.fromkeys([*group, *found.objectives, *marks, *varying]))
