"""The other disciplines against `strict`: 20,000 requests, all at time 0, 8,192 tokens."""

import pytest
from ledger import Bar
from timing import compare, in_cpu_seconds
from workload import CONFIG, COST, all_at_once

from vecsched import DISCIPLINES, SchedulerConfig, Trace, simulate

pytestmark = in_cpu_seconds

TRACE = all_at_once()
STRICT = CONFIG.replace(max_num_batched_tokens=8_192, kv_blocks=None)
# With KV that grows until it runs out.
PREEMPTIVE = ("vllm", "sarathi", "prefill_first")
# Issue 3 sets bars for vllm; the others are for information.
AMPLE_BAR, TIGHT_BAR = Bar(2), Bar(4)


@pytest.mark.parametrize("discipline", [name for name in DISCIPLINES if name != "strict"])
def test_ample_kv(benchmark, ledger, discipline):
    config = STRICT.replace(discipline=discipline)
    times = compare(
        benchmark, lambda: simulate(TRACE, config, COST), lambda: simulate(TRACE, STRICT, COST), 20
    )
    bar = AMPLE_BAR if discipline == "vllm" else None
    ledger.note(f"{discipline} / strict, ample KV", times.ratio, bar, **times.remarks)


@pytest.mark.parametrize("discipline", PREEMPTIVE)
def test_tight_kv(benchmark, ledger, discipline):
    config, share = with_tight_kv(STRICT.replace(discipline=discipline))
    times = compare(
        benchmark, lambda: simulate(TRACE, config, COST), lambda: simulate(TRACE, STRICT, COST), 20
    )
    bar = TIGHT_BAR if discipline == "vllm" else None
    what = f"{discipline} / strict, {share:.0%} preempted"
    ledger.note(what, times.ratio, bar, **times.remarks)


def with_tight_kv(config: SchedulerConfig) -> tuple[SchedulerConfig, float]:
    """Return the configuration with the most KV at which a tenth of the requests is preempted."""
    too_few, enough = longest_request(TRACE), CONFIG.kv_blocks
    while enough - too_few > 16:
        middle = (too_few + enough) // 2
        if preempted_share(config.replace(kv_blocks=middle)) >= 0.1:
            too_few = middle
        else:
            enough = middle
    tight = config.replace(kv_blocks=too_few)
    return tight, preempted_share(tight)


def preempted_share(config: SchedulerConfig) -> float:
    return simulate(TRACE, config, COST).summary["preemptions"] / len(TRACE)


def longest_request(trace: Trace) -> int:
    """Blocks below which some request could never be served."""
    return -(-int((trace.prompt_tokens + trace.output_tokens).max()) // CONFIG.block_size)
