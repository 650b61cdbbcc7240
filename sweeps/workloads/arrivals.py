"""Arrival processes: how requests are spread over time at a given mean rate.

A new process is a frozen dataclass with a `times` method and one row in `ARRIVALS`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sweeps.workloads.parameters import check_positive


class ArrivalProcess(Protocol):
    """What every row of `ARRIVALS` makes."""

    def times(self, rng: np.random.Generator, count: int, rate_per_s: float) -> np.ndarray:
        """Draw `count` arrival instants, float64 seconds, ascending, the first one at 0."""
        ...


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Requests that know nothing of each other: exponential gaps, CV 1. The rate stretches them."""

    def times(self, rng: np.random.Generator, count: int, rate_per_s: float) -> np.ndarray:
        """Draw arrival instants; see `ArrivalProcess`."""
        return _instants(rng.standard_exponential(count - 1), rate_per_s)


@dataclass(frozen=True, kw_only=True)
class Gamma:
    """Gamma-distributed gaps: bursty for a CV above 1, regular below. The rate stretches them.

    Attributes:
        cv: standard deviation over mean of the gaps. Shape 1/cv^2, so that 1 is Poisson.
    """

    cv: float

    def __post_init__(self) -> None:
        check_positive("cv", self.cv)

    def times(self, rng: np.random.Generator, count: int, rate_per_s: float) -> np.ndarray:
        """Draw arrival instants; see `ArrivalProcess`."""
        shape = self.cv**-2
        return _instants(rng.standard_gamma(shape, count - 1) / shape, rate_per_s)


def _instants(gaps: np.ndarray, rate_per_s: float) -> np.ndarray:
    """Lay gaps of mean 1 end to end, from 0."""
    return np.concatenate([[0.0], np.cumsum(gaps)]) / rate_per_s


ARRIVALS: dict[str, type[ArrivalProcess]] = {"poisson": Poisson, "gamma": Gamma}
