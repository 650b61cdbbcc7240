"""Several tenants: synthetic, described one by one, and merged from several traces."""

import math

import numpy as np
import pytest

from sweeps.workloads import (
    SyntheticSpec,
    TenantSpec,
    describe,
    describe_tenants,
    generate,
    merge_traces,
)
from sweeps.workloads.arrivals import Diurnal, Gamma, OnOff, Poisson
from sweeps.workloads.lengths import Empirical, Lognormal
from vecsched import Trace
from vecsched.errors import ConfigError, InputError

FIVE, SIX = Empirical(values=[5]), Empirical(values=[6])
CHAT = TenantSpec(name="chat", weight=3)
CODE = TenantSpec(name="code", arrivals=Gamma(cv=3), prompt=Lognormal(mean=2000, median=1500))
SPEC = SyntheticSpec(
    requests=4000, rate_per_s=8.0, prompt=FIVE, output=SIX, tenants=(CHAT, CODE), seed=7
)


def columns(trace: Trace) -> list[bytes]:
    arrays = (trace.arrival_s, trace.prompt_tokens, trace.output_tokens)
    return [array.tobytes() for array in arrays] + ["/".join(trace.tenant).encode()]


# Synthetic


def test_tenants_share_the_rate_by_weight():
    trace = generate(SPEC)
    assert len(trace) == 4000
    assert trace.arrival_s[0] == 0
    assert trace.backward_steps == 0
    chat = trace.tenant == "chat"
    # Weights 3 and 1. Code comes in bursts of CV 3: its count varies by 3 sqrt(1000) = 95.
    assert chat.mean() == pytest.approx(0.75, abs=0.07)
    assert set(trace.prompt_tokens[chat]) == {5}
    assert len(set(trace.prompt_tokens[~chat])) > 100
    assert set(trace.output_tokens) == {6}
    assert describe(trace)["rate_per_s"] == pytest.approx(8, rel=0.1)


def test_each_tenant_has_a_process_of_its_own():
    by_tenant = describe_tenants(generate(SPEC.replace(requests=40_000)))
    assert by_tenant["chat"]["gap_cv"] == pytest.approx(1, rel=0.05)
    assert by_tenant["code"]["gap_cv"] == pytest.approx(3, rel=0.1)
    assert by_tenant["code"]["prompt_tokens_mean"] == pytest.approx(2000, rel=0.05)


def test_streams_are_grandchildren_of_the_seed():
    trace = generate(SPEC)
    code = np.random.SeedSequence(7).spawn(2)[1]
    gaps, prompts, _ = (np.random.default_rng(child) for child in code.spawn(3))
    chat = np.random.SeedSequence(7).spawn(2)[0]
    first_chat = np.random.default_rng(chat.spawn(3)[0]).standard_exponential() / 6.0
    first_code = gaps.standard_gamma(1 / 9) * 9 / 2.0
    # The first of all arrives at 0; the other tenant's first, later by the difference.
    firsts = [trace.arrival_s[trace.tenant == name][0] for name in ("chat", "code")]
    assert firsts[0] - firsts[1] == pytest.approx(first_chat - first_code, abs=1e-12)
    sigma = math.sqrt(2 * math.log(2000 / 1500))
    expected = round(1500 * math.exp(sigma * prompts.standard_normal()))
    assert trace.prompt_tokens[trace.tenant == "code"][0] == expected


def test_a_seed_fixes_everything_and_a_longer_trace_begins_with_the_shorter():
    processes = (Poisson(), Gamma(cv=4), OnOff(on_s=1, off_s=30), Diurnal(amplitude=1))
    tenants = tuple(TenantSpec(name=str(n), arrivals=x) for n, x in enumerate(processes))
    spec = SPEC.replace(tenants=tenants, requests=3000, prompt=CODE.prompt)
    assert columns(generate(spec)) == columns(generate(spec))
    assert columns(generate(spec)) != columns(generate(spec.replace(seed=8)))
    for requests in (1, 2, 700):
        long, short = generate(spec), generate(spec.replace(requests=requests))
        assert (long.arrival_s[:requests] == short.arrival_s).all()
        assert (long.prompt_tokens[:requests] == short.prompt_tokens).all()
        assert (long.tenant[:requests] == short.tenant).all()


def test_a_tenant_more_leaves_the_others_as_they_are():
    # With rates of their own. The zero moves with the first request of all: compare gaps.
    chat, code = TenantSpec(name="chat", rate_per_s=6.0), TenantSpec(name="code", rate_per_s=2.0)
    spec = SPEC.replace(rate_per_s=None, tenants=(chat,), prompt=CODE.prompt)
    alone, both = generate(spec), generate(spec.replace(tenants=(chat, code)))
    mine = both.tenant == "chat"
    assert np.allclose(np.diff(both.arrival_s[mine]), np.diff(alone.arrival_s)[: mine.sum() - 1])
    assert (both.prompt_tokens[mine] == alone.prompt_tokens[: mine.sum()]).all()


def test_rates_of_their_own():
    tenants = [{"name": "a", "rate_per_s": 1.0}, {"name": "b", "rate_per_s": 9.0}]
    values = {"requests": 20_000, "prompt": FIVE, "output": SIX, "tenants": tenants}
    trace = generate(SyntheticSpec.from_mapping(values))
    assert (trace.tenant == "a").mean() == pytest.approx(0.1, abs=0.01)
    assert describe(trace)["rate_per_s"] == pytest.approx(10, rel=0.03)


