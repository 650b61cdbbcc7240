"""Length distributions: how many tokens prompts and outputs have.

A new distribution is a frozen dataclass with a `tokens` method and one row in `LENGTHS`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sweeps.workloads.parameters import check_positive, check_whole
from vecsched.errors import ConfigError


class LengthDistribution(Protocol):
    """What every row of `LENGTHS` makes."""

    def tokens(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw `count` lengths, int64, each at least 1."""
        ...


@dataclass(frozen=True, kw_only=True)
class Lognormal:
    """Lognormal lengths, rounded to whole tokens of at least 1, and cut to `max`.

    Exactly two of the first three fix the distribution: mean = median * exp(sigma^2 / 2). The mean
    is the one before the cut.

    Attributes:
        mean, median: tokens.
        sigma: standard deviation of the logarithm; 0 makes all lengths equal.
        max: the longest length; longer ones are set to it, as an engine's limit does. None: no cut.
    """

    mean: float | None = None
    median: float | None = None
    sigma: float | None = None
    max: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("mean", "median", "sigma") if getattr(self, name) is not None]
        if len(given) != 2:
            raise ConfigError(
                "a lognormal needs exactly two of mean, median and sigma, "
                f"not {', '.join(given) or 'none'}"
            )
        for name in given:
            check_positive(name, getattr(self, name), or_zero=name == "sigma")
        if self.mean is not None and self.median is not None and self.mean < self.median:
            raise ConfigError(
                f"a lognormal's mean is at least its median, but {self.mean!r} < {self.median!r}"
            )
        if self.max is not None:
            check_whole("max", self.max, least=1)

    def tokens(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw lengths; see `LengthDistribution`."""
        median, sigma = self._median_and_sigma()
        lengths = median * np.exp(sigma * rng.standard_normal(count))
        return np.clip(np.rint(lengths), 1, self.max).astype(np.int64)

    def _median_and_sigma(self) -> tuple[float, float]:
        mean, median, sigma = self.mean, self.median, self.sigma
        if sigma is None:
            assert mean is not None
            assert median is not None
            return median, math.sqrt(2 * math.log(mean / median))
        if median is None:
            assert mean is not None
            return mean * math.exp(-(sigma**2) / 2), sigma
        return median, sigma


@dataclass(frozen=True, kw_only=True)
class Zipf:
    """Zipf's law: n tokens with a probability proportional to n^-exponent, within bounds.

    Attributes:
        exponent: above 0; the larger, the shorter.
        max: the longest length, at most 10,000,000.
        min: the shortest.
    """

    exponent: float
    max: int
    min: int = 1

    def __post_init__(self) -> None:
        check_positive("exponent", self.exponent)
        check_whole("min", self.min, least=1)
        check_whole("max", self.max, least=self.min)
        if self.max > _LONGEST_ZIPF:
            raise ConfigError(f"max must be at most {_LONGEST_ZIPF}, not {self.max}")

    def tokens(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw lengths; see `LengthDistribution`."""
        lengths = np.arange(self.min, self.max + 1)
        # Relative to the most likely length, or large exponents would underflow.
        return lengths[draw_indices(rng, (lengths / self.min) ** -self.exponent, count)]


@dataclass(frozen=True, kw_only=True)
class Empirical:
    """Lengths as they were observed: drawn from a list, with replacement.

    Attributes:
        values: lengths, each a whole number of at least 1.
        weights: how often each of them; None: all alike.
    """

    values: Sequence[int]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        _check_list("values", self.values)
        for value in self.values:
            check_whole("each of values", value, least=1)
        object.__setattr__(self, "values", tuple(self.values))
        if self.weights is None:
            return
        _check_list("weights", self.weights)
        for weight in self.weights:
            check_positive("each of weights", weight, or_zero=True)
        if len(self.weights) != len(self.values) or sum(self.weights) == 0:
            raise ConfigError("weights must be as many as values, and not all 0")
        object.__setattr__(self, "weights", tuple(self.weights))

    def tokens(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw lengths; see `LengthDistribution`."""
        weights = np.ones(len(self.values)) if self.weights is None else np.array(self.weights)
        return np.array(self.values, np.int64)[draw_indices(rng, weights, count)]


def draw_indices(rng: np.random.Generator, weights: np.ndarray, count: int) -> np.ndarray:
    """Draw `count` indices of `weights`, int64, in proportion to the weights."""
    reached = np.cumsum(weights)
    # Above all that are below the point drawn; never past the last one with a weight.
    return np.searchsorted(reached / reached[-1], rng.random(count), side="right")


def _check_list(name: str, values: object) -> None:
    if not isinstance(values, list | tuple | np.ndarray) or len(values) == 0:
        raise ConfigError(f"{name} must be a list with at least one entry, not {values!r}")


_LONGEST_ZIPF = 10_000_000

LENGTHS: dict[str, type[LengthDistribution]] = {
    "lognormal": Lognormal,
    "zipf": Zipf,
    "empirical": Empirical,
}
