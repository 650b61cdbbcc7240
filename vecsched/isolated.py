"""End-to-end times of requests alone on an idle engine: the yardstick of slowdown."""

from typing import NamedTuple

import numpy as np

from vecsched.clock import PS_PER_S
from vecsched.columns import once_per_trace
from vecsched.config import SchedulerConfig
from vecsched.cost import CostModel
from vecsched.kernels.duration import fill_isolated_ps
from vecsched.kernels.engine import Engine
from vecsched.quantiles import SelectionScratch, quantiles_of
from vecsched.trace import Trace


class Isolated(NamedTuple):
    """End-to-end times alone, and the default starvation limit.

    `picoseconds` is int64 (n,) in arrival order; -1 where a request cannot run alone: without
    chunked prefill only company may switch on the threshold that cuts its prompt.
    """

    picoseconds: np.ndarray
    starvation_s: float


def isolated_of(trace: Trace, config: SchedulerConfig, cost: CostModel, engine: Engine) -> Isolated:
    """End-to-end time of each request alone on an idle engine of this configuration."""
    limits = engine.limits
    budget = min(limits.tokens, limits.prefill_tokens)
    key = (cost, limits.chunk, limits.idle_iteration, budget, config.max_model_len)

    def compute() -> np.ndarray:
        isolated_ps = np.empty(len(trace), np.int64)
        fill_isolated_ps(engine.cost, engine.requests, limits, isolated_ps)
        return isolated_ps

    isolated_ps = once_per_trace(trace, ("isolated", *key), compute)
    # The default limit leaves out requests that this configuration refuses or cannot run alone.
    measured = (engine.requests.door == 0) & (isolated_ps >= 0)
    if measured.all():
        limit = once_per_trace(trace, ("starvation", *key), lambda: _starvation_s(isolated_ps))
    else:
        limit = _starvation_s(isolated_ps[measured])
    return Isolated(isolated_ps, limit)


def _starvation_s(isolated_ps: np.ndarray) -> float:
    scratch = SelectionScratch.for_size(len(isolated_ps))
    return 10 * quantiles_of(isolated_ps / PS_PER_S, [0.5], scratch)[0]
