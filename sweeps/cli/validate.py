"""`vecsched validate`: measured against simulated latency of a real run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sweeps.calibrate import ENGINE_OVERHEAD_S, Provenance, Request
from sweeps.calibrate import calibrate as make_model
from sweeps.cli.calibrate import read_cost
from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.output import note, print_json, print_table
from sweeps.measured_run import read_run
from sweeps.plots import save_figure
from sweeps.validate import METRICS, Validation, compare, difference
from sweeps.validate import validate as replay
from sweeps.validation_plot import validation_plot
from vecsched.errors import InputError

app = typer.Typer(add_completion=False)

_FIGURES = ("measured_s", "simulated_s", "diff_percent")


@app.command(cls=Command)
def validate(
    *,
    run_dir: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="A run: requests.jsonl and meta.json.")
    ],
    profile: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Operator profile of the GPU and model.")
    ] = None,
    cost: Annotated[
        str | None, typer.Option(help="A cost model instead: a preset or a .json file.")
    ] = None,
    overhead_s: Annotated[
        float,
        typer.Option(help="Seconds an iteration takes beside the profile's kernels; 0: none."),
    ] = ENGINE_OVERHEAD_S,
    model: Annotated[
        str | None, typer.Option(help="Name of the model, or its config.json, if it is not said.")
    ] = None,
    kv_blocks: Annotated[
        int | None, typer.Option(help="KV blocks of the run, if it does not say.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The figure, .png, .svg or .pdf; by default RUN.png here."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Replay a real run with its own scheduler configuration and compare the latencies."""
    run = read_run(run_dir, kv_blocks=kv_blocks)
    if (profile is None) == (cost is None):
        raise InputError("exactly one of --profile and --cost must be given")
    if cost is not None:
        costs = read_cost(cost)
    else:
        costs = make_model(
            Request(
                path=Path(str(profile)),
                provenance=Provenance(Path(str(profile)).resolve().name, str(profile)),
                model=model or run.model or None,
                tensor_parallel=run.tensor_parallel,
                overhead_s=overhead_s,
            )
        )
    found = replay(run, costs)
    figure = None
    if output is not None or not as_json:
        path = output or Path(f"{run_dir.resolve().name}.png")
        figure = save_figure(validation_plot(found), path)
    if as_json:
        print_json(as_dict(found) | {"notes": run.notes, "figure": figure})
    else:
        _show(found, f"{run_dir.name}: {len(found.measured):,} requests, cost {costs.name}")
        for text in run.notes:
            note(f"note: {text}")
        note(f"figure: {figure}")


def as_dict(found: Validation) -> dict[str, Any]:
    """Return the comparison for machines: a row a metric and statistic, and the makespan."""
    return {
        "metrics": compare(found),
        "makespan": difference(*found.makespan),
        "requests": len(found.measured),
        "left_out": found.left_out,
    }


def _show(found: Validation, title: str) -> None:
    rows = [
        [METRICS[row["metric"]], row["stat"], *(row[name] for name in _FIGURES)]
        for row in compare(found)
    ]
    makespan = difference(*found.makespan)
    rows.append(["makespan", "", *(makespan[name] for name in _FIGURES)])
    print_table(title, ("", "", *_FIGURES), rows)
    if found.left_out:
        note(f"left out: {found.left_out:,} requests that were not served in both")
