"""`vecsched calibrate`: measurements in, a cost model with its error out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sweeps.calibrate import (
    ENGINE_OVERHEAD_S,
    OPERATOR_PROFILES,
    SOURCES,
    Provenance,
    Request,
    check_error,
    recognise,
)
from sweeps.calibrate import calibrate as make_model
from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.output import note, print_json, print_table
from sweeps.files import atomic_file
from vecsched import CostModel
from vecsched.errors import CostError

app = typer.Typer(add_completion=False)

_KINDS = " ".join(f"{kind}: {source.text}." for kind, source in SOURCES.items())
WITHOUT_ALL_REDUCE = (
    "what the GPUs of a tensor-parallel group send each other is in no operator profile: "
    "--all-reduce FILE adds it"
)
_FIGURES = ("rows", "mean", "median", "max", "outliers", "max_of_others")


@app.command(cls=Command, epilog=_KINDS)
def calibrate(
    *,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="A folder of a profile or a run, or its files; several runs, or tables.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The cost model: a .json file.")
    ] = Path("cost.json"),
    kind: Annotated[str, typer.Option(help=f"auto, or one of {', '.join(SOURCES)}.")] = "auto",
    model: Annotated[
        str | None, typer.Option(help="Name of the model, or its config.json, if it is not said.")
    ] = None,
    hardware: Annotated[
        str | None, typer.Option(help="Which GPU of a table that holds several.")
    ] = None,
    tensor_parallel: Annotated[int, typer.Option(help="GPUs that share the model.")] = 1,
    all_reduce: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Times of all-reduces between them, if no profile has."),
    ] = None,
    overhead_s: Annotated[
        float, typer.Option(help="Seconds an iteration takes beside its kernels.")
    ] = ENGINE_OVERHEAD_S,
    base: Annotated[
        str | None, typer.Option(help="The preset or .json file that a run adjusts.")
    ] = None,
    time_column: Annotated[
        str, typer.Option(help="Column of an iteration table with the durations, in seconds.")
    ] = "seconds",
    name: Annotated[str | None, typer.Option(help="What results call the model.")] = None,
    source: Annotated[str | None, typer.Option(help="Where the figures come from.")] = None,
    licence: Annotated[str, typer.Option(help="Their licence.")] = "",
    max_error: Annotated[
        float, typer.Option(help="Largest mean relative error, held out, that is accepted.")
    ] = 0.1,
    force: Annotated[bool, typer.Option("--force", help="Accept any error.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Fit a cost model to measurements; print how far it is from them and write it to a file.

    Times of latency tables are taken in their format's unit: microseconds (LLMServingSim; its older
    format: nanoseconds), milliseconds (Vidur, aiconfigurator, SplitwiseSim, Dynamo), seconds (all
    else).
    """
    if output.suffix != ".json":
        raise typer.BadParameter(f"{output} must end in .json", param_hint="--output")
    request = Request(
        paths=tuple(files),
        provenance=Provenance(
            name or _name_of(files), source or " ".join(map(str, files)), licence
        ),
        model=model,
        hardware=hardware,
        tensor_parallel=tensor_parallel,
        all_reduce=all_reduce,
        overhead_s=overhead_s,
        time_column=time_column,
        base=None if base is None else read_cost(base),
    )
    kind = recognise(request.paths) if kind == "auto" else kind
    made = make_model(request, kind)
    try:
        check_error(made, max_error)
    except CostError as error:
        if not force:
            raise CostError(f"{error}; --force accepts it, --max-error sets the bound") from None
        note(f"warning: {error}")
    with atomic_file(output) as file:
        file.write(made.to_json().encode())
    if kind in OPERATOR_PROFILES and tensor_parallel > 1 and all_reduce is None:
        note(f"note: {WITHOUT_ALL_REDUCE}")
    if as_json:
        print_json({"output": output, "name": made.name, "error": made.error})
    else:
        show_error(made)
        note(f"cost model: {output}")


def read_cost(name: str) -> CostModel:
    """Return a cost model: a .json file, or a preset.

    Raises:
        CostError: there is no such file or preset.
    """
    return CostModel.load(name) if name.endswith(".json") else CostModel.preset(name)


def show_error(model: CostModel) -> None:
    """Print a model's error, on all rows and on rows held out, a line a kind."""
    kinds = {name: row for name, row in model.error.items() if _is_summary(row)}
    held_out = model.error.get("held_out", {})
    unseen = {f"held out, {name}": row for name, row in held_out.items() if _is_summary(row)}
    rows = [
        [kind, *(figures.get(figure) for figure in _FIGURES)]
        for kind, figures in (kinds | unseen).items()
    ]
    print_table(f"{model.name}: {model.error.get('figure', 'error')}", ("", *_FIGURES), rows)


def _name_of(paths: Sequence[Path]) -> str:
    """Return what a file, a folder, or the folder of several is called, without an ending."""
    path = paths[0] if len(paths) == 1 else paths[0].resolve().parent
    return path.stem if path.is_file() else path.resolve().name


def _is_summary(value: Any) -> bool:
    return isinstance(value, Mapping) and "mean" in value
