"""The engine jumps, the oracle takes every step: they arrive at the same numbers, to the bit."""

import os

import naive
import pytest
from compare import assert_same, simulate_both
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
# often fall together: a picosecond, exact fractions of a second, and one that has to be rounded.
UNITS_S = (1e-12, 0.0625, 1.0, 1.23456789e-6)

small = st.integers(0, 6)
prompts = st.one_of(st.integers(1, 9), st.integers(1, 60), st.sampled_from([0, 1, 1, 2]))
outputs = st.one_of(
    st.integers(1, 12), st.integers(1, 60), st.sampled_from([0, 1, 1, 2, 2, 250, 600])
)
gaps = st.one_of(
    st.sampled_from([0, 0, 0, 1]), st.integers(0, 12), st.integers(0, 300), st.sampled_from([5000, 600_000])
)


def maybe(values, nothing=None):
    return st.one_of(st.just(nothing), values)


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
def traces(draw, unit):
    """Rows in any order; arrivals in half units, so that some are rounded or tie."""
    n = draw(st.integers(1, 16))
    with_blocks, with_cancellations = draw(st.booleans()), draw(st.booleans())
    records, at = [], draw(st.sampled_from([0, 0, 3, 2_000_000]))
    for _ in range(n):
        at += draw(gaps)
        record = {
            "arrival_s": at * unit / 2,
            "prompt_tokens": draw(prompts),
            "output_tokens": draw(outputs),
            "priority": draw(st.integers(-2, 2)),
            "deadline_s": draw(maybe(st.integers(0, 99).map(lambda k: k * unit))),
        }
        if with_blocks:
            record["kv_blocks"] = draw(st.integers(0, 9))
        if with_cancellations:
            # Before the arrival, in the queue, in the batch, or too late to matter.
            ends = maybe(st.one_of(st.integers(-9, 40), st.integers(0, 2000)))
            after = draw(ends)
            record["cancel_at_s"] = None if after is None else max(at + after, 0) * unit / 2
        records.append(record)
    return draw(st.permutations(records)) if draw(st.booleans()) else records


def policies(unit):
    rates = st.sampled_from([0, 0.5, 2.5, 100, 1 / unit])
    return st.one_of(
        st.sampled_from(sorted(naive.policies.POLICIES)),
        rates.map(lambda rate: f"aging({rate})"),
        st.integers(0, 2**53 - 1).map(lambda seed: f"random({seed})"),
    )


@st.composite
def configurations(draw, discipline, unit):
    seconds = st.integers(0, 300).map(lambda k: k * unit)
    tight = draw(st.booleans())
    return SchedulerConfig(
        discipline=discipline,
        policy=draw(policies(unit)),
        max_batch_size=draw(st.integers(1, 8)),
        max_num_batched_tokens=draw(st.integers(1, 12) if tight else st.integers(8, 64)),
        prefill_chunk_size=draw(st.integers(1, 10) if tight else st.integers(1, 40)),
        kv_blocks=draw(maybe(st.integers(1, 40))),
        block_size=draw(st.integers(1, 16)),
        max_tokens=draw(maybe(st.sampled_from([5, 60, 600]))),
        max_prefill_tokens=draw(maybe(st.integers(1, 24))),
        max_wait_s=draw(maybe(seconds)),
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
    return (
        draw(traces(unit)),
        draw(configurations(discipline, unit)),
        draw(costs(unit)),
        draw(metric_options(unit)),
    )


@pytest.mark.parametrize("discipline", naive.disciplines.DISCIPLINES)
def test_engine_equals_oracle(discipline):
    @EXAMPLES
    @given(cases(discipline))
    def compare(case):
        records, config, cost, options = case
        ours, theirs = simulate_both(records, config, cost, options)
        assert_same(ours, theirs)
        naive.check_invariants(records, config.to_dict(), ours)

    compare()
