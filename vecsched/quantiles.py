"""Exact quantiles and ratios: NumPy's `linear` method on order statistics from the kernels."""

import math
from typing import NamedTuple, Self

import numpy as np

from vecsched.kernels.selection import BUCKETS, select, sort


class SelectionScratch(NamedTuple):
    """Work arrays that one run's selections share."""

    keys: np.ndarray
    histogram: np.ndarray

    @classmethod
    def for_size(cls, size: int) -> Self:
        """Allocate for at most `size` values."""
        return cls(np.empty(size, np.int64), np.empty(BUCKETS, np.int64))


def quotient(numerator: float, denominator: float) -> float:
    """Divide, or NaN where there is nothing to divide by."""
    return numerator / denominator if denominator else math.nan


def between(lower: float, upper: float, share: float) -> float:
    """Interpolate like NumPy's quantiles: from the nearer end, so that both ends are exact."""
    if share >= 0.5:
        return upper - (upper - lower) * (1 - share)
    return lower + (upper - lower) * share


def quantile_ranks(count: int, quantiles: list[float]) -> np.ndarray:
    """Return the two ranks that each quantile lies between: int64 (2 * k,), ascending."""
    below = [math.floor(q * (count - 1)) for q in quantiles]
    return np.array([min(rank + i, count - 1) for rank in below for i in (0, 1)], np.int64)


def interpolate(chosen: np.ndarray, count: int, quantiles: list[float]) -> list[float]:
    """Turn the order statistics at `quantile_ranks` into quantiles."""
    values = chosen.tolist()
    return [
        between(values[2 * i], values[2 * i + 1], math.modf(q * (count - 1))[0])
        for i, q in enumerate(quantiles)
    ]


def quantiles_of(
    values: np.ndarray, quantiles: list[float], scratch: "SelectionScratch"
) -> list[float]:
    """Exact quantiles of float64 values >= 0, NaN if there are none."""
    if len(values) == 0:
        return [math.nan] * len(quantiles)
    ranks = quantile_ranks(len(values), quantiles)
    chosen = np.empty(len(ranks), np.int64)
    select(values.view(np.int64), ranks, scratch.keys, scratch.histogram, chosen)
    return interpolate(chosen.view(np.float64), len(values), quantiles)


def ascending(values: np.ndarray, scratch: SelectionScratch) -> np.ndarray:
    """Float64 values >= 0 in ascending order, in the scratch's memory."""
    if len(values) == 0:
        return values
    keys = scratch.keys[: len(values)]
    sort(values.view(np.int64), keys, scratch.histogram)
    return keys.view(np.float64)
