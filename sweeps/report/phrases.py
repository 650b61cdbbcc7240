"""Numbers and settings as words, for sentences."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from sweeps.plots import words

__all__ = [
    "brief",
    "counted",
    "listed",
    "measured",
    "named",
    "number",
    "percent",
    "setting",
    "words",
]

_DIGITS = 3  # significant digits in a sentence
_MILLION = 1_000_000


def number(value: Any) -> str:
    """Return a value for a sentence: three digits, thousands set apart."""
    value = value.item() if hasattr(value, "item") else value  # a scalar of NumPy's
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "none"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "yes" if value is True else "no" if value is False else str(value)
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    if abs(value) >= _MILLION:
        return f"{value / _MILLION:.{_DIGITS}g} million"
    if isinstance(value, int) or abs(value) >= 10**_DIGITS or float(value).is_integer():
        digits = max(0, math.floor(math.log10(abs(value))) + 1 - _DIGITS)
        exact = isinstance(value, int) or float(value).is_integer()
        return f"{value:,.0f}" if exact else f"{round(value, -digits):,.0f}"
    short = f"{value:.{_DIGITS}g}"
    # What was rounded keeps its digits, so that 4.998 is 5.00 beside 4.98.
    return short if float(short) == value or "e" in short else f"{value:#.{_DIGITS}g}".rstrip(".")


def percent(share: float) -> str:
    """Return a share in percent; a little is not nothing, and nearly all is not all."""
    if 0 < share < 0.01:
        return "under 1\u00a0%"
    return "over 99\u00a0%" if 0.99 < share < 1 else f"{share:.0%}".replace("%", "\u00a0%")


def measured(metric: str, value: Any) -> str:
    """Return a metric's value with its unit: "5.92 requests/s"."""
    found = re.search(r" \((.+)\)$", words(metric))
    unit = found[1] if found and "times" not in found[1] else ""
    return f"{number(value)} {unit}".strip()


def brief(label: str) -> str:
    """Return a label with its unit cut short, for the head of a column."""
    return label.replace("times its latency alone", "×")


def named(metric: str) -> str:
    """Return a metric's name without its unit: "TTFT p99"."""
    return re.sub(r" \(.+\)$", "", words(metric))


def setting(row: Mapping[str, Any] | pd.Series, knobs: Iterable[str]) -> str:
    """Return a setting by its knobs: "policy fcfs, max batch size 64 and no max wait"."""
    return listed([_knob(knob, row[knob]) for knob in knobs])


def _knob(knob: str, value: Any) -> str:
    return f"no {named(knob)}" if pd.isna(value) else f"{named(knob)} {measured(knob, value)}"


def listed(items: list[str]) -> str:
    """Return "a", "a and b", or "a, b and c"."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def counted(count: int, one: str, many: str = "") -> str:
    """Return "1 setting", "2 settings"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
