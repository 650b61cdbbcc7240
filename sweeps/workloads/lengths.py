"""Length distributions: how many tokens prompts and outputs have.

A new distribution is a frozen dataclass with a `tokens` method and one row in `LENGTHS`.
"""

import math
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


LENGTHS: dict[str, type[LengthDistribution]] = {"lognormal": Lognormal}
