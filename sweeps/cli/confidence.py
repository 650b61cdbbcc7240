"""`vecsched confidence`: what can be said of configurations that ran with several seeds."""

from typing import Annotated, Any

import pandas as pd
import typer

from sweeps.cli.command import AsJson, Command, Debug, SweepOutput
from sweeps.cli.frontier import read_points
from sweeps.cli.output import print_json, print_table
from sweeps.confidence import LEVEL, aggregate, paired_differences, varying
from sweeps.frontier import MAXIMISE, MINIMISE

app = typer.Typer(add_completion=False)


@app.command(cls=Command)
def confidence(
    *,
    file: SweepOutput,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A metric; may be repeated.")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Compare with the points that have this value, seed by seed; may be repeated.",
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = LEVEL,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Print means over seeds with bootstrap intervals; or differences from a baseline.

    Without --metric: goodput_requests_per_s and slowdown_p99.
    """
    if not 0 < level < 1:
        raise typer.BadParameter(f"{level} is not between 0 and 1", param_hint="--level")
    points = read_points(file)
    metrics = metric or [*MAXIMISE, *MINIMISE]
    if baseline:
        values = dict(_value(points, text) for text in baseline)
        found = paired_differences(points, metrics, values, level)
    else:
        found = aggregate(points, metrics, level)
    if as_json:
        print_json({"level": level, "baseline": baseline, "rows": found.to_dict("records")})
        return
    measures = [f"{name}{end}" for name in metrics for end in ("", "_low", "_high")]
    columns = [*varying(found), "seeds", *measures]
    shown = found[columns].astype(object)
    what = f"differences from {', '.join(baseline)}" if baseline else "means"
    rows = shown.where(shown.notna(), None).to_numpy().tolist()
    print_table(f"{what} over seeds, with {level:.0%} intervals", columns, rows)


def _value(points: pd.DataFrame, text: str) -> tuple[str, Any]:
    """Read COLUMN=VALUE, the value as the column's type."""
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} must be COLUMN=VALUE", param_hint="--baseline")
    if name in points and pd.api.types.is_numeric_dtype(points[name]):
        try:
            return name, float(value)
        except ValueError:
            raise typer.BadParameter(
                f"{text!r}: {name} is a column of numbers", param_hint="--baseline"
            ) from None
    return name, value
