"""Designs: which combinations of the axes' values a sweep tries.

`grid` is every combination, `zip` takes the first value of every axis, then the second, and so on.
The others draw points: `random` independently, `latin_hypercube` so that each of the n equal slices
of every axis holds one of the n points, `sobol` from Owen-scrambled Sobol numbers, which also fill
pairs of axes evenly (best at a power of two). For those that search, see `sweeps.search`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sweeps.axes import Axis
from sweeps.schema import problem
from sweeps.sections import DesignSection

Values = dict[str, Any]


def rows_of(
    design: DesignSection, axes: Mapping[str, Axis], settings: Mapping[str, Any]
) -> Iterator[Values]:
    """Yield the values of the axes, one combination after another; an axis may be absent.

    Args:
        design: which combinations.
        axes: by field, in order; continua only if the design samples.
        settings: what conditions may speak of, beside the axes themselves.

    Raises:
        ExpressionError: a condition cannot be told.
    """
    conditions = {field: axis.condition for field, axis in axes.items()}

    def exists(field: str, so_far: Mapping[str, Any]) -> bool:
        condition = conditions[field]
        return condition is None or condition({**settings, **so_far})

    def product(fields: list[str], so_far: Values) -> Iterator[Values]:
        if not fields:
            yield so_far
        elif not exists(fields[0], so_far):
            yield from product(fields[1:], so_far)
        else:
            for value in axes[fields[0]].listed or ():
                yield from product(fields[1:], so_far | {fields[0]: value})

    if design.method == "grid":
        yield from product(list(axes), {})
        return
    for candidates in _aligned(design, axes):
        row: Values = {}
        for field, value in candidates.items():
            if exists(field, row):
                row[field] = value
        yield row


def check_design(design: DesignSection, axes: Mapping[str, Axis]) -> None:
    """Check that a design can be made of some axes.

    Raises:
        PydanticCustomError: naming the axis.
    """
    lengths = {field: len(axis.listed) for field, axis in axes.items() if axis.listed is not None}
    for field in axes:
        if field not in lengths and not design.samples:
            text = f"a range without steps is a continuum, and a {design.method} needs values"
            raise problem(text, at=f"axes.{field}")
        if design.method == "zip" and lengths[field] != max(lengths.values()):
            most = max(lengths, key=lengths.__getitem__)
            text = f"has {lengths[field]} values, but {most} has {lengths[most]}: a zip pairs them"
            raise problem(text, at=f"axes.{field}")
    if design.samples and not axes:
        raise problem("there are no axes to draw from", at="design")


def _aligned(design: DesignSection, axes: Mapping[str, Axis]) -> Iterator[Values]:
    """Yield a value for every axis, whether it exists there or not."""
    if design.method == "zip":
        for values in zip(*(axis.listed or () for axis in axes.values()), strict=True):
            yield dict(zip(axes, values, strict=True))
        return
    for shares in _shares(design, len(axes)):
        yield {
            field: axis.at(share)
            for (field, axis), share in zip(axes.items(), shares.tolist(), strict=True)
        }


def _shares(design: DesignSection, dimensions: int) -> np.ndarray:
    """Draw points in the unit cube: float64 (points, dimensions)."""
    from scipy.stats import qmc

    assert design.points is not None
    rng = np.random.default_rng(design.seed)
    if design.method == "random":
        return rng.random((design.points, dimensions))
    if design.method == "latin_hypercube" or design.searches:
        # Of a search this is not the design, but a sample of what it may try, to be checked.
        return qmc.LatinHypercube(dimensions, rng=rng).random(design.points)
    # Drawn to the next power of two, which Sobol numbers come in, and cut.
    return qmc.Sobol(dimensions, rng=rng).random_base2((design.points - 1).bit_length())[
        : design.points
    ]