def test_from_a_file():
    values = {
        "requests": 4000,
        "rate_per_s": 8.0,
        "prompt": {"distribution": "empirical", "values": [5]},
        "output": {"distribution": "empirical", "values": [6]},
        "tenants": [
            {"name": "chat", "weight": 3},
            {
                "name": "code",
                "arrivals": {"process": "gamma", "cv": 3},
                "prompt": {"distribution": "lognormal", "mean": 2000, "median": 1500},
            },
        ],
        "seed": 7,
    }
    assert SyntheticSpec.from_mapping(values) == SPEC
    preset = SyntheticSpec.from_mapping(
        {"preset": "azure-conv-like", "requests": 100, "tenants": [{"name": "a"}, {"name": "b"}]}
    )
    assert set(generate(preset).tenant) == {"a", "b"}


BASE = {"requests": 10, "rate_per_s": 1.0, "prompt": FIVE, "output": SIX}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tenants": "chat"}, "tenants must be a list, not 'chat'"),
        ({"tenants": ["chat"]}, "tenants[0] must be a mapping, not 'chat'"),
        ({"tenants": [{"weight": 1}]}, "tenants[0]: parameter 'name' is missing"),
        ({"tenants": [{"name": ""}]}, "name must be a text, not ''"),
        ({"tenants": [{"name": 3}]}, "name must be a text, not 3"),
        ({"tenants": [{"name": "a"}, {"name": "a"}]}, "two tenants are called 'a'"),
        ({"tenants": [{"name": "a", "weigth": 1}]}, "did you mean 'weight'?"),
        ({"tenants": [{"name": "a", "weight": 0}]}, "tenants[0]: weight must be a number > 0"),
        ({"tenants": [{"name": "a", "arrivals": "x"}]}, "tenants[0]: arrivals: unknown process"),
        ({"tenants": [{"name": "a", "rate_per_s": 1}]}, "the sum of the tenants' rates"),
        (
            {"rate_per_s": None, "tenants": [{"name": "a", "rate_per_s": 1}, {"name": "b"}]},
            "all tenants need a rate_per_s, or none; 'b' has none",
        ),
        (
            {"rate_per_s": None, "tenants": [{"name": "a", "rate_per_s": 1, "weight": 1}]},
            "tenant 'a' has a rate_per_s: it cannot have a weight too",
        ),
        ({"rate_per_s": None, "tenants": [{"name": "a"}]}, "parameter 'rate_per_s' is missing"),
        (
            {"prompt": None, "tenants": [{"name": "a", "prompt": FIVE}, {"name": "b"}]},
            "parameter 'prompt' of tenant 'b' is missing",
        ),
    ],
)
def test_impossible_tenants(changes, words):
    with pytest.raises(ConfigError) as caught:
        SyntheticSpec.from_mapping(BASE | changes)
    assert words in str(caught.value)


# Described one by one


def test_describe_tenants_by_hand():
    # a arrives at 0, 1 and 4 (gaps 1 and 3: mean 2, deviation 1); b once; the span is 4 s.
    trace = Trace([4.0, 0.0, 1.0, 2.0], [3, 6, 9, 8], [1, 2, 3, 8], tenant=["a", "a", "a", "b"])
    assert describe_tenants(trace) == {
        "a": {
            "requests": 3,
            "share": 0.75,
            "rate_per_s": 0.75,
            "gap_cv": 0.5,
            "prompt_tokens_mean": 6.0,
            "output_tokens_mean": 2.0,
        },
        "b": {
            "requests": 1,
            "share": 0.25,
            "rate_per_s": 0.25,
            "gap_cv": pytest.approx(math.nan, nan_ok=True),
            "prompt_tokens_mean": 8.0,
            "output_tokens_mean": 8.0,
        },
    }
    assert list(describe_tenants(trace)) == ["a", "b"]
    assert describe_tenants(Trace([0.0], [1], [1])) == {}


# Merged


def test_merge_lays_traces_over_each_other():
    one = Trace([10.0, 12.0], [1, 2], [1, 1], deadline_s=[11.0, np.nan])
    two = Trace([5.0, 3.0, 4.0], [3, 4, 5], [1, 1, 1], tenant=["x", None, "y"], id=["p", "q", "r"])
    trace = merge_traces({"one": one, "two": two})
    # one: 0 and 2; two: 2, 0 and 1. Ties are in the order of the traces.
    assert trace.arrival_s.tolist() == [0.0, 0.0, 1.0, 2.0, 2.0]
    assert trace.prompt_tokens.tolist() == [1, 4, 5, 2, 3]
    assert trace.tenant.tolist() == ["one", "two", "two/y", "one", "two/x"]
    assert trace.id.tolist() == ["one/0", "two/q", "two/r", "one/1", "two/p"]
    assert trace.deadline_s[0] == 1.0
    assert np.isnan(trace.deadline_s[1:]).all()
    assert trace.backward_steps == 0


def test_merge_of_columns_that_must_be_in_all():
    plain = Trace([0.0], [1], [1])
    urgent = Trace([0.0], [1], [1], priority=[3], kv_blocks=[2], engine_time_s=[1.0])
    with pytest.raises(InputError, match=r"plain, field 'kv_blocks': .*in all .* or in none"):
        merge_traces({"plain": plain, "urgent": urgent})
    merged = merge_traces({"a": urgent, "b": urgent})
    assert merged.priority.tolist() == [3, 3]
    assert merged.kv_blocks.tolist() == [2, 2]
    with pytest.raises(InputError, match="no traces"):
        merge_traces({})


def test_merge_keeps_each_trace_as_bursty_as_it_was():
    traces = {name: generate(SPEC.replace(tenants=(), seed=n)) for n, name in enumerate("ab")}
    by_tenant = describe_tenants(merge_traces(traces))
    for name, trace in traces.items():
        assert by_tenant[name]["gap_cv"] == pytest.approx(describe(trace)["gap_cv"], abs=1e-12)
