"""Arrival processes: how requests are spread over time at a given mean rate.

A new process is a frozen dataclass with a `times` method and one row in `ARRIVALS`. A longer draw
begins with the shorter one: draws go request by request, or come from a stream of their own.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sweeps.workloads.parameters import check_positive, check_within
from vecsched.errors import ConfigError


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
        return _exposures(rng.standard_exponential(count - 1)) / rate_per_s


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
        return _exposures(gamma_gaps(rng, self.cv**-2, count - 1)) / rate_per_s


@dataclass(frozen=True, kw_only=True)
class Weibull:
    """Weibull-distributed gaps: heavier-tailed than gamma's at the same CV above 1.

    The rate stretches them. Exactly one of the two parameters is given; it fixes the other:
    cv^2 = G(1 + 2/shape) / G(1 + 1/shape)^2 - 1, where G is the gamma function.

    Attributes:
        shape: of the gaps' distribution, from 0.1 to 100; 1 is Poisson, less is bursty.
        cv: standard deviation over mean of the gaps, 0.0127 to 429.
    """

    shape: float | None = None
    cv: float | None = None

    def __post_init__(self) -> None:
        if (self.shape is None) == (self.cv is None):
            raise ConfigError("a Weibull needs exactly one of shape and cv")
        if self.shape is None:
            bursty, regular = _WEIBULL_SHAPES
            check_within("cv", self.cv, _weibull_cv(regular), _weibull_cv(bursty))
        else:
            check_within("shape", self.shape, *_WEIBULL_SHAPES)

    def times(self, rng: np.random.Generator, count: int, rate_per_s: float) -> np.ndarray:
        """Draw arrival instants; see `ArrivalProcess`."""
        shape = self.shape if self.cv is None else _weibull_shape(self.cv)
        assert shape is not None
        return _exposures(weibull_gaps(rng, shape, count - 1)) / rate_per_s


@dataclass(frozen=True, kw_only=True)
class OnOff:
    """Bursts: Poisson arrivals at a high rate, then at a low one or none, in turn.

    Phases last exponentially long, whatever the rate; the first one is on. The rate is the mean
    over both. (An interrupted or, with `off_rate`, a Markov-modulated Poisson process.)

    Attributes:
        on_s, off_s: mean length of the phases, seconds.
        off_rate: rate of the off phases as a share of that of the on phases; 0: none arrive.
    """

    on_s: float
    off_s: float
    off_rate: float = 0.0

    def __post_init__(self) -> None:
        check_positive("on_s", self.on_s)
        check_positive("off_s", self.off_s)
        check_within("off_rate", self.off_rate, 0, 1)

    def times(self, rng: np.random.Generator, count: int, rate_per_s: float) -> np.ndarray:
        """Draw arrival instants; see `ArrivalProcess`."""
        gaps, phases = rng.spawn(2)
        exposures = _exposures(gaps.standard_exponential(count - 1)) / rate_per_s
        seconds, exposed = self._phases(phases, exposures[-1])
        return np.interp(exposures, exposed, seconds)

    def _phases(self, rng: np.random.Generator, least: float) -> tuple[np.ndarray, np.ndarray]:
        """Draw phases until `least` seconds at the mean rate have gone by.

        Returns:
            The phases' bounds, in seconds, and in seconds at the mean rate.
        """
        means = np.array([self.on_s, self.off_s])
        rates = np.array([1, self.off_rate])
        rates = rates * means.sum() / (rates @ means)
        lengths = np.empty((0, 2))
        while (lengths @ rates).sum() <= least:
            more = rng.standard_exponential((max(len(lengths), 64), 2)) * means
            lengths = np.concatenate([lengths, more])
        return _exposures(lengths.ravel()), _exposures((lengths * rates).ravel())


@dataclass(frozen=True, kw_only=True)
class Diurnal:
    """Poisson arrivals whose rate rises and falls as a cosine, day after day.

    The rate at t is mean * (1 + amplitude * cos(2 pi (t - peak_s) / period_s)), followed in steps
    of 1/1440 of the period, a minute of a day.

    Attributes:
        amplitude: 0 to 1; the peak is 1 + amplitude times the mean.
        period_s: seconds; a day.
        peak_s: instant of the first peak; None: half the period, so that the trace begins at night.
    """

    amplitude: float
    period_s: float = 86_400.0
    peak_s: float | None = None

    def __post_init__(self) -> None:
        check_within("amplitude", self.amplitude, 0, 1)
        check_positive("period_s", self.period_s)
        if self.peak_s is not None:
            check_positive("peak_s", self.peak_s, or_zero=True)

    def times(self, rng: np.random.Generator, count: int, rate_per_s: float) -> np.ndarray:
        """Draw arrival instants; see `ArrivalProcess`."""
        # A period at the varying rate has as many arrivals as one at the mean rate.
        exposures = _exposures(rng.standard_exponential(count - 1)) / rate_per_s / self.period_s
        periods = np.floor(exposures)
        steps = np.linspace(0, 1, 1441)
        phases = np.interp(exposures - periods, self._exposed(steps), steps)
        return self.period_s * (periods + phases)

    def _exposed(self, phase: np.ndarray) -> np.ndarray:
        """Return the integral of rate / mean from the start, in periods; 1 at the end of one."""
        peak = 0.5 if self.peak_s is None else self.peak_s / self.period_s
        swing = np.sin(2 * np.pi * (phase - peak)) + np.sin(2 * np.pi * peak)
        return phase + self.amplitude * swing / (2 * np.pi)


def gamma_gaps(rng: np.random.Generator, shape: float, count: int) -> np.ndarray:
    """Draw gamma-distributed gaps of mean 1."""
    return rng.standard_gamma(shape, count) / shape


def weibull_gaps(rng: np.random.Generator, shape: float, count: int) -> np.ndarray:
    """Draw Weibull-distributed gaps of mean 1: powers of exponential ones."""
    return rng.standard_exponential(count) ** (1 / shape) / math.gamma(1 + 1 / shape)


def _exposures(gaps: np.ndarray) -> np.ndarray:
    """Lay gaps end to end, from 0."""
    return np.concatenate([[0.0], np.cumsum(gaps)])


_WEIBULL_SHAPES = (0.1, 100.0)


def _weibull_cv(shape: float) -> float:
    return math.sqrt(math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1)


def _weibull_shape(cv: float) -> float:
    """Return the shape of this CV, by bisection: the CV falls as the shape grows."""
    bursty, regular = _WEIBULL_SHAPES
    for _ in range(60):  # more halvings than a double has digits
        middle = (bursty + regular) / 2
        bursty, regular = (middle, regular) if _weibull_cv(middle) > cv else (bursty, middle)
    return (bursty + regular) / 2


ARRIVALS: dict[str, type[ArrivalProcess]] = {
    "poisson": Poisson,
    "gamma": Gamma,
    "weibull": Weibull,
    "on_off": OnOff,
    "diurnal": Diurnal,
}
