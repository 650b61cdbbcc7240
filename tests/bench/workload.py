"""The workload of all benchmarks: lognormal lengths, and loads in shares of saturation."""

from functools import cache
from typing import NamedTuple

import numpy as np

from sweeps.workloads import SyntheticSpec, generate
from sweeps.workloads.lengths import Lognormal
from vecsched import CostModel, SchedulerConfig, Trace, simulate

REQUESTS = 20_000
LOADS = (0.5, 0.9, 1.5)
SHAPE = 0.8  # sigma of both lognormals

# About an 8B model on one A100: round figures, so that the reference points need no tables.
AFFINE = {
    "fixed_s": 6e-3,
    "per_prefill_token_s": 8e-5,
    "per_decode_s": 3e-5,
    "per_context_token_s": 7e-8,
}
COST = CostModel.affine(**AFFINE)

# KV blocks are counted, but there are enough for 256 requests even with outputs ten times longer.
CONFIG = SchedulerConfig(
    discipline="strict",
    policy="fcfs",
    max_batch_size=256,
    max_num_batched_tokens=2_048,
    prefill_chunk_size=512,
    kv_blocks=100_000,
    block_size=16,
)

# For requests that are all there at time 0.
AT_ONCE = CONFIG.replace(max_num_batched_tokens=8_192, kv_blocks=None)


class Lengths(NamedTuple):
    """How many requests, and how long their outputs are on average; prompts have 1,000 tokens."""

    requests: int = REQUESTS
    mean_output: int = 200


WHOLE = Lengths()


def drawn(lengths: Lengths, rate_per_s: float) -> Trace:
    """Return requests that arrive as a Poisson process."""
    return generate(
        SyntheticSpec(
            requests=lengths.requests,
            rate_per_s=rate_per_s,
            prompt=Lognormal(mean=1_000, sigma=SHAPE),
            output=Lognormal(mean=lengths.mean_output, sigma=SHAPE),
        )
    )


def all_at_once(lengths: Lengths = WHOLE) -> Trace:
    """Return the same requests, all there at time 0."""
    trace = drawn(lengths, 1.0)
    return Trace(np.zeros(len(trace)), trace.prompt_tokens, trace.output_tokens)


@cache
def saturation_per_s(mean_output: int) -> float:
    """Requests a second that the scheduler serves when all are there from the start."""
    trace = all_at_once(Lengths(mean_output=mean_output))
    return simulate(trace, CONFIG, COST).summary["requests_per_s"]


@cache
def trace_at(load: float, lengths: Lengths = WHOLE) -> Trace:
    """Return requests that arrive at a share of the rate that saturates the scheduler."""
    return drawn(lengths, load * saturation_per_s(lengths.mean_output))


def with_tight_kv(config: SchedulerConfig, trace: Trace) -> tuple[SchedulerConfig, float]:
    """Return the configuration with the most KV at which a tenth of the requests is preempted.

    With the share that is.
    """
    too_few, enough = longest_request(trace), CONFIG.kv_blocks
    while enough - too_few > 16:
        middle = (too_few + enough) // 2
        if preempted_share(config.replace(kv_blocks=middle), trace) >= 0.1:
            too_few = middle
        else:
            enough = middle
    tight = config.replace(kv_blocks=too_few)
    return tight, preempted_share(tight, trace)


def preempted_share(config: SchedulerConfig, trace: Trace) -> float:
    return simulate(trace, config, COST).summary["preemptions"] / len(trace)


def longest_request(trace: Trace) -> int:
    """Blocks below which some request could never be served."""
    return -(-int((trace.prompt_tokens + trace.output_tokens).max()) // CONFIG.block_size)
