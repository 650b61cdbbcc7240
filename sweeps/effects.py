"""Which knob decides an objective: main effects, as in an analysis of variance.

Objectives of a sweep span orders of magnitude, and a few settings past a cliff would be all of the
variance. What a frontier asks of a value is its place among the others. So the analysis is one of
ranks (Conover and Iman, Rank transformations as a bridge between parametric and nonparametric
statistics, The American Statistician 35, 1981), taken among the points of equal conditions (trace,
load and seed: see `sweeps.knobs`), so that the traffic explains nothing and every load counts the
same. A rank is the share of those points with a smaller value, equal ones counting half: its mean
is 0.5, whatever the conditions. How large a difference is, ranks do not say: see `level_means`, and
`cliffs` for the jumps.

A knob with more than eight levels of numbers, as sampled designs have, is cut into eight classes of
as many points each: with a level for every point any knob would explain everything.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from sweeps.frontier import check_objectives, usable
from sweeps.knobs import CONDITIONS, chosen_knobs

# The last row of each objective's effects: what no knob explains alone.
INTERACTIONS = "interactions"

_CLASSES = 8
_LEVEL_COLUMNS = ["objective", "knob", "level", "points", "mean", "rank"]


class _Levels(NamedTuple):
    """A knob's level at each point.

    Attributes:
        codes: which of the labels, int64 (points,).
        labels: the levels, ascending where they have an order; None for null.
    """

    codes: np.ndarray
    labels: list[object]


def main_effects(
    frame: pd.DataFrame, objectives: Sequence[str], knobs: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return how much of the spread of each objective each knob explains alone.

    A knob's share is the sum of squares between its levels' means over the total sum of squares, of
    ranks. In a full grid the shares add up to what a sum of effects, one a knob, can explain. In
    other designs (sampled ones, conditional axes, variants that set several fields) knobs go
    together: then a share contains what is due to the knob's companions, and the shares may add up
    to more than 1.

    Args:
        frame: a row a point, as a sweep writes them. Points that did not end well, or lack the
            objective, take no part.
        objectives: columns of numbers.
        knobs: columns; without them, `varying_knobs`. A condition named here is treated as a knob.

    Returns:
        A row an objective and knob, by descending share: `objective`, `knob`, `levels`, how many
        there are, and `share`, from 0 to 1. The last row of each objective is `INTERACTIONS`, with
        0 levels: the share that the best sum of effects leaves over, which is due to combinations
        of knobs, to conditions that change the order, and to noise between seeds. Then `points`,
        how many took part, and `left_out`, how many did not. Shares are NaN if nothing varies.

    Raises:
        InputError: a column does not exist; an objective is no number or named twice.
    """
    check_objectives(frame, objectives, ())
    knobs = _knobs(frame, objectives, knobs)
    parts = [_effects(frame, objective, knobs) for objective in objectives]
    return pd.concat(parts, ignore_index=True)


def level_means(
    frame: pd.DataFrame, objectives: Sequence[str], knobs: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the mean of each objective at each level of each knob: what is behind `main_effects`.

    Arguments and errors are those of `main_effects`.

    Returns:
        A row an objective, knob and level, ascending: `objective`, `knob`, `level` (the value; None
        for null; "a to b" for a class), `points`, `mean` of the objective, and `rank`, the mean
        share of points under equal conditions with a smaller value.
    """
    check_objectives(frame, objectives, ())
    knobs = _knobs(frame, objectives, knobs)
    rows = []
    for objective in objectives:
        points = frame[usable(frame, [objective])]
        values = points[objective].to_numpy(np.float64)
        ranks = _ranks(points, objective, knobs)
        for knob in knobs:
            codes, labels = _levels(points[knob])
            counts = np.bincount(codes, minlength=len(labels))
            means, places = (np.bincount(codes, each) / counts for each in (values, ranks))
            rows += [
                (objective, knob, *level)
                for level in zip(labels, counts, means, places, strict=True)
            ]
    # As objects, for otherwise pandas makes NaN of None among numbers.
    found = pd.DataFrame(rows, columns=_LEVEL_COLUMNS, dtype=object)
    return found.astype({"points": np.int64, "mean": np.float64, "rank": np.float64})


def _knobs(
    frame: pd.DataFrame, objectives: Sequence[str], knobs: Sequence[str] | None
) -> list[str]:
    """Return the knobs to look at: what is itself an objective explains nothing."""
    return [name for name in chosen_knobs(frame, knobs) if name not in objectives]


def _effects(frame: pd.DataFrame, objective: str, knobs: list[str]) -> pd.DataFrame:
    """Return the rows of one objective."""
    points = frame[usable(frame, [objective])]
    ranks = _ranks(points, objective, knobs)
    spread = ranks - ranks.mean() if len(ranks) else ranks
    total = spread @ spread if len(ranks) and np.ptp(ranks) > 0 else np.nan
    levels = [_levels(points[knob]) for knob in knobs]
    shares = [_between(spread, each.codes) / total for each in levels]
    found = pd.DataFrame(
        {"knob": knobs, "levels": [len(each.labels) for each in levels], "share": shares}
    ).sort_values("share", ascending=False, kind="stable", ignore_index=True)
    rest = {"knob": [INTERACTIONS], "levels": 0, "share": _unexplained(spread, levels) / total}
    found = pd.concat([found, pd.DataFrame(rest)], ignore_index=True)
    found.insert(0, "objective", objective)
    return found.assign(points=len(points), left_out=len(frame) - len(points))


def _ranks(points: pd.DataFrame, objective: str, knobs: Sequence[str]) -> np.ndarray:
    """Return the share of points under equal conditions that have less, float64 (points,)."""
    conditions = [name for name in CONDITIONS if name in points and name not in (*knobs, objective)]
    equal = [points[name] for name in conditions] or [pd.Series(0, points.index)]
    peers = points[objective].groupby(equal, dropna=False)
    return ((peers.rank() - 0.5) / peers.transform("size")).to_numpy(np.float64)


def _levels(column: pd.Series) -> _Levels:
    """Return a knob's levels, or its classes where it has too many."""
    if not pd.api.types.is_numeric_dtype(column) or column.nunique() <= _CLASSES:
        codes, labels = pd.factorize(column, sort=True, use_na_sentinel=False)
        return _Levels(codes, [None if pd.isna(each) else each for each in labels.tolist()])
    classes = pd.qcut(column, _CLASSES, labels=False, duplicates="drop")  # nulls stay null
    codes, labels = pd.factorize(classes, sort=True, use_na_sentinel=False)
    ends = column.groupby(codes).agg(["min", "max"]).to_numpy()
    return _Levels(codes, [None if np.isnan(low) else f"{low:g} to {high:g}" for low, high in ends])


def _between(spread: np.ndarray, codes: np.ndarray) -> float:
    """Return the sum of squares between levels: of each level's mean, times its points."""
    sums, counts = np.bincount(codes, spread), np.bincount(codes)
    return float((sums**2 / counts).sum())


def _unexplained(spread: np.ndarray, levels: list[_Levels]) -> float:
    """Return the sum of squares that the best sum of effects leaves over, by least squares."""
    chosen = [np.eye(len(each.labels))[each.codes] for each in levels]
    design = np.hstack([np.ones((len(spread), 1)), *chosen])
    effects = np.linalg.lstsq(design, spread, rcond=None)[0]
    return float(((spread - design @ effects) ** 2).sum())
