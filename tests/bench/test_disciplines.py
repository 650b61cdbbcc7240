"""The other disciplines against `strict`: 20,000 requests, all at time 0, 8,192 tokens."""

import pytest
from ledger import Bar
from timing import compare, in_cpu_seconds
from workload import AT_ONCE, COST, all_at_once, with_tight_kv

from vecsched import DISCIPLINES, simulate

pytestmark = in_cpu_seconds

TRACE = all_at_once()
STRICT = AT_ONCE
# With KV that grows until it runs out.
PREEMPTIVE = ("vllm", "sarathi", "prefill_first")
# Bars are set for vllm; the others are for information.
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
    config, share = with_tight_kv(STRICT.replace(discipline=discipline), TRACE)
    times = compare(
        benchmark, lambda: simulate(TRACE, config, COST), lambda: simulate(TRACE, STRICT, COST), 20
    )
    bar = TIGHT_BAR if discipline == "vllm" else None
    what = f"{discipline} / strict, {share:.0%} preempted"
    ledger.note(what, times.ratio, bar, **times.remarks)
