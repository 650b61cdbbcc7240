"""How surely a configuration is on the frontier, when each ran with several seeds.

A frontier of means lists who came out best on the seeds that were drawn, and with hundreds of
configurations some of them owe it to luck. So the seeds are drawn again and again, and it is
counted how often each configuration is on the frontier (a bootstrap: Efron and Tibshirani, An
Introduction to the Bootstrap, 1993). Configurations that ran on the same seed saw the same requests
(common random numbers): each draw is the same seeds for all of them, so that a hard request mix is
nobody's bad luck.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from sweeps.frontier import (
    MAXIMISE,
    MINIMISE,
    By,
    check_objectives,
    columns_of,
    members_of,
    sorted_rows,
    undominated,
    usable,
)
from sweeps.knobs import CONDITIONS, KNOBS, SEED
from vecsched.errors import InputError


class _Question(NamedTuple):
    """What is asked of each group; see `frontier_probability`."""

    identity: list[str]
    maximise: tuple[str, ...]
    minimise: tuple[str, ...]
    draws: int
    seed: int


class _Replicates(NamedTuple):
    """The configurations of one frontier, on every seed.

    Attributes:
        rows: the first row in the frame of each configuration, int64 (n,).
        seeds: how many seeds each has all objectives on, int64 (n,).
        values: the objectives, float64 (seeds, n, objectives); NaN where there is no such run.
    """

    rows: np.ndarray
    seeds: np.ndarray
    values: np.ndarray


def frontier_probability(
    frame: pd.DataFrame,
    maximise: Sequence[str] = MAXIMISE,
    minimise: Sequence[str] = MINIMISE,
    by: By = None,
    *,
    draws: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often each configuration is on the frontier when the seeds are drawn anew.

    In each draw as many seeds as there are are taken with replacement; a configuration's objectives
    are its means over them.

    Args:
        frame: a row a point, as a sweep writes them, with a column `seed`. Points that differ in
            nothing but their seed are one configuration.
        maximise: columns where more is better.
        minimise: columns where less is better.
        by: columns that split the points into groups with a frontier each.
        draws: how many times the seeds are drawn.
        seed: of the draws; the same seed gives the same result.

    Returns:
        A row a configuration, labelled as the first of its rows in `frame` and in their order, by
        ascending group: the columns of `by`, and what identifies it as far as it varies; `seeds`,
        on how many of them it ended well with all objectives finite; the objectives, each its mean
        over the seeds; and `probability`, the share of draws in which no other configuration of its
        group dominated it. One that lacks a seed cannot be compared: its means and probability are
        NaN, and it dominates nobody. So `pareto_front` of this result is the frontier of means,
        with probabilities.

    Raises:
        InputError: a column does not exist, is no number or is named twice; no objective is named;
            the points of a group have fewer than two seeds; one point is there twice.
    """
    objectives = check_objectives(frame, maximise, minimise)
    groups, _ = columns_of(frame, by), columns_of(frame, SEED)
    if draws < 1:
        raise InputError("must be 1 or more", field="draws", value=draws)
    known = [name for name in (*CONDITIONS, *KNOBS) if name in frame and name != SEED]
    identity = list(dict.fromkeys([*groups, *known]))
    parts = [
        _of_group(
            frame.iloc[members], _Question(identity, tuple(maximise), tuple(minimise), draws, seed)
        )
        for members in members_of(frame, groups)
    ]
    shown = [name for name in identity if name in groups or frame[name].nunique(dropna=False) > 1]
    columns = [*dict.fromkeys([*shown, "seeds", *objectives, "probability"])]
    if not parts:
        return frame.iloc[:0].assign(seeds=0, probability=0.0)[columns]
    return pd.concat(parts)[columns]


def _of_group(frame: pd.DataFrame, question: _Question) -> pd.DataFrame:
    """Return all columns of the result for the points of one frontier."""
    objectives = [*question.maximise, *question.minimise]
    found = _replicates(frame, question.identity, objectives)
    complete = found.seeds == len(found.values)
    means = np.full(found.values.shape[1:], np.nan)
    probability = np.full(len(means), np.nan)
    values = found.values[:, complete]
    means[complete] = _mean(values, np.ones(len(values), np.int64))
    signs = [-1.0] * len(question.maximise) + [1.0] * len(question.minimise)
    probability[complete] = _probability(values * signs, question.draws, question.seed)
    first = frame.iloc[found.rows]
    columns = dict(zip(objectives, means.T, strict=True))
    return first.assign(seeds=found.seeds, **columns, probability=probability)


def _replicates(
    frame: pd.DataFrame, identity: Sequence[str], objectives: Sequence[str]
) -> _Replicates:
    """Sort the points of one frontier by configuration and seed."""
    if identity:
        numbers = frame.groupby([*identity], dropna=False, sort=False).ngroup()
    else:
        numbers = pd.Series(0, frame.index)
    labels = numbers.to_numpy(np.int64)
    seeds, known = pd.factorize(frame[SEED], use_na_sentinel=False)
    if len(known) < 2:
        raise InputError(
            "one seed cannot tell luck from merit; more are an axis of a sweep, `seed: [0, 1, 2]`",
            field=SEED,
        )
    twice = pd.DataFrame({"label": labels, "seed": seeds}).duplicated()
    if twice.any():
        row = frame.index[int(twice.to_numpy().argmax())]
        raise InputError(
            f"point {row!r} repeats the configuration and seed of another: no known knob differs",
            field=SEED,
        )
    values = np.full((len(known), labels.max() + 1, len(objectives)), np.nan)
    values[seeds, labels] = frame[[*objectives]].to_numpy(np.float64, na_value=np.nan)
    failed = ~usable(frame, objectives).to_numpy()
    values[seeds[failed], labels[failed]] = np.nan
    ran = np.isfinite(values).all(axis=2)
    return _Replicates(np.unique(labels, return_index=True)[1], ran.sum(axis=0), values)


def _probability(losses: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Return in what share of draws each is on the frontier; losses (seeds, n, objectives)."""
    seeds, n, _ = losses.shape
    if not n:
        return np.zeros(0)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(seeds, [1 / seeds] * seeds, size=draws)
    hits = np.zeros(n, np.int64)
    for weights in counts:
        hits += _on_frontier(_mean(losses, weights))
    return hits / draws


def _mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the mean over seeds, the first axis, weighted by whole numbers.

    The sum is taken in one order for all: equal rows stay equal to the last bit, which a matrix
    product does not promise.
    """
    total = np.zeros(values.shape[1:])
    for seed in np.flatnonzero(weights):
        total += weights[seed] * values[seed]
    return total / weights.sum()


def _on_frontier(losses: np.ndarray) -> np.ndarray:
    """Tell which rows none dominates; unlike `undominated`, all of those that are equal."""
    order = sorted_rows(losses)
    differs = (losses[order[1:]] != losses[order[:-1]]).any(axis=1)
    distinct = np.empty(len(losses), np.int64)
    distinct[order] = np.r_[0, np.cumsum(differs)]
    best = np.zeros(len(losses), np.bool_)
    best[distinct[undominated(losses)]] = True
    return best[distinct]
