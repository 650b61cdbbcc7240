"""Fair queueing and the tenants' metrics: engine and oracle give the same numbers, to the bit."""

from dataclasses import replace

import naive
import paged_cases
import pytest
import test_engine_equals_oracle as reserving_cases
from compare import as_oracle_takes_it, assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from naive.disciplines import DISCIPLINES, PAGED
from paged_cases import comparable, run_engine
from test_engine_equals_oracle import EXAMPLES, UNITS_S, costs, metric_options
from test_paged_equals_oracle import assert_log_changes_nothing, nothing_fits

from vecsched.config import ENGINES
from vecsched.errors import ConfigError

FAIR = ("vtc", "drr", "wfq")
BY_PREDICTION = ("shortest_output", "shortest_total", "longest_total", "aging")

WEIGHED = settings(EXAMPLES, max_examples=300)

# From a fraction of the smallest prompt to more than a tenant ever asks for.
quanta = st.one_of(st.integers(1, 12), st.sampled_from([1, 30, 100, 2000]))
weights = st.sampled_from(["0.1", "0.5", "1", "1.7", "2", "3", "1000"])


@st.composite
def tenants(draw, records):
    """A label for each request: by lot, in turns, or a flood of one beside a few of the others."""
    names = draw(st.permutations("abcd"))[: draw(st.sampled_from([2, 2, 2, 3, 4, 1]))]
    shape = draw(st.sampled_from(["by lot", "turns", "flood"]))
    if shape == "turns":
        return [names[i % len(names)] for i in range(len(records))]
    choices = names if shape == "by lot" else [names[0]] * 9 + names
    return [draw(st.sampled_from(choices)) for _ in records]


@st.composite
def tenant_weights(draw):
    """Weights of some tenants, and perhaps of one that never comes."""
    named = draw(st.lists(st.sampled_from("abcdz"), unique=True, max_size=3))
    return ",".join(f"{name}={draw(weights)}" for name in named)


@st.composite
def cases(draw, discipline, policy):
    """Cases of the static policies, with tenants, weights and predictions."""
    unit = draw(st.sampled_from(UNITS_S))
    if discipline in (*PAGED, "orca"):
        records = draw(paged_cases.traces(unit))
        config = draw(paged_cases.configurations(discipline, records, unit))
    else:
        records = draw(reserving_cases.traces(unit, policy))
        config = draw(reserving_cases.configurations(discipline, "fcfs", unit))
    if draw(st.booleans()):  # all compete from the first arrival on
        first = min(record["arrival_s"] for record in records)
        records = [{**record, "arrival_s": first} for record in records]
    labels = draw(tenants(records))
    records = [{**r, "tenant": label} for r, label in zip(records, labels, strict=True)]
    prediction = draw(st.sampled_from(["oracle", "column", "error"]))
    if prediction == "column":
        guesses = st.integers(1, 60)
        records = [{**record, "predicted_output_tokens": draw(guesses)} for record in records]
    config = replace(
        config,
        policy=f"drr({draw(quanta)})" if policy == "drr" else policy,
        lookahead=0 if policy in FAIR else config.lookahead,
        tenant_weights=draw(tenant_weights()),
        prediction_error=draw(st.sampled_from([0.1, 1.0, 3.0])) if prediction == "error" else 0.0,
        prediction_seed=draw(st.integers(0, 2**31 - 1)),
    )
    return records, config, draw(costs(unit).filter(takes_time)), draw(metric_options(unit))


def takes_time(cost):
    """Whether every iteration does: what tenants have received is told at instants."""
    terms = cost.to_dict()
    return all((terms[kind] or terms["decode"])["fixed_s"] > 0 for kind in ("decode", "mixed"))


def assert_engine_equals_oracle(case):
    records, config, cost, options = case
    theirs = naive.simulate(records, as_oracle_takes_it(config), cost.to_dict(), options)
    if config.discipline in ENGINES and nothing_fits(theirs):
        with pytest.raises(ConfigError, match="cannot hold any request"):
            run_engine(records, config, cost, options, logged=False)
        return
    result = run_engine(records, config, cost, options, logged=True)
    ours = comparable(result)
    assert_same(ours, comparable(theirs))
    naive.check_invariants(records, as_oracle_takes_it(config), ours)
    assert_log_changes_nothing(result, run_engine(records, config, cost, options, logged=False))


def cases_of(discipline):
    policies = st.sampled_from([*FAIR, *FAIR, *BY_PREDICTION])
    return policies.flatmap(lambda policy: cases(discipline, policy))


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_engine_equals_oracle(discipline):
    @EXAMPLES
    @given(cases_of(discipline))
    def compare(case):
        assert_engine_equals_oracle(case)

    compare()


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_the_cases_are_worth_their_name(discipline):
    # Tenants compete, and many cases preempt: weighed at a number of its own, for the first of the
    # examples are the simplest.
    summaries = []

    @WEIGHED
    @given(cases_of(discipline))
    def weigh(case):
        records, config, cost, options = case
        theirs = naive.simulate(records, as_oracle_takes_it(config), cost.to_dict(), options)
        summaries.append(theirs["summary"])

    weigh()
    competing = [s["backlogged_service_difference_max"] > 0 for s in summaries]
    preempting = [s["preemptions"] > 0 for s in summaries]
    assert sum(competing) >= len(summaries) / 5
    assert (sum(preempting) >= len(summaries) / 5) == (discipline in PAGED)
