"""End-to-end times of requests alone on an idle engine: the yardstick of slowdown."""

from typing import NamedTuple

import numpy as np

from vecsched.clock import PS_PER_S
from vecsched.columns import discipline_of, once_per_trace
from vecsched.config import SchedulerConfig
from vecsched.cost import CostModel
from vecsched.kernels.duration import fill_isolated_ps
from vecsched.kernels.engine import Engine
from vecsched.quantiles import SelectionScratch, quantiles_of
from vecsched.trace import Trace


class Isolated(NamedTuple):
    """End-to-end times alone: int64 (n,) in arrival order, and the default starvation limit."""

    picoseconds: np.ndarray
    starvation_s: float


def isolated_of(trace: Trace, config: SchedulerConfig, cost: CostModel, engine: Engine) -> Isolated:
    """End-to-end time of each request alone on an idle engine of this configuration."""
    discipline = discipline_of(config)
    chunk, idle_iteration = discipline.lone_chunk(config), discipline.IDLE_ITERATION
    key = (cost, chunk, idle_iteration, config.max_num_batched_tokens, config.max_model_len)

    def compute() -> np.ndarray:
        isolated_ps = np.empty(len(trace), np.int64)
        fill_isolated_ps(engine.cost, engine.requests, chunk, idle_iteration, isolated_ps)
        return isolated_ps

    isolated_ps = once_per_trace(trace, ("isolated", *key), compute)
    # The default limit leaves out requests that this configuration refuses.
    refused = int(np.count_nonzero(engine.requests.door))

    if refused == 0:
        limit = once_per_trace(trace, ("starvation", *key), lambda: _starvation_s(isolated_ps))
    else:
        limit = _starvation_s(isolated_ps[engine.requests.door == 0])
    return Isolated(isolated_ps, limit)


def _starvation_s(isolated_ps: np.ndarray) -> float:
    scratch = SelectionScratch.for_size(len(isolated_ps))
    return 10 * quantiles_of(isolated_ps / PS_PER_S, [0.5], scratch)[0]
