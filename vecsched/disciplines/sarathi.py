"""`sarathi`: chunked prefill with decodes first (Agrawal et al., Sarathi-Serve, OSDI'24, alg. 3).

Every running decode gets its token, then running prefills, then newcomers fill what the budget
leaves: no decode ever waits for a prompt ("stall-free"). KV and preemption are as in `vllm`.
"""

from vecsched._jit import entry_point
from vecsched.config import SchedulerConfig
from vecsched.kernels.arrivals import join_arrivals
from vecsched.kernels.chunked import admit, schedule_running
from vecsched.kernels.engine import KV_BLOCKS
from vecsched.kernels.queue import promote_overdue, shut_gates
from vecsched.kernels.step import GOES_ON, end_expired, run_batch

IDLE_ITERATION = False
IS_PAGED = True


def smallest_demand(config: SchedulerConfig) -> int:
    """A prompt can be computed in pieces of any size."""
    return 1


def lone_chunk(config: SchedulerConfig) -> int:
    """Prompt tokens of one iteration when a request is alone."""
    bounds = (config.max_num_batched_tokens, config.max_prefill_tokens)
    return min(bound for bound in bounds if bound is not None)


@entry_point
def run(engine):
    """Simulate until every request has ended; returns a status of `kernels.engine`."""
    while True:
        join_arrivals(engine)
        end_expired(engine)
        promote_overdue(engine)
        preempted = schedule_running(engine, 0, True)
        if preempted:
            shut_gates(engine, KV_BLOCKS)
        else:
            admit(engine, 0)
        status = run_batch(engine, preempted)
        if status != GOES_ON:
            return status
