"""Settings simulated again, for the curves that a sweep's rows do not hold.

The engine is exact, so a run must repeat its row to the last bit; every metric is compared. Where
that cannot be asked for, because the trace is gone or the engine is another, the report says so.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from sweeps.errors import StoreError
from sweeps.keys import trace_fingerprint
from sweeps.knees import knee_points
from sweeps.report.curves import curves_of
from sweeps.report.question import Question
from sweeps.report.source import SweepFile, config_of
from sweeps.spec import SweepSpec
from vecsched import CostModel, Trace, engine_version, simulate
from vecsched.errors import VecschedError

Folders = Sequence[Path]


class Again(NamedTuple):
    """What came of simulating again.

    Attributes:
        curves: by row, see `curves_of`.
        metrics: how many metrics of each were compared with its row, and equal.
        missing: why there are no curves, and of how many settings that were to have them.
    """

    curves: dict[int, dict[str, Any]]
    metrics: int
    missing: dict[str, int]


def most_telling(front: pd.DataFrame, question: Question, count: int) -> list[int]:
    """Return the rows of a frontier worth a closer look, the most telling first.

    Knees, then the best in each objective, then what lies evenly between; groups take turns.
    """
    queues = [
        list(dict.fromkeys([*_landmarks(rows, question), *_spread(list(rows.index))]))
        for _, rows in question.groups(front)
    ]
    turns = [row for _, row in sorted((n, row) for q in queues for n, row in enumerate(q))]
    # Sorting by turn alone would do; rows only make the order among groups definite.
    return turns[:count]


def simulate_again(
    sweep: SweepFile, rows: Iterable[int], folders: Folders, done: Callable[[], None]
) -> Again:
    """Simulate some settings again, check them against their rows, and keep their curves.

    Args:
        sweep: the sweep.
        rows: numbers of the rows.
        folders: where relative paths of trace files may start; the first that holds one counts.
        done: called after each setting.

    Raises:
        StoreError: a run differs from its row, though trace and engine are the same: the file was
            changed.
    """
    wanted = sorted(rows)
    reason = _another_engine(sweep)
    if reason or not wanted:
        return Again({}, 0, {reason: len(wanted)} if reason and wanted else {})
    costs = {model.name: model for model in map(CostModel.from_mapping, sweep.metadata["costs"])}
    options = sweep.spec().metric_options()
    curves: dict[int, dict[str, Any]] = {}
    missing: Counter[str] = Counter()
    told = {number: sweep.row(number) for number in wanted}
    # One trace after another, so that only one is in memory.
    order = sorted(wanted, key=lambda number: _traffic(told[number]))
    for (label, seed), numbers in groupby(order, key=lambda number: _traffic(told[number])):
        trace = _trace(sweep, label, None if seed < 0 else seed, folders)
        for number in numbers:
            if isinstance(trace, str):
                missing[trace] += 1
            else:
                row = told[number]
                config = config_of(row)
                scaled, cost = trace.scaled(row["load"]), costs[row["cost"]]
                result = simulate(scaled, config, cost, metrics=options)
                _compare(sweep.path, row, result.summary)
                curves[number] = curves_of(result, config)
            done()
    return Again(dict(sorted(curves.items())), len(sweep.metrics), dict(missing))


def _landmarks(rows: pd.DataFrame, question: Question) -> list[int]:
    knees = knee_points(rows, question.maximise, question.minimise)
    best = [question.best(rows, name).name for name in question.objectives]
    return [int(row) for row in (*knees.index, *best)]


def _spread(rows: list[int]) -> list[int]:
    """Return rows so that the first few of them, however many, lie wide apart."""
    middles, parts = [], [(0, len(rows))]
    while parts:
        low, high = parts.pop(0)
        middle = (low + high) // 2
        middles.append(rows[middle])
        parts += [(a, b) for a, b in ((low, middle), (middle + 1, high)) if a < b]
    return middles


def _traffic(row: dict[str, Any]) -> tuple[str, int]:
    return row["trace"], -1 if row["seed"] is None else row["seed"]


def _another_engine(sweep: SweepFile) -> str:
    """Return why nothing of this sweep can be simulated again; "" if it can."""
    if sweep.metadata.get("purpose"):
        return "each point of this sweep is a search over many simulations"
    written = sweep.metadata["engine_version"]
    if written == engine_version():
        return ""
    return f"the sweep ran on engine {written}, and this one is {engine_version()}"


def _trace(sweep: SweepFile, label: str, seed: int | None, folders: Folders) -> Trace | str:
    """Return a trace of the sweep, before it is scaled; or why it cannot be had."""
    wanted = {(t["trace"], t["seed"]): t["fingerprint"] for t in sweep.metadata["traces"]}
    reason = "there is no folder to look in"
    for folder in folders:
        try:
            trace = _read(sweep.spec(folder), label, seed)
        except (VecschedError, OSError) as error:
            reason = f"the trace cannot be read: {error}"
            continue
        if trace_fingerprint(trace) == wanted[label, seed]:
            return trace
        reason = f"the trace {label!r} is not what it was when the sweep ran"
    return reason


def _read(spec: SweepSpec, label: str, seed: int | None) -> Trace:
    (section,) = (each for each in spec.trace if each.label == label)
    return spec.trace_of(section, seed)


def _compare(path: Path, row: dict[str, Any], summary: dict[str, Any]) -> None:
    for name, value in summary.items():
        undefined = isinstance(value, float) and math.isnan(value)
        if row[name] != (None if undefined else value):
            raise StoreError(
                f"{path}: point {row['point']} says {name} = {row[name]!r}, but simulated again "
                f"it is {value!r}: the file was changed after the sweep"
            )
