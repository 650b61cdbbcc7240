"""Paged KV, preemption, whole prompts: the engine arrives at the oracle's numbers, to the bit."""

import naive
import pytest
from compare import as_oracle_takes_it, assert_same
from hypothesis import given, settings
from paged_cases import cases, comparable, run_engine
from pandas.testing import assert_frame_equal
from test_engine_equals_oracle import EXAMPLES

from vecsched.errors import ConfigError

DISCIPLINES = ("vllm", "sarathi", "prefill_first", "orca")
WEIGHED = settings(EXAMPLES, max_examples=300)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_engine_equals_oracle(discipline):
    @EXAMPLES
    @given(cases(discipline))
    def compare(case):
        records, config, cost, options = case
        theirs = naive.simulate(records, as_oracle_takes_it(config), cost.to_dict(), options)
        if nothing_fits(theirs):
            with pytest.raises(ConfigError, match="cannot hold any request"):
                run_engine(records, config, cost, options, logged=False)
            return
        result = run_engine(records, config, cost, options, logged=True)
        ours = comparable(result)
        assert_same(ours, comparable(theirs))
        naive.check_invariants(records, as_oracle_takes_it(config), ours)
        assert_log_changes_nothing(result, run_engine(records, config, cost, options, logged=False))

    compare()


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_the_cases_are_worth_their_name(discipline):
    # About one in three preempts: weighed at a number of its own, for the first of the examples are
    # the simplest.
    preempting = []

    @WEIGHED
    @given(cases(discipline))
    def weigh(case):
        records, config, cost, options = case
        theirs = naive.simulate(records, as_oracle_takes_it(config), cost.to_dict(), options)
        preempting.append(theirs["summary"]["preemptions"] > 0)

    weigh()
    if discipline == "orca":
        assert not any(preempting)
    else:
        assert sum(preempting) >= len(preempting) // 8


def nothing_fits(theirs):
    """Whether only the KV capacity keeps the requests out, and keeps all of them out."""
    reasons = {row["reason"] for row in theirs["requests"]}
    return "kv_blocks" in reasons and not reasons & {"", "token_budget"}


def assert_log_changes_nothing(logged, unlogged):
    assert unlogged.iterations is None
    assert repr(unlogged.summary) == repr(logged.summary)  # every digit, and NaN is NaN
    assert_frame_equal(unlogged.requests, logged.requests, check_exact=True)
    assert_frame_equal(unlogged.stretches, logged.stretches, check_exact=True)
