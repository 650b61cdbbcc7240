"""What counts as a number in input from outside: Python's and NumPy's, but no truth values."""

from numbers import Integral, Real
from typing import Any

MAX_TOKENS = 2**31 - 1


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number; NaN and infinity are."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole_number(value: Any) -> bool:
    """Tell whether a value is of an integer type; 2.0 is not."""
    return isinstance(value, Integral) and not isinstance(value, bool)
