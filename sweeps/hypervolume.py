"""How much a frontier covers, in one number: to compare frontiers, not points."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from sweeps.frontier import (
    MAXIMISE,
    MINIMISE,
    By,
    check_objectives,
    columns_of,
    losses_of,
    undominated,
    usable,
)
from vecsched.errors import InputError, did_you_mean


def hypervolume(
    frame: pd.DataFrame,
    maximise: Sequence[str] = MAXIMISE,
    minimise: Sequence[str] = MINIMISE,
    by: By = None,
    *,
    reference: Mapping[str, float] | None = None,
) -> pd.Series:
    """Return the volume between a reference point and the frontier.

    It is the space of all points that some row dominates and that dominate the reference (Zitzler
    and Thiele, Multiobjective optimization using evolutionary algorithms, PPSN 1998), in the
    product of the objectives' units. It is exact: O(n log n) for two objectives; for more, by
    slices along one objective after another (While et al., A faster algorithm for calculating
    hypervolume, 2006), which is O(n^2 log n) for three and a factor n for each one more, where n is
    the number of points on a frontier.

    Args:
        frame: one row a point; rows that are dominated change nothing.
        maximise: columns where more is better.
        minimise: columns where less is better.
        by: columns that split the points into groups with a frontier each.
        reference: a value for each objective; points that are not better than all of them count
            nothing. Without it, the worst finite values of the whole frame: the same for all
            groups, which makes them comparable, but not for another frame.

    Returns:
        float64, one entry a group, by the values of `by` in ascending order; without `by`, one
        entry named "". 0 for a group without points. Infinite if a point is infinitely good.

    Raises:
        InputError: a column does not exist, is no number or is named twice; or none is named; or
            the reference lacks an objective, has another, or is not finite.
    """
    objectives = check_objectives(frame, maximise, minimise)
    groups = columns_of(frame, by)
    fine = usable(frame, objectives)
    losses = losses_of(frame[fine], maximise, minimise)
    if reference is None:
        worst = _worst(losses)
    else:
        _check(reference, objectives)
        worst = losses_of(pd.DataFrame([reference]), maximise, minimise)
    gains = worst - losses
    if not groups:
        return pd.Series({"": _volume(gains)}, name="hypervolume")
    split = frame.groupby(groups, dropna=False)
    labels = split.ngroup().to_numpy()[fine]
    index = split.size().index
    volumes = [_volume(gains[labels == label]) for label in range(len(index))]
    return pd.Series(volumes, index, np.float64, "hypervolume")


def _check(reference: Mapping[str, float], objectives: Sequence[str]) -> None:
    """Check that a reference has a finite value for each objective, and no other."""
    for name in reference:
        if name not in objectives:
            hint = did_you_mean(name, objectives)
            raise InputError(f"the reference has what is no objective; {hint}", field=name)
    for name in objectives:
        if name not in reference:
            raise InputError("the reference must have a value for each objective", field=name)
        if not np.isfinite(reference[name]):
            raise InputError("must be finite", field=name, value=reference[name])


def _worst(losses: np.ndarray) -> np.ndarray:
    """Return the greatest finite loss of each objective; 0 where there is none."""
    finite = np.isfinite(losses)
    worst = np.where(finite, losses, -np.inf).max(axis=0, initial=-np.inf)
    return np.where(np.isfinite(worst), worst, 0.0)


def _volume(gains: np.ndarray) -> float:
    """Return the volume of the boxes between the reference, at 0, and gains (n, objectives)."""
    better = gains[(gains > 0).all(axis=1)]
    return _slices(better[undominated(-better)]) if len(better) else 0.0


def _slices(front: np.ndarray) -> float:
    """Return the volume of a frontier, none of it empty."""
    if front.shape[1] == 1:
        return float(front[0, 0])
    if front.shape[1] == 2:
        # By descending first gain, as `undominated` leaves them: each box is as high as the step
        # that it adds to the ones before.
        return float(front[:, 0] @ np.diff(front[:, 1], prepend=0.0))
    # Between one value of the last objective and the next lower one, all the points from there up
    # overlap in the same way: a slice is their volume in the other objectives, times its depth.
    front = front[np.argsort(-front[:, -1], kind="stable")]
    depths = -np.diff(front[:, -1], append=0.0)
    volume, above = 0.0, front[:0, :-1]
    for point, depth in zip(front[:, :-1], depths, strict=True):
        above = np.vstack([above, point])
        above = above[undominated(-above)]
        if depth > 0:  # else the next point is in the same slice
            volume += depth * _slices(above)
    return float(volume)
