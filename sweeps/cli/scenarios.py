"""`vecsched simulate --vllm-scenario`: compare with the decisions that vLLM has logged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from sweeps.cli.output import note, print_json
from sweeps.scenario_file import read_scenario
from sweeps.vllm_scenario import Comparison, compare
from vecsched.simulation import is_compiled

DIFFERENT = 1  # exit code


def compare_scenarios(files: Sequence[Path], as_json: bool) -> None:
    """Compare every file's steps and print a line for each; leave with 1 if any differs.

    Raises:
        ScenarioError: a file cannot be compared; then nothing is printed.
    """
    scenarios = [read_scenario(file) for file in files]
    if not is_compiled():
        note("compiling the kernels (the first time only)")
    comparisons = list(map(compare, scenarios))
    equal = all(each.difference is None for each in comparisons)
    if as_json:
        rows = map(_as_dict, files, comparisons)
        print_json({"equal": equal, "scenarios": list(rows)})
    else:
        for file, comparison in zip(files, comparisons, strict=True):
            typer.echo(_line(file, comparison))
    if not equal:
        raise typer.Exit(DIFFERENT)


def _line(file: Path, comparison: Comparison) -> str:
    remark = f" ({comparison.note})" if comparison.note else ""
    if comparison.difference is not None:
        return f"different: {file}: {comparison.difference}{remark}"
    return f"equal: {file}: {comparison.steps:,} steps{remark}"


def _as_dict(file: Path, comparison: Comparison) -> dict[str, Any]:
    difference = comparison.difference
    return {
        "file": file,
        "equal": difference is None,
        **comparison._asdict(),
        "difference": None if difference is None else difference._asdict(),
    }
