"""Replicated points: means over seeds with bootstrap intervals, and differences on equal seeds.

Two configurations that ran on the same seed saw the same requests. What one request mix does to
both of them cancels out of their difference, so compare pairs, seed by seed: their interval is
narrower than the two means' intervals suggest, often by ten times.

The intervals are percentile bootstraps of the mean (Efron and Tibshirani, An Introduction to the
Bootstrap, 1993, section 13.3) from one fixed set of resamples: equal input gives equal output. With
fewer than about ten seeds they are somewhat too narrow; with one there is none.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from sweeps.frontier import check_objectives
from sweeps.knobs import CONDITIONS, KNOBS, SEED
from vecsched.errors import InputError, did_you_mean

LEVEL = 0.95

_RESAMPLES = 2000
_SEED = 0
# What a replicated point is, beside its seed.
_IDENTITY = [name for name in (*CONDITIONS, *KNOBS) if name != SEED]


def aggregate(points: pd.DataFrame, metrics: Sequence[str], level: float = LEVEL) -> pd.DataFrame:
    """Aggregate points that differ in nothing but their seed.

    Args:
        points: a row a point, as a sweep writes them.
        metrics: columns of numbers.
        level: of the intervals.

    Returns:
        A row a configuration, trace, cost model and load, in the order of the first points: what
        identifies it; `seeds`, how many points have all metrics and no error; `failed`, how many do
        not; and for each metric its mean, `_low` and `_high`, NaN where there are too few.

    Raises:
        InputError: a column does not exist or is no number.
    """
    check_objectives(points, metrics, ())
    usable = _usable(points, metrics)
    rows = []
    for identity, group in _groups(points, [*_identity_of(points)]):
        good = group[usable[group.index]]
        row = {**identity, "seeds": len(good), "failed": len(group) - len(good)}
        for name, estimate in zip(metrics, _estimates(good[[*metrics]], level), strict=True):
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), estimate, strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def paired_differences(
    points: pd.DataFrame,
    metrics: Sequence[str],
    baseline: Mapping[str, Any],
    level: float = LEVEL,
) -> pd.DataFrame:
    """Compare configurations with a baseline, seed by seed.

    Args:
        points: a row a point, as a sweep writes them.
        metrics: columns of numbers.
        baseline: a value for each column in which configurations are compared, such as
            `{"policy": "fcfs"}`; points are paired with the one that has these values and is
            otherwise the same, seed included.
        level: of the intervals.

    Returns:
        Like `aggregate`, without the baseline's own rows; for each metric the mean of point -
        baseline, `_low` and `_high`. `seeds` counts pairs.

    Raises:
        InputError: a column does not exist or is no number, or no point has these values.
    """
    check_objectives(points, metrics, ())
    identity = _identity_of(points)
    for name in baseline:
        if name not in identity:
            raise InputError(f"is no part of a point; {did_you_mean(name, identity)}", field=name)
    matches = [points[name] == value for name, value in baseline.items()]
    chosen = pd.concat(matches, axis=1).all(axis=1)
    if not chosen.any():
        raise InputError("no point has these values", field="baseline", value=dict(baseline))
    on = [name for name in [*identity, "seed"] if name not in baseline]
    good = points[_usable(points, metrics)]
    theirs = good[chosen[good.index]]
    pairs = points[~chosen].merge(
        theirs[[*on, *metrics]], on=on, how="left", suffixes=("", "_baseline")
    )
    for name in metrics:
        pairs[name] = pairs[name] - pairs.pop(f"{name}_baseline")
    return aggregate(pairs, metrics, level)


def varying(rows: pd.DataFrame) -> list[str]:
    """Return the columns by which the points differ: what a reader wants to see of them."""
    return [name for name in _identity_of(rows) if rows[name].nunique(dropna=False) > 1]


def _identity_of(points: pd.DataFrame) -> list[str]:
    return [name for name in _IDENTITY if name in points]


def _usable(points: pd.DataFrame, metrics: Sequence[str]) -> pd.Series:
    fine = points["status"] == "ok" if "status" in points else True
    return points[[*metrics]].notna().all(axis=1) & fine


def _groups(
    points: pd.DataFrame, identity: list[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    for values, group in points.groupby(identity, dropna=False, sort=False):
        yield dict(zip(identity, values, strict=True)), group


def _estimates(values: pd.DataFrame, level: float) -> np.ndarray:
    """Return mean, low and high of each column: float64 (columns, 3)."""
    seeds = len(values)
    columns = values.to_numpy(np.float64).T
    if seeds < 2:
        mean = columns[:, 0] if seeds else np.full(len(columns), np.nan)
        return np.column_stack([mean, np.full((len(columns), 2), np.nan)])
    means = columns @ _weights(seeds)
    bounds = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return np.column_stack([columns.mean(axis=1), bounds.T])


@cache
def _weights(seeds: int) -> np.ndarray:
    """Return how much each seed counts in each resample's mean: float64 (seeds, resamples)."""
    rng = np.random.default_rng(_SEED)
    return rng.multinomial(seeds, [1 / seeds] * seeds, size=_RESAMPLES).T / seeds
