"""How to run again what a report shows: the sweep, its frontier, one setting."""

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from sweeps.report.question import Question
from sweeps.report.source import SweepFile
from sweeps.spec import load_spec, ready_made
from vecsched import MetricOptions, SchedulerConfig


def sweep_commands(sweep: SweepFile, question: Question) -> list[tuple[str, str]]:
    """Return what was done, as (what it does, command), in order."""
    file = sweep.path.name
    objectives = [*_repeated("--max", question.maximise), *_repeated("--min", question.minimise)]
    asked = [*objectives, *(["--by", question.by] if question.by else [])]
    search = "capacity" if sweep.metadata.get("purpose") else "sweep"
    page = str(Path(file).with_suffix(".html"))
    return [
        ("Run the sweep", _line(search, sweep_file_name(sweep), "-o", file)),
        ("List and draw its frontier", _line("frontier", file, *asked)),
        ("Write this report", _line("report", file, "-o", page, *asked)),
    ]


def sweep_file_name(sweep: SweepFile) -> str:
    """Return the name of the ready-made sweep that this was, or one to save the sweep file as."""
    written = sweep.metadata["spec"]
    for name in ready_made():
        if load_spec(name).as_written() == written:
            return name
    return f"{written.get('name') or sweep.path.stem}.yaml"


def sweep_file_text(sweep: SweepFile) -> str:
    """Return the sweep file's content as YAML."""
    return yaml.safe_dump(
        sweep.metadata["spec"], sort_keys=False, allow_unicode=True, width=100
    ).strip()


def setting_command(sweep: SweepFile) -> dict[str, Any]:
    """Return what a script needs to write the command, or the sweep file, of one setting.

    Returns:
        `defaults`, of each field of a configuration: what differs becomes an option; `traces` and
        `costs`, by name, the arguments that stand for them, null if no argument can; `objectives`,
        further arguments; `file`, the sweep file of one setting but for what is the setting's own:
        the way that always works.
    """
    spec = sweep.spec()
    written = sweep.metadata["spec"]
    kept = {name: written[name] for name in ("slo", "metrics") if name in written}
    options = spec.metric_options()
    given = {
        field.name: getattr(options, field.name)
        for field in fields(MetricOptions)
        if getattr(options, field.name) != field.default
    }
    names = [model["name"] for model in sweep.metadata["costs"]]
    costs = dict(zip(names, written["cost"], strict=True))
    traces = {each.label: raw for each, raw in zip(spec.trace, written["trace"], strict=True)}
    return {
        "defaults": {field.name: field.default for field in fields(SchedulerConfig)},
        "traces": {label: _trace_arguments(raw) for label, raw in traces.items()},
        "costs": {name: _cost_arguments(raw) for name, raw in costs.items()},
        "objectives": [f"{_option(name)}={value!r}" for name, value in given.items()],
        "file": {"traces": traces, "costs": costs, **kept},
    }


def _trace_arguments(section: dict[str, Any]) -> list[str] | None:
    if section.get("options") or isinstance(section.get("synthetic"), dict):
        return None
    if "path" in section:
        kind = ["--format", section["format"]] if "format" in section else []
        return [section["path"], *kind]
    count = ["--requests", str(section["requests"])] if "requests" in section else []
    return ["--synthetic", section["synthetic"], *count]


def _cost_arguments(section: dict[str, Any]) -> list[str] | None:
    model = section.get("preset") or section.get("path")
    return None if model is None else ["--cost", model]


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _repeated(option: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _line(*words: str) -> str:
    return shlex.join(["vecsched", *words])
