"""Where a frontier bends: from there, more of one objective costs much of another."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sweeps.frontier import (
    MAXIMISE,
    MINIMISE,
    By,
    check_objectives,
    columns_of,
    members_of,
    unit_losses,
    usable,
)

_ROUNDING = 1e-9  # on objectives scaled to [0, 1]


def knee_points(
    front: pd.DataFrame,
    maximise: Sequence[str] = MAXIMISE,
    minimise: Sequence[str] = MINIMISE,
    by: By = None,
) -> pd.DataFrame:
    """Return the knee of a frontier, or of each group's.

    Each objective is scaled to the range it has on the frontier. With two objectives the knee is
    the point farthest from the straight line between the frontier's ends, on the better side of it
    (Das, On characterizing the "knee" of the Pareto curve based on normal-boundary intersection,
    Structural Optimization 18, 1999). With more, the line becomes the plane through the points that
    are best in one objective and worst in all others: ends that trade as hard as is possible. There
    is no parameter to choose.

    The scale is linear. A frontier drawn on a logarithmic axis may seem to bend elsewhere.

    Args:
        front: rows of `pareto_front`, for the same objectives and groups.
        maximise: columns where more is better.
        minimise: columns where less is better.
        by: columns that split the rows into groups with a frontier each.

    Returns:
        Rows of `front`, in its order; several of a group if they are equally far from its line.
        None of a frontier that is straight or bulges the other way, or has fewer than three points:
        its ends are on the line. Rows that are infinite in an objective are neither knees nor ends.

    Raises:
        InputError: a column does not exist, is no number or is named twice; or none is named.
    """
    objectives = check_objectives(front, maximise, minimise)
    groups = columns_of(front, by)
    finite = np.isfinite(front[objectives].to_numpy(np.float64, na_value=np.nan)).all(axis=1)
    points = front[usable(front, objectives) & finite]
    rows = [
        members[_knees(unit_losses(points.iloc[members], maximise, minimise))]
        for members in members_of(points, groups)
    ]
    return points.iloc[np.sort(np.concatenate(rows))] if rows else points


def _knees(losses: np.ndarray) -> np.ndarray:
    """Return which rows are knees."""
    # On the plane, the losses sum to one less than the number of objectives that differ; the
    # distance from it is the difference over a constant.
    traded = (losses > 0).any(axis=0).sum()
    depths = traded - 1 - losses.sum(axis=1)
    return (depths > _ROUNDING) & (depths > depths.max() - _ROUNDING)
