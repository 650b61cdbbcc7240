"""The one solver: least absolute relative error, no negative coefficient, piecewise-linear tables.

Least absolute deviations passes through the bulk of the points and leaves a few wild ones where
they are; it also minimises just the figure that is reported, the mean relative error.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import isotonic_regression, linprog

from vecsched.cost import Points
from vecsched.errors import CostError

# One hinge for five rows, so that no row has a hinge of its own to follow.
ROWS_PER_HINGE = 5
MOST_HINGES = 48
TABLE_TOLERANCE = 0.01
FOLDS = 5
GOLDEN_RATIO = (5**0.5 - 1) / 2


def fit(design: np.ndarray, seconds: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
    """Return coefficients c >= 0 that minimise the mean of |design @ c - seconds| / scale.

    Args:
        design: float64 (rows, terms), no entry negative.
        seconds: float64 (rows,), what the terms add up to.
        scale: float64 (rows,), what an error is relative to; `seconds` if None.

    Raises:
        CostError: the linear program has no solution (an entry is not finite).
    """
    scale = seconds if scale is None else scale
    relative, goal = design / scale[:, None], seconds / scale
    size = relative.max(axis=0)
    used = size > 0
    relative = relative[:, used] / size[used]
    # min sum |relative @ c - goal| over c >= 0 is dual to max goal @ y over |y| <= 1 with
    # relative.T @ y <= 0: a handful of constraints, whose multipliers are the coefficients.
    dual = linprog(
        -goal, A_ub=relative.T, b_ub=np.zeros(used.sum()), bounds=(-1, 1), method="highs"
    )
    if dual.status != 0:
        raise CostError(f"the fit has no solution: {dual.message}")
    coefficients = np.zeros(len(used))
    coefficients[used] = np.maximum(-dual.ineqlin.marginals, 0.0) / size[used]
    return coefficients


def hinges(counts: np.ndarray) -> list[int]:
    """Choose where a free-form table may bend: evenly spaced quantiles of the rows' counts.

    Args:
        counts: int64 (rows,), the number of tokens (or requests) of each row.

    Returns:
        Ascending counts between the smallest and the largest: one for every five rows, at most 48,
        fewer where rows share a count.
    """
    wanted = min(MOST_HINGES, len(counts) // ROWS_PER_HINGE)
    levels = np.arange(1, wanted + 1) / (wanted + 1)
    chosen = np.unique(np.quantile(counts, levels, method="inverted_cdf"))
    return [int(n) for n in chosen if counts.min() < n < counts.max()]


def segments(counts: np.ndarray, bends: Sequence[int]) -> np.ndarray:
    """Return what part of each count lies between two bends: (rows, len(bends) + 1).

    A coefficient of such a column is the table's slope there; slopes >= 0 make it rise.
    """
    edges = [0, *bends, np.inf]
    return np.column_stack([np.clip(counts - low, 0, high - low) for low, high in pairwise(edges)])


def table(slopes: np.ndarray, bends: Sequence[int], last: int) -> Points:
    """Return the points (n, seconds) of a table with these slopes: 0, the bends, the last count."""
    at = [0, *bends, last]
    return to_points(at, segments(np.array(at), bends) @ slopes)


def flat(value: float) -> Points:
    """Return the table that is `value` everywhere, at 0 too."""
    return to_points([0, 1], [value, value])


def rising(
    at: np.ndarray, seconds: np.ndarray, scale: np.ndarray, tolerance: float = TABLE_TOLERANCE
) -> Points:
    """Return a table through measured times that never falls, without points it can spare.

    Where more takes less time (a measurement's noise, or a kernel that suits the larger size), the
    sizes share their mean: isotonic regression, weighted for relative errors. Then, starting from
    the ends, the worst-met point is taken in until interpolation meets all within the tolerance.

    Args:
        at: int64 (sizes,), ascending.
        seconds: float64 (sizes,), measured.
        scale: float64 (sizes,), what the tolerance refers to.
        tolerance: share of `scale`.
    """
    level = isotonic_regression(seconds, weights=seconds**-2.0).x
    kept = [0, len(at) - 1]
    while True:
        miss = np.abs(np.interp(at, at[kept], level[kept]) - level) / scale
        if miss.max() <= tolerance:
            return to_points(at[kept], level[kept])
        kept = sorted([*kept, int(miss.argmax())])


def extended(at: np.ndarray, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add a point at twice the largest size: the slope of the upper half goes on.

    A table goes on with the slope of its last piece, which may be a step of the kernels.
    """
    last, half = at[-1], np.interp(at[-1] / 2, at, seconds)
    beyond = seconds[-1] + 2 * max(seconds[-1] - half, 0.0)
    return np.append(at, 2 * last), np.append(seconds, beyond)


def to_points(at: Iterable[int], seconds: Iterable[float]) -> Points:
    """Pair counts with seconds, rounded as `to_clock` does."""
    return tuple((int(n), to_clock(s)) for n, s in zip(at, seconds, strict=True))


def to_clock(seconds: float) -> float:
    """Round to a picosecond, which the engine's clock does anyway: short files, equal results."""
    return round(float(seconds), 12)


def folds(rows: int) -> np.ndarray:
    """Deal rows to five folds, int64 (rows,), in the same way on every machine.

    Steps of the golden ratio spread over a regular grid in every direction, where every fifth row
    would hit the same column of the grid each time.
    """
    return (np.arange(rows) * GOLDEN_RATIO % 1 * FOLDS).astype(np.int64)
