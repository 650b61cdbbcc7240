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


def quantile_ranks(count: int, quantiles: list[float]) -> list[int]:
    """Return the ranks that quantiles of `count` values lie between, ascending, each once."""
    below = {math.floor(q * (count - 1)) for q in quantiles}
    return sorted(below | {min(rank + 1, count - 1) for rank in below})


def interpolate(
    ranks: list[int], values: np.ndarray, count: int, quantiles: list[float]
) -> list[float]:
    """Turn the order statistics at `quantile_ranks` into quantiles."""
    at_rank = dict(zip(ranks, values.tolist(), strict=True))
    found = []
    for q in quantiles:
        share, below = math.modf(q * (count - 1))
        lower = at_rank[int(below)]
        found.append(between(lower, at_rank[min(int(below) + 1, count - 1)], share))
    return found


def quantiles_of(
    values: np.ndarray, quantiles: list[float], scratch: "SelectionScratch"
) -> list[float]:
    """Exact quantiles of float64 values >= 0, NaN if there are none."""
    if len(values) == 0:
        return [math.nan] * len(quantiles)
    ranks = quantile_ranks(len(values), quantiles)
    chosen = np.array(ranks, np.int64)
    select(values.view(np.int64), chosen, scratch.keys, scratch.histogram)
    return interpolate(ranks, chosen.view(np.float64), len(values), quantiles)


def ascending(values: np.ndarray, scratch: SelectionScratch) -> np.ndarray:
    """Float64 values >= 0 in ascending order, in the scratch's memory."""
    if len(values) == 0:
        return values
    keys = scratch.keys[: len(values)]
    sort(values.view(np.int64), keys, scratch.histogram)
    return keys.view(np.float64)
