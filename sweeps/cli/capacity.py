"""`vecsched capacity`: the highest load at which each configuration keeps its objectives."""

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from sweeps.capacity import CapacitySearch, Criterion
from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.frontier import read_points
from sweeps.cli.output import note, print_json, print_table
from sweeps.cli.progress import sweep_progress
from sweeps.cli.running import report, resumable
from sweeps.confidence import aggregate, varying
from sweeps.errors import SpecError
from sweeps.run import RunOptions, run_sweep
from sweeps.spec import load_spec

app = typer.Typer(add_completion=False)

_RATE = "capacity_requests_per_s"


@app.command(cls=Command)
def capacity(
    *,
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC",
            help="A sweep file with `slo`, or a ready-made one; its loads are not used.",
        ),
    ] = "default",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the results go: a .parquet file.")
    ] = Path("capacity.parquet"),
    quantile: Annotated[
        str, typer.Option(help="Of ttft, tpot and e2e, to be within the bound: p50, p90, p95, p99.")
    ] = "p99",
    attainment: Annotated[
        float, typer.Option(help="Share of the requests that must meet all bounds.")
    ] = 0.99,
    tolerance: Annotated[
        float, typer.Option(help="How far below the true capacity the answer may be, as a share.")
    ] = 0.01,
    workers: Annotated[
        int | None, typer.Option(help="Searches at once; by default one a core.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a search that was interrupted.")
    ] = False,
    top: Annotated[int, typer.Option(help="How many configurations to print.")] = 20,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Find, for each configuration, the most requests per second that keep the SLOs.

    By doubling the load and bisection. With several seeds, the mean and its 95 % interval.
    """
    if output.suffix != ".parquet":
        raise typer.BadParameter(f"{output} must end in .parquet", param_hint="--output")
    criterion = Criterion(quantile, attainment, tolerance)
    loaded = load_spec(spec).without("load")
    if all(bound is None for _, bound in loaded.slo):
        raise SpecError(f"{loaded.source}: slo: a capacity needs bounds, such as ttft_s: 1")
    command = ["capacity", spec, "-o", str(output), "--quantile", quantile, "--attainment"]
    command += [str(attainment), "--tolerance", str(tolerance), "--resume"]
    with sweep_progress() as progress, resumable(command, progress):
        outcome = run_sweep(
            loaded,
            output,
            RunOptions(workers, resume),
            progress=progress,
            simulate=CapacitySearch(criterion),
            purpose=repr(criterion),
        )
    found = capacities(read_points(output))
    if as_json:
        print_json(outcome._asdict() | {"capacities": found.to_dict("records")})
    else:
        _show(found, top)
    report(outcome)


def capacities(points: pd.DataFrame) -> pd.DataFrame:
    """Return a row a configuration, the best first: capacity over seeds, and what broke first."""
    found = aggregate(points, [_RATE, "capacity_load"])
    identity = [name for name in found.columns[: found.columns.get_loc("seeds")]]
    broke = points.groupby(identity, dropna=False, sort=False)["broke_first"]
    found["broke_first"] = [_most_frequent(each) for _, each in broke]
    return found.sort_values(_RATE, ascending=False, kind="stable")


def _most_frequent(values: pd.Series) -> Any:
    counts = values.value_counts(sort=True)
    return counts.index[0] if len(counts) else None


def _show(found: pd.DataFrame, top: int) -> None:
    measures = [_RATE, f"{_RATE}_low", f"{_RATE}_high", "capacity_load", "seeds", "broke_first"]
    columns = [*measures, *varying(found)]
    shown = found.head(top)[columns].astype(object)
    rows = shown.where(shown.notna(), None).to_numpy().tolist()
    print_table(f"capacity of {len(found):,} configurations, the best first", columns, rows)
    if len(found) > top:
        note(f"{len(found) - top:,} more are in the file (--top)")
