"""A complete grid of attention times out of scattered measurements, wild points put right."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from vecsched.mixed_attention import AXES, MixedAttention

# A point this much off what its neighbours say (a factor, either way) is taken for a mishap of the
# measurement. Steps of a kernel between two sizes are smaller than that.
WILD = 2.0


def complete_grid(rows: pd.DataFrame) -> tuple[MixedAttention | None, int]:
    """Find the grid that measurements fill completely.

    Of several, the one that spans most of what was measured, then the largest. Without any decode
    there is no decode context: such rows become the grid's points at 0 decodes if there is one for
    each chunk and context.

    Args:
        rows: one a point, without duplicates: `chunk` >= 1, `prefill_context`, `decodes`,
            `decode_context` and `attention_s`.

    Returns:
        The grid and how many of its points were put right, or None and 0 if no grid of at least two
        points an axis is complete.
    """
    alone = rows["decodes"] == 0
    grid = _best_complete(rows[~alone])
    if grid is None:
        return None, 0
    axes, seconds = grid
    empty = rows[alone].set_index(list(AXES[:2]))["attention_s"]
    wanted = pd.MultiIndex.from_product(axes[:2], names=AXES[:2])
    if wanted.isin(empty.index).all():
        plane = empty.reindex(wanted).to_numpy().reshape(seconds.shape[:2])
        without = np.broadcast_to(plane[:, :, None, None], (*plane.shape, 1, seconds.shape[3]))
        seconds = np.concatenate([without, seconds], axis=2)
        axes[2] = np.concatenate([[0], axes[2]])
    seconds, repaired = _put_right(axes, seconds)
    named = {name: axis.tolist() for name, axis in zip(AXES, axes, strict=True)}
    # To a nanosecond, one of a hundred thousand parts of a time: short files.
    return MixedAttention(**named, seconds=np.round(seconds, 9)), repaired


def planes(grid: MixedAttention) -> list[tuple[MixedAttention, pd.DataFrame]]:
    """Leave out one inner plane of a grid at a time.

    Returns:
        For each inner point of each axis, the grid without its plane and the plane's points, as
        rows like those of `complete_grid`: how well the grid does between its points.
    """
    axes = [np.array(getattr(grid, name)) for name in AXES]
    left_out = []
    for number, axis in enumerate(axes):
        for place in range(1, len(axis) - 1):
            fewer = [*axes[:number], np.delete(axis, place), *axes[number + 1 :]]
            named = {name: values.tolist() for name, values in zip(AXES, fewer, strict=True)}
            thinner = MixedAttention(**named, seconds=np.delete(grid.seconds, place, number))
            plane = [*axes[:number], axis[place : place + 1], *axes[number + 1 :]]
            points = pd.DataFrame(list(product(*plane)), columns=list(AXES))
            points["attention_s"] = np.take(grid.seconds, [place], number).ravel()
            left_out.append((thinner, points))
    return left_out


def _best_complete(rows: pd.DataFrame) -> tuple[list[np.ndarray], np.ndarray] | None:
    """Return the axes and times of the widest complete grid, the largest of equally wide ones.

    A table may hold several grids laid over each other. Each chunk size proposes the grid of its
    own points; all chunk sizes that fill it belong to it.
    """
    ends = {name: {rows[name].min(), rows[name].max()} for name in AXES}
    best, best_score = None, (-1, 0)
    for _, points in rows.groupby("chunk"):
        own = _complete(points)
        inner = [np.unique(own[name]) for name in AXES[1:]]
        inside = _within(rows, AXES[1:], inner)
        filled = inside["chunk"].value_counts() == np.prod([len(axis) for axis in inner])
        axes = [np.sort(filled.index[filled].to_numpy()), *inner]
        score = (
            sum(len(ends[name].intersection(axis)) for name, axis in zip(AXES, axes, strict=True)),
            int(np.prod([len(axis) for axis in axes])),
        )
        if min(map(len, axes)) >= 2 and score > best_score:
            best, best_score = axes, score
    if best is None:
        return None
    seconds = _within(rows, AXES, best).sort_values(list(AXES))["attention_s"].to_numpy(np.float64)
    return best, seconds.reshape([len(axis) for axis in best])


def _within(rows: pd.DataFrame, names: Sequence[str], axes: Sequence[np.ndarray]) -> pd.DataFrame:
    """Return the rows whose values are all on the axes."""
    on = [rows[name].isin(axis) for name, axis in zip(names, axes, strict=True)]
    return rows[np.logical_and.reduce(on)]


def _complete(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out the value of an axis with the fewest points until the rest lacks none."""
    while True:
        axes = [np.unique(rows[name], return_counts=True) for name in AXES[1:]]
        if len(rows) == np.prod([len(axis) for axis, _ in axes]):
            return rows
        # A value's share of the points that it should have; of equals the largest value goes.
        shares = [
            (points * len(axis), -n, name)
            for name, (axis, counts) in zip(AXES[1:], axes, strict=True)
            for n, points in zip(axis.tolist(), counts.tolist(), strict=True)
        ]
        _, worst, name = min(shares)
        rows = rows[rows[name] != -worst]


def _put_right(axes: list[np.ndarray], seconds: np.ndarray) -> tuple[np.ndarray, int]:
    """Replace points that are far off the mean of their neighbours on every axis that has two."""
    guesses = np.full((len(axes), *seconds.shape), np.nan)
    for number, axis in enumerate(axes):
        if len(axis) < 3:
            continue
        values = np.moveaxis(seconds, number, 0)
        share = (axis[1:-1] - axis[:-2]) / (axis[2:] - axis[:-2])
        share = share.reshape(-1, *[1] * (values.ndim - 1))
        between = values[:-2] + share * (values[2:] - values[:-2])
        np.moveaxis(guesses[number], number, 0)[1:-1] = between
    known = np.isfinite(guesses).any(axis=0)
    low = np.where(known, np.nanmin(np.where(known, guesses, 0.0), axis=0), seconds)
    high = np.where(known, np.nanmax(np.where(known, guesses, 0.0), axis=0), seconds)
    wild = (seconds > WILD * high) | (WILD * seconds < low)
    middle = np.nanmedian(np.where(known, guesses, 0.0), axis=0)
    return np.where(wild, middle, seconds), int(wild.sum())
