"""`vecsched validate`: measured against simulated latency of a real run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sweeps.calibrate import ENGINE_OVERHEAD_S, AllReduce, Provenance, Request, ring
from sweeps.calibrate import calibrate as make_model
from sweeps.cli.calibrate import WITHOUT_ALL_REDUCE, read_cost
from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.fields import with_fields
from sweeps.cli.output import note, print_json, print_table
from sweeps.measured_run import MeasuredRun, read_run
from sweeps.plots import save_figure
from sweeps.validate import METRICS, Validation, compare, difference
from sweeps.validate import validate as replay
from sweeps.validation_plot import validation_plot
from vecsched import SchedulerConfig
from vecsched.errors import InputError

app = typer.Typer(add_completion=False)

_FIGURES = ("measured_s", "simulated_s", "diff_percent")


@app.command(cls=Command)
@with_fields(scheduler=SchedulerConfig)
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
    all_reduce: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Times of all-reduces between GPUs; by default a ring over the run's links.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model, or its config.json, if it is not said.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The figure, .png, .svg or .pdf; by default RUN.png here."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
    scheduler: dict[str, Any],
) -> None:
    """Replay a real run with its own scheduler configuration and compare the latencies.

    The options of the scheduler change what the run says, or tell what it does not, such as
    --kv-blocks. Whatever is not given is as in the run, under the discipline vllm.
    """
    run = read_run(run_dir, scheduler)
    if (profile is None) == (cost is None):
        raise InputError("exactly one of --profile and --cost must be given")
    notes = list(run.notes)
    if cost is not None:
        costs = read_cost(cost)
    else:
        times, text = _all_reduce(run, all_reduce)
        notes += text
        costs = make_model(
            Request(
                paths=(Path(str(profile)),),
                provenance=Provenance(Path(str(profile)).resolve().name, str(profile)),
                model=model or run.model or None,
                tensor_parallel=run.tensor_parallel,
                all_reduce=times,
                overhead_s=overhead_s,
            )
        )
    found = replay(run, costs)
    figure = None
    if output is not None or not as_json:
        path = output or Path(f"{run_dir.resolve().name}.png")
        figure = save_figure(validation_plot(found), path)
    if as_json:
        config = run.config.to_dict()
        print_json(as_dict(found) | {"config": config, "notes": notes, "figure": figure})
    else:
        _show(found, f"{run_dir.name}: {len(found.measured):,} requests, cost {costs.name}")
        for line in notes:
            note(f"note: {line}")
        note(f"figure: {figure}")


def _all_reduce(run: MeasuredRun, file: Path | None) -> tuple[Path | AllReduce | None, list[str]]:
    """Return what the run's GPUs send each other, and what to tell the user about it."""
    if run.tensor_parallel == 1 or file is not None:
        return file, []
    if run.link is None:
        return None, [WITHOUT_ALL_REDUCE]
    figures = f"{run.link.bytes_per_s / 1e9:g} GB/s and {run.link.latency_s * 1e6:g} us a message"
    told = f"all-reduces are those of a ring over the links of the run's config.json: {figures}"
    return ring(run.tensor_parallel, *run.link), [told]


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
