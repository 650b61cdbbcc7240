"""What prefix caching was worth; all NaN where nothing is cached. See `docs/semantics.md`."""

import math
from typing import Any

import numpy as np

from vecsched.kernels.cache import NO_CACHE
from vecsched.kernels.engine import EVICTED, Engine
from vecsched.quantiles import quotient


def prefix_summary(engine: Engine) -> dict[str, Any]:
    """Return the part of a summary: `prefix_hit_rate`, `evicted_blocks`."""
    if engine.cache.kind == NO_CACHE:
        return {"prefix_hit_rate": math.nan, "evicted_blocks": math.nan}
    everybody = np.ones(len(engine.outcome.cached), bool)
    return {
        "prefix_hit_rate": hit_rate(engine, everybody),
        "evicted_blocks": int(engine.state[EVICTED]),
    }


def hit_rate(engine: Engine, rows: np.ndarray) -> float:
    """Tokens that some requests found in the cache over tokens that they looked for there."""
    if engine.cache.kind == NO_CACHE:
        return math.nan
    outcome = engine.outcome
    return quotient(int(outcome.cached[rows].sum()), int(outcome.looked_up[rows].sum()))


def prefix_columns(engine: Engine) -> dict[str, np.ndarray]:
    """Return columns of the requests, in arrival order."""
    outcome = engine.outcome
    columns = {
        "looked_up_tokens": outcome.looked_up,
        "cached_tokens": outcome.cached,
        "cached_own_tokens": outcome.cached_again,
    }
    if engine.cache.kind == NO_CACHE:
        return {name: np.full(len(column), np.nan) for name, column in columns.items()}
    return columns
