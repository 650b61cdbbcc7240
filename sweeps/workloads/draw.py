"""Arrivals for requests whose file has lengths only."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sweeps.workloads.arrivals import ARRIVALS
from sweeps.workloads.parameters import check_positive, check_whole, choose
from sweeps.workloads.source import Source
from vecsched.errors import InputError

# Options of the readers that take an arrival process.
OPTIONS = ("rate_per_s", "arrivals", "seed")


class Drawn(NamedTuple):
    """An arrival process as readers take it.

    Attributes:
        rate_per_s: mean rate; None: no arrivals are to be drawn.
        arrivals: a process by name, or {"process": name, parameter: value}; see `ARRIVALS`.
        seed: >= 0; the same seed gives the same arrivals.
    """

    rate_per_s: float | None = None
    arrivals: str | Mapping[str, Any] = "poisson"
    seed: int = 0

    def is_wanted(self, source: Source, *, has_times: bool) -> bool:
        """Tell whether arrivals are to be drawn.

        Raises:
            InputError: neither the file nor the process can tell the times, or the process is given
                without a rate.
        """
        if self.rate_per_s is not None:
            return True
        if self != Drawn():
            raise InputError("an arrival process needs rate_per_s", source=source.path)
        if has_times:
            return False
        raise InputError(
            "the file has no arrival times: give rate_per_s, to draw them (and arrivals, for "
            "another process than poisson, and seed)",
            source=source.path,
        )

    def times(self, source: Source, count: int) -> np.ndarray:
        """Draw arrival instants, float64 (count,) seconds, ascending, the first one at 0.

        Raises:
            InputError: there are no requests.
            ConfigError: the process, the rate or the seed is impossible.
        """
        if count == 0:
            raise InputError("there are no requests", source=source.path)
        check_positive("rate_per_s", self.rate_per_s)
        assert self.rate_per_s is not None
        check_whole("seed", self.seed, least=0)
        process = choose(ARRIVALS, self.arrivals, "process", "arrivals")
        rng = np.random.default_rng(np.random.SeedSequence(self.seed))
        return process.times(rng, count, self.rate_per_s)
