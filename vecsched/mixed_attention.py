"""MixedAttention: measured attention times of iterations with a prefill, on a grid of four axes.

Attention of prefill chunks and decodes in one call costs neither the sum nor the maximum of the two
apart, so a measured grid beats any formula. Between its points the time is multilinear: the sum
over the sixteen corners of the cell, each weighted by the product of its shares along the axes.
Below the first point of an axis the first point holds; beyond the last one the last cell goes on,
and a time never falls below 0.

Arithmetic is float64 in a fixed order and is rounded to a picosecond once, at the end, so the same
grid gives the same bits on every machine. `vecsched.kernels.duration` has the compiled twin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple, Self

import numpy as np

from vecsched.clock import HORIZON_S, PS_PER_S
from vecsched.errors import CostError, did_you_mean

AXES = ("chunk", "prefill_context", "decodes", "decode_context")


class AttentionGrid(NamedTuple):
    """What the kernels read: the axes, each float64 and ascending, and the times of all points."""

    chunk: np.ndarray
    prefill_context: np.ndarray
    decodes: np.ndarray
    decode_context: np.ndarray
    ps: np.ndarray


NO_GRID = AttentionGrid._make([*(np.empty(0) for _ in AXES), np.empty((0, 0, 0, 0))])


@dataclass(frozen=True, kw_only=True, eq=False)
class MixedAttention:
    """Seconds of attention, all layers together, by what an iteration with a prefill holds.

    Attributes:
        chunk: prefill tokens; at least two points on each axis, whole, >= 0 and ascending.
        prefill_context: KV tokens before the chunk.
        decodes: decodes beside it; with 0 of them the point of `decode_context` does not matter.
        decode_context: KV tokens that each of the decodes reads, on average.
        seconds: float64, one axis after another: (chunk, prefill_context, decodes, decode_context).

    Raises:
        CostError: an axis or a time cannot be used, or the grid is not complete.
    """

    chunk: Sequence[int]
    prefill_context: Sequence[int]
    decodes: Sequence[int]
    decode_context: Sequence[int]
    seconds: np.ndarray

    def __post_init__(self) -> None:
        for name in AXES:
            object.__setattr__(self, name, _checked_axis(name, getattr(self, name)))
        shape = tuple(len(getattr(self, name)) for name in AXES)
        object.__setattr__(self, "seconds", _checked_times(self.seconds, shape))

    @classmethod
    def from_mapping(cls, values: Any, where: str) -> Self:
        """Build from a file's mapping; `where` names the place in errors."""
        known = [*AXES, "seconds"]
        if not isinstance(values, Mapping):
            raise CostError(f"{where} must be a mapping of {', '.join(known)}, not {values!r}")
        for name in values:
            if name not in known:
                raise CostError(f"{where}: unknown field {name!r}; {did_you_mean(name, known)}")
        for name in known:
            if name not in values:
                raise CostError(f"{where} lacks {name!r}")
        try:
            return cls(**values)
        except CostError as error:
            raise CostError(f"{where}.{error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the grid as plain values, ready for JSON."""
        axes = {name: list(getattr(self, name)) for name in AXES}
        return {**axes, "seconds": self.seconds.tolist()}

    def grid(self) -> AttentionGrid:
        """Return the grid as the kernels read it."""
        axes = (np.array(getattr(self, name), np.float64) for name in AXES)
        return AttentionGrid._make([*axes, np.rint(self.seconds * PS_PER_S)])

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        return *(getattr(self, name) for name in AXES), self.seconds.tobytes()

    @cached_property
    def _hash(self) -> int:
        # Once: a cost model is looked up by it at every run.
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MixedAttention) and self._identity == other._identity

    def __hash__(self) -> int:
        return self._hash


def interpolate_ps(grid: AttentionGrid, at: Sequence[np.ndarray]) -> np.ndarray:
    """Return attention times between the points of a grid.

    Args:
        grid: not empty.
        at: an array (n,) for each axis.

    Returns:
        Whole picoseconds, float64 (n,).
    """
    places, shares = zip(*map(_bracket, grid[:-1], at), strict=True)
    total = np.zeros(len(at[0]))
    for corner in product((0, 1), repeat=len(AXES)):
        weight = np.ones(len(total))
        for side, share in zip(corner, shares, strict=True):
            weight *= share if side else 1.0 - share
        total += weight * grid.ps[tuple(np.add(places, np.reshape(corner, (-1, 1))))]
    return np.rint(np.maximum(total, 0.0))


def longest_ps(grid: AttentionGrid, most: Sequence[int]) -> int:
    """Return the longest attention of any iteration, given the largest value on each axis."""
    if grid.ps.size == 0:
        return 0
    # A multilinear function is largest at a corner of a cell; the outermost cells end at `most`.
    ps = grid.ps
    for axis, (points, last) in enumerate(zip(grid[:-1], most, strict=True)):
        share = (last - points[-2]) / (points[-1] - points[-2])
        if share > 1:
            low, high = ps.take(-2, axis), ps.take(-1, axis)
            outermost = np.expand_dims(low + share * (high - low), axis)
            ps = np.concatenate([ps, outermost], axis)
    return int(ps.max())


def _bracket(axis: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the point below x (the last but one at most) and x's share of the way to the next."""
    place = np.clip(np.searchsorted(axis, x, side="right") - 1, 0, len(axis) - 2)
    return place, np.maximum((x - axis[place]) / (axis[place + 1] - axis[place]), 0.0)


def _checked_axis(name: str, values: Any) -> tuple[int, ...]:
    points = np.asarray(values, np.float64) if _are_numbers(values, 1) else np.empty(0)
    if len(points) < 2 or points[0] < 0 or (points % 1).any():
        raise CostError(f"{name} must be at least two whole numbers >= 0, not {values!r}")
    for before, after in pairwise(points.tolist()):
        if after <= before:
            raise CostError(f"{name} must ascend, but {before:g} is followed by {after:g}")
    return tuple(int(n) for n in points)


def _checked_times(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    if not _are_numbers(values, len(shape)) or np.shape(values) != shape:
        raise CostError(
            f"seconds must be numbers nested as {' x '.join(map(str, shape))} of {', '.join(AXES)}"
        )
    seconds = np.array(values, np.float64)
    bad = ~((seconds >= 0) & (seconds < HORIZON_S))
    if bad.any():
        place = tuple(map(int, np.argwhere(bad)[0]))
        raise CostError(f"seconds{list(place)} must be seconds >= 0, not {seconds[place]!r}")
    return seconds


def _are_numbers(values: Any, dimensions: int) -> bool:
    """Tell whether nested sequences are a full array of numbers."""
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        return False
    return array.ndim == dimensions and array.dtype.kind in "iuf"
