"""The engine jumps, the oracle takes every step: they arrive at the same numbers, to the bit."""

import os

import naive
import pytest
from compare import as_oracle_takes_it, assert_same, simulate_both
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vecsched import CostModel, SchedulerConfig

EXAMPLES = settings(
    max_examples=int(os.environ.get("VECSCHED_EXAMPLES", "300")),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)

# Every time of a case is a small multiple of one unit, so that arrivals, timeouts and boundaries
# often fall together or miss each other by a picosecond: exact ones, and two that are rounded.
UNITS_S = (1e-12, 1.23456789e-6, 1 / 16, 1 / 12, 1.0)

POLICIES = (
    *("fcfs", "shortest_prompt", "shortest_output", "shortest_total", "longest_total"),
    *("priority", "deadline", "edf", "aging", "random"),
)

small = st.integers(0, 6)
prompts = st.one_of(st.integers(1, 9), st.integers(1, 60))

# Gaps between arrivals, and outputs: stretches worth jumping, or a long queue that changes often.
SHORT_OUTPUTS = st.integers(1, 8)
ANY_OUTPUTS = st.one_of(SHORT_OUTPUTS, st.integers(1, 60), st.sampled_from([1, 2, 90, 300]))
BURSTS = st.sampled_from([0, 0, 0, 1, 2, 7])
WIDE_GAPS = st.one_of(
    st.integers(0, 12), st.integers(0, 100), st.sampled_from([0, 0, 300, 5000, 200_000])
)


def maybe(values):
    return st.one_of(st.none(), values)


@st.composite
def tables(draw, unit):
    """Points (n, seconds) of a cost term that is nowhere negative: the last slope goes on."""
    at = sorted(draw(st.sets(st.integers(0, 30), min_size=1, max_size=4)))
    values = draw(st.lists(small, min_size=len(at), max_size=len(at)))
    values[-1] = max(values)
    return [[n, value * unit] for n, value in zip(at, values, strict=True)]


@st.composite
def term_sets(draw, unit):
    names = ("token_s", "sequence_s", "decode_s", "context_s")
    chosen = {name: draw(maybe(tables(unit))) for name in names}
    terms = {name: points for name, points in chosen.items() if points is not None}
    return {"fixed_s": draw(small) * unit, **terms}


@st.composite
def costs(draw, unit):
    if unit == 1.0:
        return CostModel.unit()
    if draw(st.booleans()):
        fixed, prefill, decode = (draw(small) * unit for _ in range(3))
        return CostModel.affine(
            fixed, prefill, decode, draw(st.integers(0, 2)) * unit, draw(st.integers(0, 1)) * unit
        )
    return CostModel.tabulated(
        draw(term_sets(unit)),
        draw(maybe(term_sets(unit))),
        prefill_attention_s=draw(st.integers(0, 1)) * unit,
        prefill_context_s=draw(st.integers(0, 2)) * unit,
        chunk_decode_s=draw(st.integers(0, 2)) * unit,
    )


@st.composite
def traces(draw, unit, policy):
    """Rows in any order; arrivals in half units, so that some are rounded or tie."""
    with_blocks, with_cancellations = draw(st.booleans()), draw(st.booleans())
    # Before the arrival, in the queue, in the batch, or too late to matter.
    cancellations = maybe(st.one_of(st.integers(-9, 40), st.integers(0, 2000)))
    records, at = [], draw(st.sampled_from([0, 0, 3, 2_000_000]))
    gaps, outputs = draw(st.sampled_from([(WIDE_GAPS, ANY_OUTPUTS), (BURSTS, SHORT_OUTPUTS)]))
    for _ in range(draw(st.integers(1, 20))):
        at += draw(gaps)
        record = {
            "arrival_s": at * unit / 2,
            "prompt_tokens": draw(prompts),
            "output_tokens": draw(outputs),
        }
        if policy == "priority":
            record["priority"] = draw(st.integers(-2, 2))
        if policy in ("deadline", "edf"):
            record["deadline_s"] = draw(maybe(st.integers(0, 99).map(lambda k: k * unit)))
        if with_blocks:
            record["kv_blocks"] = draw(st.integers(0, 9))
        if with_cancellations:
            after = draw(cancellations)
            record["cancel_at_s"] = None if after is None else max(at + after, 0) * unit / 2
        records.append(record)
    empty = draw(st.sampled_from([None, None, "prompt_tokens", "output_tokens"]))
    if empty is not None:
        records[draw(st.integers(0, len(records) - 1))][empty] = 0
    return draw(st.permutations(records)) if draw(st.booleans()) else records


def policies(unit):
    rates = st.sampled_from([0, 0.5, 2.5, 100, 1 / unit])
    return st.one_of(
        st.sampled_from(POLICIES),
        rates.map(lambda rate: f"aging({rate})"),
        st.integers(0, 2**53 - 1).map(lambda seed: f"random({seed})"),
    )


@st.composite
def configurations(draw, discipline, policy, unit):
    budget = draw(st.one_of(st.integers(1, 12), st.integers(8, 64)))
    chunk = draw(st.one_of(st.integers(1, budget), st.integers(1, 1 + budget // 2), small)) or 64
    kv_blocks, block_size = draw(
        st.sampled_from([(None, 16), (9, 16), (12, 12), (20, 8), (40, 3), (90, 1)])
    )
    return SchedulerConfig(
        discipline=discipline,
        policy=policy,
        max_batch_size=draw(st.integers(1, 8)),
        max_num_batched_tokens=budget,
        prefill_chunk_size=chunk,
        kv_blocks=kv_blocks,
        block_size=block_size,
        max_tokens=draw(st.sampled_from([None, None, None, 60])),
        max_prefill_tokens=draw(maybe(st.integers(chunk, chunk + 9))),
        max_wait_s=draw(maybe(st.integers(0, 300).map(lambda k: k * unit))),
        timeout_s=draw(maybe(st.integers(0, 3000).map(lambda k: k * unit))),
        lookahead=draw(st.integers(0, 3)),
    )


@st.composite
def metric_options(draw, unit):
    seconds = maybe(st.integers(0, 100).map(lambda k: k * unit))
    names = ("ttft_slo_s", "tpot_slo_s", "e2e_slo_s", "starvation_s")
    shares = st.sampled_from([0.0, 0.1, 0.3, 0.45])
    return {name: draw(seconds) for name in names} | {
        "warmup": draw(shares),
        "cooldown": draw(shares),
    }


@st.composite
def cases(draw, discipline):
    unit = draw(st.sampled_from(UNITS_S))
    policy = draw(policies(unit))
    return (
        draw(traces(unit, policy)),
        draw(configurations(discipline, policy, unit)),
        draw(costs(unit)),
        draw(metric_options(unit)),
    )


@pytest.mark.parametrize("discipline", ["strict", "static"])
def test_engine_equals_oracle(discipline):
    @EXAMPLES
    @given(cases(discipline))
    def compare(case):
        records, config, cost, options = case
        ours, theirs = simulate_both(records, config, cost, options)
        assert_same(ours, theirs)
        naive.check_invariants(records, as_oracle_takes_it(config), ours)

    compare()
