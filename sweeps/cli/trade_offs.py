"""A frontier and what can be asked about it, for `vecsched frontier`."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pandas as pd

from sweeps.cliffs import cliffs, named_cliffs
from sweeps.effects import main_effects
from sweeps.explain import neighbours
from sweeps.frontier import pareto_front, usable
from sweeps.knees import knee_points
from sweeps.objectives import MAXIMISE, MINIMISE, Objectives
from sweeps.stability import frontier_probability
from vecsched.errors import InputError


class Frontier(NamedTuple):
    """A frontier and what it was made of.

    Attributes:
        points: every row of the sweep.
        front: those on the frontier, and whether each is a `knee`.
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


def find(
    points: pd.DataFrame,
    objectives: Objectives = (MAXIMISE, MINIMISE),
    by: str | None = None,
) -> Frontier:
    """Find the frontier.

    Args:
        points: a row a point.
        objectives: the columns to maximise and those to minimise.
        by: the column with a frontier for each of its values.

    Raises:
        InputError: a column does not exist or cannot be an objective.
    """
    maximise, minimise = objectives
    front = pareto_front(points, maximise, minimise, by)
    knees = knee_points(front, maximise, minimise, by)
    front = front.assign(knee=front.index.isin(knees.index))
    return Frontier(points, front, maximise, minimise, by)


class Questions(NamedTuple):
    """What is asked beside the frontier itself.

    Attributes:
        row: number of a row of the file whose place is to be explained.
        effects: which knob decides each objective.
        cliffs: where an objective jumps.
        probability: how surely each configuration is on the frontier.
    """

    row: int | None = None
    effects: bool = False
    cliffs: bool = False
    probability: bool = False


def answers(found: Frontier, asked: Questions) -> dict[str, pd.DataFrame]:
    """Return a table for each question asked, by its name.

    Raises:
        InputError: a question cannot be answered of these points.
    """
    wanted: dict[str, tuple[bool, Callable[[], pd.DataFrame]]] = {
        "neighbours": (asked.row is not None, lambda: _neighbours(found, asked.row)),
        "effects": (asked.effects, lambda: _effects(found)),
        "cliffs": (asked.cliffs, lambda: _cliffs(found)),
        "probability": (asked.probability, lambda: _probability(found)),
    }
    return {name: answer() for name, (is_asked, answer) in wanted.items() if is_asked}


def _neighbours(found: Frontier, row: Any) -> pd.DataFrame:
    """Return the nearest on the frontier of the row's group, which need not have the row."""
    if row not in found.points.index:
        raise InputError(f"no such row; there are {len(found.points)}", field="row", value=row)
    point = found.points.loc[[row]]
    if not usable(point, found.objectives).all():
        raise InputError("this row takes no part: it failed or lacks an objective", row=row)
    front = found.front.drop(index=row, errors="ignore")
    if found.by is not None:
        group = point[found.by].iloc[0]
        front = front[front[found.by].isna() if pd.isna(group) else front[found.by] == group]
    return neighbours(pd.concat([point, front]), row, found.maximise, found.minimise)


def _effects(found: Frontier) -> pd.DataFrame:
    """Return main effects, of each group."""
    parts = [
        main_effects(points, found.objectives).assign(**label)
        for label, points in _groups(found.points, found.by)
    ]
    effects = pd.concat(parts, ignore_index=True)
    return effects if found.by is None else effects[[*dict.fromkeys([found.by, *effects])]]


def _cliffs(found: Frontier) -> pd.DataFrame:
    """Return the cliffs of each objective."""
    parts = [named_cliffs(cliffs(found.points, name)) for name in found.objectives]
    tables = zip(found.objectives, parts, strict=True)
    named = [part.assign(objective=name) for name, part in tables if len(part)]
    columns = [*dict.fromkeys(["objective", *parts[0]])]
    return pd.concat(named)[columns] if named else parts[0].assign(objective="")[columns]


def _probability(found: Frontier) -> pd.DataFrame:
    """Return each configuration's probability, and whether its means are on their frontier."""
    axes = (found.maximise, found.minimise, found.by)
    sure = frontier_probability(found.points, *axes)
    best = pareto_front(sure, *axes)
    sure = sure.assign(on_frontier_of_means=sure.index.isin(best.index))
    sure = sure.sort_values("probability", ascending=False, kind="stable")
    return sure if found.by is None else sure.sort_values(found.by, kind="stable")


def _groups(points: pd.DataFrame, by: str | None) -> Iterable[tuple[dict[str, Any], pd.DataFrame]]:
    if by is None:
        return [({}, points)]
    return [({by: value}, part) for value, part in points.groupby(by, dropna=False)]


def answers_as_dict(tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """Return what `answers` returned for machines."""
    return {
        # Effects and cliffs are of no single row.
        name: table.to_dict("records") if name in ("effects", "cliffs") else numbered(table)
        for name, table in tables.items()
    }


def numbered(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for machines, each with its number in the file."""
    rows = zip(table.index, table.to_dict("records"), strict=True)
    return [
        {"row": row} | {str(name): value for name, value in values.items()} for row, values in rows
    ]
