"""`vllm`: the scheduler of vLLM v1, with prefix caching and asynchronous scheduling.

Running requests come first, in order of admission, then waiting ones; a chunk fills the budget that
is left; KV grows block by block, and who finds none preempts the request admitted last (under the
priority policy, the least urgent). The rules are those of vLLM 0.33.0, step by step, checked
against its logs; `vllm_version` "0.19" switches to the older ones. KV that nobody holds is kept
until its blocks are needed (`kernels.cache`), and a batch is formed while the one before it runs
(`kernels.ahead`); either can be switched off. See `docs/semantics.md`.
"""

from vecsched._jit import entry_point, kernel
from vecsched.config import SchedulerConfig
from vecsched.kernels.ahead import run_ahead
from vecsched.kernels.arrivals import join_arrivals
from vecsched.kernels.chunked import admit, schedule_running
from vecsched.kernels.engine import EVERY_POSITION, KV_BLOCKS, MEMBERS, QUEUED, WATCH
from vecsched.kernels.leaving import gather_due
from vecsched.kernels.queue import promote_overdue, shut_gates
from vecsched.kernels.step import GOES_ON, end_expired, run_batch

IDLE_ITERATION = False
IS_PAGED = True
_WHOLE_PROMPT = 2**31


def smallest_demand(config: SchedulerConfig) -> int:
    """Without chunked prefill a prompt must fit, unless the threshold may cut it."""
    if config.enable_chunked_prefill:
        return 1
    return config.long_prefill_token_threshold or _WHOLE_PROMPT


def lone_chunk(config: SchedulerConfig) -> int:
    """Prompt tokens of one iteration when a request is alone: the threshold is off, but in 0.19."""
    bounds = []
    if config.enable_chunked_prefill:
        bounds += [config.max_num_batched_tokens, config.max_prefill_tokens]
    if config.vllm_version == "0.19":
        bounds.append(config.long_prefill_token_threshold or None)
    return min((bound for bound in bounds if bound is not None), default=_WHOLE_PROMPT)


@entry_point
def run(engine):
    """Simulate until every request has ended; returns a status of `kernels.engine`."""
    while True:
        join_arrivals(engine)
        end_expired(engine)
        promote_overdue(engine)
        threshold = effective_threshold(engine)
        if engine.paging_rules.asynchronous:
            gather_due(engine)
        preempted = schedule_running(engine, threshold, False)
        if preempted:
            shut_gates(engine, KV_BLOCKS)
        else:
            admit(engine, threshold)
            if engine.paging_rules.adaptive:
                # Each arrival makes the threshold smaller.
                engine.state[WATCH] = EVERY_POSITION
        if engine.paging_rules.asynchronous:
            status = run_ahead(engine, preempted)
        else:
            status = run_batch(engine, preempted)
        if status != GOES_ON:
            return status


@kernel
def effective_threshold(engine):
    """Tokens that one request may compute in this iteration; 0: no such bound."""
    rules, there = engine.paging_rules, engine.state[MEMBERS] + engine.state[QUEUED]
    if rules.threshold == 0 or (there <= 1 and not rules.lone_threshold):
        return 0
    if rules.adaptive:
        return max(rules.threshold, engine.limits.tokens // max(there, 1))
    return rules.threshold
