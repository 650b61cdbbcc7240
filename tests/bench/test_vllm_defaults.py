"""What vLLM's defaults cost to simulate: prefix caching, asynchronous scheduling.

Unique prompts: 20,000 requests, all at time 0, as for the disciplines. Shared ones: Mooncake's
conversation trace, which lies beside the repository with the conformance data.
"""

from dataclasses import replace

import numpy as np
import pytest
from ledger import Bar
from timing import compare, in_cpu_seconds, in_words
from workload import AT_ONCE, CONFIG, COST, all_at_once, with_tight_kv

from vecsched import SchedulerConfig, Trace, simulate

pytestmark = in_cpu_seconds

UNIQUE = all_at_once()
URGENCY = np.arange(len(UNIQUE)) % 4
WITH_PRIORITIES = Trace(
    UNIQUE.arrival_s, UNIQUE.prompt_tokens, UNIQUE.output_tokens, priority=URGENCY
)
PLAIN = AT_ONCE.replace(
    discipline="vllm",
    kv_blocks=CONFIG.kv_blocks,
    enable_prefix_caching=False,
    async_scheduling=False,
)
# What is switched on, the bar against the same without, and what both have beside.
SWITCHES = {
    "caching": ({"enable_prefix_caching": True}, Bar(1.3), {}),
    "asynchronous": ({"async_scheduling": True}, None, {}),
    "both": ({"enable_prefix_caching": True, "async_scheduling": True}, None, {}),
    # No runs of blocks here, but every block in an array of its own.
    "caching in 0.19": ({"enable_prefix_caching": True}, None, {"vllm_version": "0.19"}),
    "caching, priority": ({"enable_prefix_caching": True}, None, {"policy": "priority"}),
}
MOONCAKE = "data/traces/mooncake/conversation_trace.jsonl"
CAPACITIES = (25_000, 100_000, 400_000, None)
A_SIMULATION = Bar(0.3, "s")


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("kv", ["ample KV", "tight KV"])
def test_unique_prompts(benchmark, ledger, name, kv):
    changes, bar, beside = SWITCHES[name]
    without, memory = PLAIN.replace(**beside), kv
    trace = WITH_PRIORITIES if without.policy == "priority" else UNIQUE
    if kv == "tight KV":
        without, share = with_tight_kv(without, trace)
        memory = f"{share:.0%} preempted"
    config = without.replace(**changes)
    times = compare(
        benchmark, lambda: simulate(trace, config, COST), lambda: simulate(trace, without, COST), 20
    )
    ledger.note(f"vllm, {name} / without, {memory}", times.ratio, bar, **times.remarks)


@pytest.fixture(scope="module")
def conversations(shared) -> Trace:
    return Trace.read(shared / MOONCAKE)


@pytest.mark.parametrize("kv_blocks", CAPACITIES)
def test_shared_prefixes(benchmark, ledger, conversations, kv_blocks):
    config = with_both(kv_blocks)
    without = config.replace(enable_prefix_caching=False)
    times = compare(
        benchmark,
        lambda: simulate(conversations, config, COST),
        lambda: simulate(conversations, without, COST),
        5,
    )
    blocks = blocks_of(conversations, config.block_size)
    capacity = "unlimited KV" if kv_blocks is None else f"{kv_blocks:,} KV blocks"
    ledger.note(
        f"vllm, Mooncake's conversations, {capacity}",
        times.subject_s,
        A_SIMULATION,
        detail=f"{blocks / times.subject_s / 1e6:.0f} million blocks a second; "
        f"{in_words(times.reference_s)} without caching",
        spread=times.spread,
        other_cores=times.other_cores,
    )


def test_shared_prefixes_for_the_first_time(benchmark, ledger, conversations):
    """With a new trace: what is computed once for each, such as which blocks are alike."""
    config = with_both(CAPACITIES[0])
    times = compare(
        benchmark,
        lambda trace: simulate(trace, config, COST),
        lambda: simulate(conversations, config, COST),
        5,
        fresh=lambda: replace(conversations),
    )
    ledger.note("Mooncake's conversations, a new trace / again", times.ratio, **times.remarks)


def with_both(kv_blocks: int | None) -> SchedulerConfig:
    defaults = SchedulerConfig(discipline="vllm", kv_blocks=kv_blocks)
    assert defaults.enable_prefix_caching
    assert defaults.async_scheduling
    return defaults.replace(max_num_batched_tokens=8_192)


def blocks_of(trace: Trace, block_size: int) -> int:
    """Blocks that all requests hold at their ends: each is looked up or taken, and released."""
    return int(np.sum(-(-(trace.prompt_tokens + trace.output_tokens - 1) // block_size)))
