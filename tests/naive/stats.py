"""Arithmetic of the metrics, in float64. A figure with nothing to measure is NaN."""

import math


def to_seconds(picoseconds):
    return math.nan if picoseconds is None else float(picoseconds) / 1e12


def divide(a, b):
    """A ratio to zero measures nothing."""
    return math.nan if b == 0 else a / b


def total(values):
    """Sum in the order given, starting from 0.0."""
    result = 0.0
    for value in values:
        result += value
    return result


def mean(values):
    return divide(total(values), len(values))


def quantile(values, q):
    """NumPy's `linear` method, with the rounding of its interpolation."""
    if not values:
        return math.nan
    ordered = sorted(values)
    at = (len(ordered) - 1) * q
    low = math.floor(at)
    t = at - low
    a, b = ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    return a + (b - a) * t if t < 0.5 else b - (b - a) * (1 - t)


def largest(values):
    return max(values, default=math.nan)


def jain(values):
    """Jain's index: 1 if all are equal, 1/n if one has everything."""
    return divide(total(values) * total(values), len(values) * total([x * x for x in values]))


def variance(values):
    centre = mean(values)
    return mean([(x - centre) * (x - centre) for x in values])


def gini(values):
    """0 if all are equal, (n - 1) / n if one has everything."""
    n = len(values)
    ranked = total([i * x for i, x in enumerate(sorted(values), start=1)])
    if n == 0:
        return math.nan
    return divide(2 * ranked, n * total(values)) - (n + 1) / n
