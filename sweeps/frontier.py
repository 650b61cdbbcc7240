"""The frontier of a sweep: the points that no other point dominates. Pandas in, pandas out.

A point *dominates* another if it is at least as good on every objective and better on one. Two
warnings from measurement shape the defaults. Below saturation every setting that keeps up has the
same throughput, for arrivals set it: compare at equal load (`by="load"`). And an index of equality
alone rewards equal misery: so fairness is the worst-served (`slowdown_p99`), and points that few
requests would call served are marked.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from sweeps.objectives import MAXIMISE, MINIMISE
from vecsched.errors import InputError, did_you_mean

POOR_SLO_ATTAINMENT = 0.9

# Values of the `mark` column.
POOR_SLO = "poor slo"
UNKNOWN_SLO = "unknown slo"

By = str | Sequence[str] | None


def pareto_front(
    frame: pd.DataFrame,
    maximise: Sequence[str] = MAXIMISE,
    minimise: Sequence[str] = MINIMISE,
    by: By = None,
) -> pd.DataFrame:
    """Return the rows that no other row dominates, ordered by group and first objective.

    O(n log n) for two objectives; for more, O(n) for each point of the frontier. Rows that did not
    end well, or lack an objective, take no part: see `left_out`.

    Args:
        frame: one row a point; index values are kept.
        maximise: columns where more is better.
        minimise: columns where less is better.
        by: columns that split the points into groups with a frontier each.

    Returns:
        The frontier's rows with all their columns, and two more: `twins`, the number of other rows
        with the very same objectives, of which only the first in the frame is listed; and `mark`,
        see `slo_mark`.

    Raises:
        InputError: a column does not exist, is no number or is named twice; or none is named.
    """
    objectives = check_objectives(frame, maximise, minimise)
    groups = columns_of(frame, by)
    points = frame[usable(frame, objectives)]
    losses = losses_of(points, maximise, minimise)
    rows = [members[undominated(losses[members])] for members in members_of(points, groups)]
    same = points.groupby([*groups, *objectives], dropna=False)[objectives[0]]
    front = points.assign(twins=same.transform("size") - 1, mark=slo_mark(points))
    return front.iloc[np.concatenate(rows)] if rows else front


def dominated_by(
    frame: pd.DataFrame,
    maximise: Sequence[str] = MAXIMISE,
    minimise: Sequence[str] = MINIMISE,
    by: By = None,
) -> pd.Series:
    """Return how many rows dominate each row, within its group; NA for rows that take no part.

    Fast for two objectives; for more, O(n^2). Arguments and errors are those of `pareto_front`.
    """
    objectives = check_objectives(frame, maximise, minimise)
    fine = usable(frame, objectives)
    points = frame[fine]
    losses = losses_of(points, maximise, minimise)
    counts = np.zeros(len(points), np.int64)
    for members in members_of(points, columns_of(frame, by)):
        counts[members] = _dominators(losses[members])
    result = pd.Series(pd.NA, index=frame.index, dtype="Int64", name="dominated_by")
    result[fine] = counts
    return result


def left_out(frame: pd.DataFrame, objectives: Sequence[str]) -> dict[str, int]:
    """Count the rows that take no part, by status; "undefined" where an objective is NaN."""
    failed = _failed(frame)
    undefined = frame[list(objectives)].isna().any(axis=1) & ~failed
    reasons = [str(status) for status in frame["status"][failed]] if failed.any() else []
    return dict(Counter([*reasons, *["undefined"] * int(undefined.sum())]))


def slo_mark(frame: pd.DataFrame, least: float = POOR_SLO_ATTAINMENT) -> pd.Series:
    """Mark rows where too few of the submitted requests met the objectives.

    Returns:
        `POOR_SLO` where `slo_attainment` is below `least`, `UNKNOWN_SLO` where the frame does not
        tell, "" elsewhere.
    """
    if "slo_attainment" not in frame:
        return pd.Series(UNKNOWN_SLO, index=frame.index, name="mark")
    share = frame["slo_attainment"]
    marks = np.select([share.isna(), share < least], [UNKNOWN_SLO, POOR_SLO], "")
    return pd.Series(marks, index=frame.index, name="mark")


def check_objectives(
    frame: pd.DataFrame, maximise: Sequence[str], minimise: Sequence[str]
) -> list[str]:
    """Return all objectives in order, the maximised first.

    Raises:
        InputError: a column does not exist, is no number or is named twice; or none is named.
    """
    objectives = [*maximise, *minimise]
    if not objectives:
        raise InputError("a frontier needs at least one objective to maximise or minimise")
    for name in columns_of(frame, objectives):
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise InputError("an objective must be a column of numbers", field=name)
        if objectives.count(name) > 1:
            raise InputError("named twice among the objectives", field=name)
    return objectives


def columns_of(frame: pd.DataFrame, names: By) -> list[str]:
    """Return `names` as a list of columns that exist.

    Raises:
        InputError: one does not.
    """
    columns = [names] if isinstance(names, str) else list(names or ())
    for name in columns:
        if name not in frame:
            raise InputError(f"no such column; {did_you_mean(name, frame.columns)}", field=name)
    return columns


def _failed(frame: pd.DataFrame) -> pd.Series:
    if "status" not in frame:
        return pd.Series(False, index=frame.index)
    return frame["status"] != "ok"


def usable(frame: pd.DataFrame, objectives: Sequence[str]) -> pd.Series:
    """Tell which rows take part: they ended well and have all objectives."""
    return frame[[*objectives]].notna().all(axis=1) & ~_failed(frame)


def losses_of(points: pd.DataFrame, maximise: Sequence[str], minimise: Sequence[str]) -> np.ndarray:
    """Return the objectives as float64 (n, objectives), where less is always better."""
    gains = points[list(maximise)].to_numpy(np.float64)
    return np.hstack([-gains, points[list(minimise)].to_numpy(np.float64)])


def unit_losses(
    front: pd.DataFrame, maximise: Sequence[str], minimise: Sequence[str]
) -> np.ndarray:
    """Return the objectives as float64 (n, objectives), from 0, the best of `front`, to 1.

    What is infinite stays so, and does not stretch the scale; without any spread all are 0.
    """
    losses = losses_of(front, maximise, minimise)
    finite = np.where(np.isfinite(losses), losses, np.nan)
    if not len(losses) or np.isnan(finite).all(axis=0).any():
        return np.where(np.isnan(finite), losses, 0.0)
    best = np.nanmin(finite, axis=0)
    spread = np.nanmax(finite, axis=0) - best
    return (losses - best) / np.where(spread > 0, spread, 1.0)


def members_of(points: pd.DataFrame, groups: list[str]) -> list[np.ndarray]:
    """Return the positions of each group's rows, groups in ascending order; no group is empty."""
    if points.empty:
        return []
    if not groups:
        return [np.arange(len(points))]
    labels = points.groupby(groups, dropna=False).ngroup().to_numpy()
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def undominated(losses: np.ndarray) -> np.ndarray:
    """Return the rows of the frontier, by ascending first loss; of equal rows the first."""
    order = sorted_rows(losses)
    if losses.shape[1] == 2:
        second = losses[order, 1]
        return order[np.r_[True, second[1:] < np.minimum.accumulate(second)[:-1]]]
    front = []
    while len(order):
        # Nothing sorted behind a point can dominate it, so the first that is left is undominated.
        # It dominates, or equals, exactly those that are better than it nowhere.
        front.append(order[0])
        order = order[(losses[order] < losses[order[0]]).any(axis=1)]
    return np.array(front, np.int64)


def _dominators(losses: np.ndarray) -> np.ndarray:
    """Return for each row the number of rows that dominate it."""
    if losses.shape[1] != 2:
        as_good = [(losses <= row).all(axis=1) & (losses < row).any(axis=1) for row in losses]
        return np.array([mask.sum() for mask in as_good], np.int64)
    counts = np.zeros(len(losses), np.int64)
    seen: list[float] = []  # second losses of the rows so far, ascending
    previous = None
    for row in sorted_rows(losses):
        # Whoever dominates is sorted in front, with a second loss no greater. Equal rows stand
        # together and do not dominate each other: they share the count of the first of them.
        position = bisect_right(seen, losses[row, 1])
        twin = previous is not None and (losses[row] == losses[previous]).all()
        counts[row] = counts[previous] if twin else position
        seen.insert(position, losses[row, 1])
        previous = row
    return counts


def sorted_rows(losses: np.ndarray) -> np.ndarray:
    """Return row numbers by first loss, then second, and so on; equal rows in their order."""
    return np.lexsort(losses.T[::-1])
