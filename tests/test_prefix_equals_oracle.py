"""Prefix caching, asynchronous scheduling: engine and oracle give the same numbers, to the bit."""

import naive
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from naive.prefix_metrics import prefix_hit_rate_by_tenant
from paged_cases import comparable
from prefix_cases import cases, run_engine, run_oracle
from test_engine_equals_oracle import EXAMPLES
from test_fair_equals_oracle import takes_time, tenants
from test_paged_equals_oracle import assert_log_changes_nothing, nothing_fits

from vecsched.errors import ConfigError


def assert_engine_equals_oracle(case):
    theirs = run_oracle(case)
    if nothing_fits(theirs):
        with pytest.raises(ConfigError, match="cannot hold any request"):
            run_engine(case, logged=False)
        return
    result = run_engine(case, logged=True)
    ours = comparable(result)
    assert_same(ours, comparable(theirs))
    naive.check_invariants(case.records, case.config.to_dict() | case.switches, ours)
    assert_log_changes_nothing(result, run_engine(case, logged=False))


# That the cases are worth their name is weighed in test_naive_prefix.py.


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_engine_equals_oracle(shared, asynchronous):
    @EXAMPLES
    @given(cases(shared=shared, asynchronous=asynchronous))
    def compare(case):
        assert_engine_equals_oracle(case)

    compare()


def test_asynchronous_without_a_cache():
    @EXAMPLES
    @given(cases(shared=False, asynchronous=True, caching=False))
    def compare(case):
        assert_engine_equals_oracle(case)

    compare()


@st.composite
def fair_cases(draw):
    every_kind = cases(shared=True, asynchronous=draw(st.booleans()))
    case = draw(every_kind.filter(lambda case: takes_time(case.cost)))
    labels = draw(tenants(case.records))
    records = [{**r, "tenant": own} for r, own in zip(case.records, labels, strict=True)]
    policy = draw(st.sampled_from(["vtc", "drr(7)", "wfq"]))
    return case._replace(records=records, config=case.config.replace(policy=policy, lookahead=0))


def test_fair_policies():
    @EXAMPLES
    @given(fair_cases())
    def compare(case):
        theirs = run_oracle(case)
        if nothing_fits(theirs):
            return
        result = run_engine(case, logged=True)
        assert_same(comparable(result), comparable(theirs))

    compare()


def test_tenants_have_the_oracles_hit_rates():
    @EXAMPLES
    @given(cases(shared=True, asynchronous=False))
    def compare(case):
        labels = ["ab"[row % 2] for row in range(len(case.records))]
        records = [{**r, "tenant": own} for r, own in zip(case.records, labels, strict=True)]
        case = case._replace(records=records)
        theirs = run_oracle(case)
        if nothing_fits(theirs):
            return
        tenants = run_engine(case, logged=False).tenants.set_index("tenant")
        rates = prefix_hit_rate_by_tenant(theirs["requests"])
        assert repr(tenants["prefix_hit_rate"].to_dict()) == repr(
            {name: rates[name] for name in tenants.index}
        )

    compare()
