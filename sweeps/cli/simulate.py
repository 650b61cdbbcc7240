"""`vecsched simulate`: one configuration on one trace."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
import typer

from sweeps._yaml import read_yaml
from sweeps.cli.command import AsJson, Command, Debug
from sweeps.cli.fields import with_fields
from sweeps.cli.output import note, print_json, print_pairs, print_table
from sweeps.cli.scenarios import compare_scenarios
from sweeps.cli.trace import Format, note_quirks
from sweeps.spec import SweepSpec
from sweeps.store import atomic_file
from vecsched import (
    DISCIPLINES,
    POLICIES,
    CostModel,
    MetricOptions,
    Result,
    SchedulerConfig,
    Trace,
)
from vecsched import simulate as run_simulation
from vecsched.errors import ConfigError
from vecsched.simulation import is_compiled

app = typer.Typer(add_completion=False)

_WORKLOAD = "azure-conv-like"
_COST = "llama3-8b-a100"
_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
_NAMES = f"Disciplines: {', '.join(DISCIPLINES)}. Policies: {', '.join(POLICIES)}."


@app.command(cls=Command, epilog=_NAMES)
@with_fields(scheduler=SchedulerConfig, metrics=MetricOptions)
def simulate(
    *,
    context: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="TRACE", help="A trace file.")
    ] = None,
    format: Format = "auto",
    synthetic: Annotated[
        str | None, typer.Option(help=f"A built-in workload instead; by default {_WORKLOAD}.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option(help="How many requests the built-in workload has.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the built-in workload.")] = None,
    load: Annotated[float, typer.Option(help="Factor on the rate of arrivals.")] = 1.0,
    cost: Annotated[
        str, typer.Option(help="What an iteration lasts: a preset, a .json file, or unit (1 s).")
    ] = _COST,
    config: Annotated[
        Path | None, typer.Option(help="A YAML file of scheduler fields; options override it.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A row a request; .parquet or .csv.")
    ] = None,
    service: Annotated[
        Path | None,
        typer.Option(
            help="Service that each tenant has received, over time; .parquet or .csv.",
        ),
    ] = None,
    vllm_scenario: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE...",
            help="Compare with step logs of the real vLLM: equal, or what differs first.",
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
    scheduler: dict[str, Any],
    metrics: dict[str, Any],
) -> None:
    """Simulate one scheduler on one trace and print what its users would see."""
    if vllm_scenario:
        _check_alone(context)
        compare_scenarios([*vllm_scenario, *(files or [])], as_json)
        return
    for path, option in ((output, "--output"), (service, "--service")):
        if path is not None and path.suffix not in (".parquet", ".csv"):
            raise typer.BadParameter(f"{path} must end in .parquet or .csv", param_hint=option)
    chosen: dict[str, Any] = {"synthetic": synthetic, "requests": requests, "seed": seed}
    if files:
        chosen |= {"path": str(_only(files)), "format": format}
    elif synthetic is None:
        chosen["synthetic"] = _WORKLOAD
    run = _prepare(chosen, cost, load)
    configuration = _configuration(config, scheduler)
    result = _simulate(run, configuration, MetricOptions(**metrics))
    if output is not None:
        write_table(result.requests, output)
    if service is not None:
        write_table(result.service, service)
    if as_json:
        what = {"trace": run.label, "load": run.load, "cost": run.cost.name}
        told = {"config": configuration.to_dict(), "summary": result.summary}
        print_json(what | told | {"tenants": result.tenants.to_dict("records")})
    else:
        _show(run, configuration, result)


def _check_alone(context: typer.Context) -> None:
    """Refuse options that would change what a scenario file says."""
    for name in context.params.keys() - {"files", "vllm_scenario", "as_json", "debug"}:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                f"a scenario has settings of its own, {option} cannot change them",
                param_hint="--vllm-scenario",
            )


def _only(files: list[Path]) -> Path:
    if len(files) > 1:
        names = ", ".join(map(str, files))
        raise typer.BadParameter(f"one trace at a time, not {names}", param_hint="TRACE")
    return files[0]


class Run(NamedTuple):
    """What is simulated, and what to call it."""

    trace: Trace
    cost: CostModel
    label: str
    load: float


def _prepare(chosen: Mapping[str, Any], cost: str, load: float) -> Run:
    """Build trace and cost by the rules of a sweep file, whose errors serve here too."""
    given = {name: value for name, value in chosen.items() if value is not None}
    spec = SweepSpec.from_mapping({"trace": given, "cost": cost}, "simulate")
    (section,), (model,) = spec.trace, spec.cost_models().values()
    trace = spec.trace_of(section, section.first_seed)
    note_quirks(trace, section.label)
    return Run(trace.scaled(load), model, section.label, load)


def _configuration(file: Path | None, changes: Mapping[str, Any]) -> SchedulerConfig:
    """Read the file, if there is one, and override what the command line gives."""
    if file is None:
        return SchedulerConfig.from_mapping(changes)
    values = read_yaml(file)
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: must be a mapping of scheduler fields, such as policy: fcfs")
    try:
        base = SchedulerConfig.from_mapping(values)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    return base.replace(**changes)


def _simulate(run: Run, configuration: SchedulerConfig, metrics: MetricOptions) -> Result:
    if not is_compiled():
        note("compiling the kernels (the first time only)")
    return run_simulation(run.trace, configuration, run.cost, metrics=metrics)


def _show(run: Run, configuration: SchedulerConfig, result: Result) -> None:
    latencies, others = split(result.summary)
    what = (run.label, f"load {run.load:g}", run.cost.name)
    title = ", ".join([*what, configuration.discipline, configuration.policy])
    print_table(title, ("", *_STATISTICS), latencies)
    print_pairs("", others, across=3)
    if len(result.tenants) > 1:
        print_table("tenants", list(result.tenants.columns), result.tenants.to_numpy().tolist())


def split(summary: Mapping[str, Any]) -> tuple[list[list[Any]], dict[str, Any]]:
    """Part a summary into rows of latencies, a column a statistic, and all that is left."""
    rows: dict[str, dict[str, Any]] = {}
    others = dict(summary)
    for column in summary:
        match = re.fullmatch(rf"(.+)_({'|'.join(_STATISTICS)})(_s|)", column)
        if match and f"{match[1]}_max{match[3]}" in summary:
            rows.setdefault(match[1] + match[3], {})[match[2]] = others.pop(column)
    return [[name, *map(row.get, _STATISTICS)] for name, row in rows.items()], others


def write_table(table: pd.DataFrame, output: Path) -> None:
    """Write a table, complete or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    with atomic_file(output) as file:
        if output.suffix == ".csv":
            table.to_csv(file, index=False)
        else:
            table.to_parquet(file, index=False)
