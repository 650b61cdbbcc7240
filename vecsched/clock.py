"""The clock: int64 picoseconds inside, float64 seconds outside, converted here and nowhere else.

Sums of integers are exact, so advancing k iterations by one closed form equals k single steps to
the bit. The clock is stopped with an error at half of int64's range (53 days), which leaves room
for one event of any length that `vecsched.simulation` lets through.
"""

from typing import Any

import numpy as np

from vecsched._numbers import is_number

PS_PER_S = 1_000_000_000_000
HORIZON_PS = 2**62
HORIZON_S = HORIZON_PS / PS_PER_S
NEVER_PS = 2**63 - 1


def to_ps(seconds: np.ndarray | float) -> np.ndarray:
    """Round seconds to int64 picoseconds; the caller has checked the range."""
    return np.rint(np.asarray(seconds, np.float64) * PS_PER_S).astype(np.int64)


def fits(seconds: np.ndarray | float) -> np.ndarray:
    """Tell which values are finite and within the clock's range on either side of zero."""
    return np.abs(np.asarray(seconds, np.float64)) < HORIZON_S


def is_duration(value: Any) -> bool:
    """Tell whether a value is a number of seconds from 0 to the end of the clock."""
    return is_number(value) and bool(0 <= value < HORIZON_S)


def to_seconds(picoseconds: np.ndarray | int, *, absent: int | None = None) -> np.ndarray:
    """Convert to float64 seconds; entries equal to `absent` become NaN."""
    ticks = np.asarray(picoseconds)
    seconds = ticks / PS_PER_S
    return seconds if absent is None else np.where(ticks == absent, np.nan, seconds)
