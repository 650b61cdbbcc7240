"""Why a point of a sweep is where it is: its neighbours on the frontier, and what they change."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from sweeps.frontier import MAXIMISE, MINIMISE, check_objectives, losses_of, unit_losses, usable
from sweeps.knobs import chosen_knobs, varying_conditions, varying_knobs
from vecsched.errors import InputError


def neighbours(
    front: pd.DataFrame,
    index: object,
    maximise: Sequence[str] = MAXIMISE,
    minimise: Sequence[str] = MINIMISE,
    knobs: Sequence[str] | None = None,
    count: int = 4,
) -> pd.DataFrame:
    """Return the nearest points on a frontier, what they change, and what that buys or costs.

    Near is meant in the objectives: straight-line distance, each objective scaled to the range it
    has in `front`.

    Args:
        front: the rows of one frontier, as `pareto_front` returns them; with `by`, of one group. A
            dominated row may be among them, to see how the frontier beats it.
        index: the point's label in `front`.
        maximise: columns where more is better.
        minimise: columns where less is better.
        knobs: columns in which changes are told; without them, conditions and knobs that vary in
            `front`.
        count: how many neighbours to return at most.

    Returns:
        A row a neighbour, the nearest first, labelled as in `front`: `distance`; `changes`, a dict
        from each knob that differs to its value at the point and at the neighbour; for each
        objective its value, and `..._gain`, by how much it is better than the point's, in its own
        unit: below 0 it is worse.

    Raises:
        InputError: a column does not exist, is no number or is named twice; no objective is named;
            `index` is no label in `front`, or that of several rows; `count` is below 1.
    """
    objectives = check_objectives(front, maximise, minimise)
    if count < 1:
        raise InputError("must be 1 or more", field="count", value=count)
    if knobs is None:
        knobs = [*varying_conditions(front), *varying_knobs(front)]
    else:
        knobs = chosen_knobs(front, knobs)
    points = front[usable(front, objectives)]
    places = np.flatnonzero(points.index == index)
    if len(places) != 1:
        raise InputError(
            f"must label one row of the frontier, not {len(places)}", field="index", value=index
        )
    place = int(places[0])
    scaled = _beyond(unit_losses(points, maximise, minimise), place)
    distances = np.sqrt((scaled**2).sum(axis=1))
    nearest = np.argsort(distances, kind="stable")
    nearest = nearest[nearest != place][:count]
    worse = _beyond(losses_of(points, maximise, minimise)[[place, *nearest]], 0)
    # From 0, so that what does not change is 0, and not -0.
    gains = pd.DataFrame(0.0 - worse[1:], points.index[nearest], objectives)
    found = points.iloc[nearest][objectives].assign(
        distance=distances[nearest],
        changes=[_changes(points[knobs], place, row) for row in nearest],
    )
    measures = [name for each in objectives for name in (each, f"{each}_gain")]
    return found.join(gains.add_suffix("_gain"))[["distance", "changes", *measures]]


def _beyond(losses: np.ndarray, place: int) -> np.ndarray:
    """Return by how much each row's losses exceed one row's; equal infinities do not differ."""
    apart = np.zeros_like(losses)
    np.subtract(losses, losses[place], out=apart, where=losses != losses[place])
    return apart


def _changes(points: pd.DataFrame, place: int, other: int) -> dict[str, tuple[object, object]]:
    """Return from what to what each column changes that does."""
    pairs = {
        name: (_value(column.iloc[place]), _value(column.iloc[other]))
        for name, column in points.items()
    }
    return {str(name): pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _value(cell: Any) -> Any:
    return None if pd.isna(cell) else cell
