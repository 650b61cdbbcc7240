"""Seconds to picoseconds and back, and where the clock ends."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsched.clock import HORIZON_PS, HORIZON_S, NEVER_PS, fits, is_duration, to_ps, to_seconds

# The clock holds 2^62 ps, and this is the largest float below as many seconds.
LAST_S = math.nextafter(HORIZON_S, 0)


def test_seconds_are_rounded_to_the_picosecond_halves_to_even():
    assert to_ps([0.0, 1.0, 1.5e-12, 2.5e-12, 0.4e-12]).tolist() == [0, 10**12, 2, 2, 0]
    assert to_ps(0.1) == 10**11
    assert to_ps(1.0).dtype == np.int64


@given(st.integers(0, 2**50))
def test_up_to_eighteen_minutes_every_picosecond_comes_back(picoseconds):
    # 2^50 ps are 1,126 s. The quotient and the product are each off by 2^-53 of it at most,
    # together by a quarter of a picosecond: too little to be rounded to another one.
    assert to_ps(to_seconds(picoseconds)) == picoseconds


def test_the_last_instant_is_within_int64():
    assert fits([0.0, LAST_S, -LAST_S]).all()
    assert not fits([HORIZON_S, -HORIZON_S, math.inf, math.nan]).any()
    assert to_ps(LAST_S) <= HORIZON_PS
    assert int(HORIZON_S / 86400) == 53  # days


def test_absent_instants_become_nan():
    seconds = to_seconds(np.array([0, NEVER_PS, 500]), absent=NEVER_PS)
    assert seconds.tolist()[::2] == [0.0, 5e-10]
    assert math.isnan(seconds[1])


@pytest.mark.parametrize("value", [0, 0.0, 1, LAST_S, np.float32(2), np.int8(3)])
def test_durations(value):
    assert is_duration(value)


@pytest.mark.parametrize(
    "value", [-1, -1e-300, HORIZON_S, 10**400, math.inf, math.nan, True, np.True_, "1", None, 1j]
)
def test_what_is_no_duration(value):
    assert not is_duration(value)
