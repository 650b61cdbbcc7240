"""MetricOptions: what the summary of a run is measured against."""

import math
from dataclasses import dataclass

import numpy as np

from vecsched.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """What the summary is measured against.

    Attributes:
        ttft_slo_s, tpot_slo_s, e2e_slo_s: service-level objectives, inclusive; None: not asked for.
        starvation_s: a request that waits longer for admission is starved; None: 10 x the median
            isolated end-to-end time of the trace's requests.
        warmup, cooldown: shares of the makespan that the steady window leaves out.

    Raises:
        ConfigError: a value is negative or no number, or the window would be empty.
    """

    ttft_slo_s: float | None = None
    tpot_slo_s: float | None = None
    e2e_slo_s: float | None = None
    starvation_s: float | None = None
    warmup: float = 0.1
    cooldown: float = 0.1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if value is not None and (not number or not 0 <= value < math.inf):
                raise ConfigError(f"{name} must be a number >= 0, not {value!r}")
        if self.warmup + self.cooldown >= 1:
            raise ConfigError(
                f"warmup {self.warmup} and cooldown {self.cooldown} leave no steady window"
            )
