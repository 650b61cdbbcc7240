"""Policies: the order in which the queue is served, against the oracle and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive.policies import POLICIES as NAIVE_POLICIES
from naive.policies import policy_key
from naive.predictions import blurred

from vecsched import POLICIES, SchedulerConfig, Trace
from vecsched import policies as vecsched_policies
from vecsched.clock import to_ps
from vecsched.errors import ConfigError
from vecsched.policies import as_believed, order_of, parse_policy, predicted_output

# Quarters, so that sums are exact, and few of them, so that there are ties.
quarters = st.integers(0, 8).map(lambda n: n / 4)
request = st.fixed_dictionaries(
    {
        "arrival_s": quarters,
        "prompt_tokens": st.integers(0, 4),
        "output_tokens": st.integers(0, 4),
        "priority": st.integers(-2, 2),
        "deadline_s": quarters | st.just(math.nan),
        "engine_time_s": quarters,
    }
)
requests = st.lists(request, min_size=1, max_size=12)
policy_names = st.sampled_from([*NAIVE_POLICIES, "aging(0)", "aging(2.5)", "random(7)", " edf "])


def trace_of(records, without=()) -> Trace:
    columns = {name: [record[name] for record in records] for name in records[0]}
    return Trace(**{name: column for name, column in columns.items() if name not in without})


def rows_served(trace: Trace, policy: str) -> list[int]:
    return trace.order[order_of(trace, policy)].tolist()


@given(requests, policy_names, st.booleans())
def test_the_order_is_the_oracles(records, policy, has_engine_time):
    if not has_engine_time:
        records = [{**record, "engine_time_s": 0.0} for record in records]
    trace = trace_of(records, without=() if has_engine_time else ("engine_time_s",))

    def served_before(row):
        return policy_key(policy, row, records[row]), to_ps(records[row]["arrival_s"]), row

    assert rows_served(trace, policy) == sorted(range(len(records)), key=served_before)


@given(requests, quarters, quarters)
def test_aging_is_the_same_order_at_every_instant(records, rate, later):
    # As it is defined, at some instant after the last arrival: tokens - rate x seconds waited.
    now = 2.0 + later

    def urgency(row):
        record = records[row]
        tokens = record["prompt_tokens"] + record["output_tokens"]
        return tokens - rate * (now - record["arrival_s"]), record["arrival_s"], row

    served = rows_served(trace_of(records), f"aging({rate})")
    assert served == sorted(range(len(records)), key=urgency)


FOUR = Trace(
    [0.0, 2.0, 1.0, 1.0],
    [5, 1, 9, 1],
    [1, 8, 2, 8],
    priority=[0, 0, -1, 1],
    deadline_s=[9.0, math.nan, 9.0, 3.0],
)


@pytest.mark.parametrize(
    ("policy", "rows"),
    [
        ("fcfs", [0, 2, 3, 1]),  # rows 2 and 3 arrive together
        ("shortest_prompt", [3, 1, 0, 2]),  # 1 at 1 s, 1 at 2 s, 5, 9
        ("shortest_output", [0, 2, 3, 1]),  # 1, 2, 8 at 1 s, 8 at 2 s
        ("shortest_total", [0, 3, 1, 2]),  # 6, 9, 9, 11
        ("longest_total", [2, 3, 1, 0]),
        ("priority", [2, 0, 1, 3]),  # -1, 0 at 0 s, 0 at 2 s, 1
        ("deadline", [3, 0, 2, 1]),  # 3, 9 at 0 s, 9 at 1 s, none
        ("edf", [3, 0, 2, 1]),
        ("aging(2)", [0, 3, 2, 1]),  # tokens + 2 x arrival: 6, 9 + 4, 11 + 2, 9 + 2
        ("aging(0)", [0, 3, 1, 2]),
    ],
)
def test_orders_by_hand(policy, rows):
    # aging(2): 6; row 3: 11; rows 2 and 1 both 13, and row 2 arrived first.
    assert rows_served(FOUR, policy) == rows


def test_equal_priorities_go_by_the_engines_time_stamp():
    large = 2**53  # neighbours that float64 cannot tell apart
    trace = Trace(
        [0.0, 1.0, 2.0, 3.0],
        [1] * 4,
        [1] * 4,
        priority=[large + 1, large, large + 1, large],
        engine_time_s=[0.5, 0.5, 0.25, 0.5],
    )
    assert rows_served(trace, "priority") == [1, 3, 2, 0]


def test_lots_are_those_of_splitmix64():
    # The generator's first outputs from seed 0, as its authors publish them.
    lots = vecsched_policies.random(Trace([0.0] * 3, [1] * 3, [1] * 3), 0.0)
    assert lots.tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert lots.dtype == np.uint64


def test_a_fair_policy_keeps_each_tenants_own_order():
    # Tenants are numbered by their first arrival: b at 0 s, then a.
    trace = Trace([3.0, 0.0, 1.0, 2.0], [1] * 4, [1] * 4, tenant=["b", "b", "a", "a"])
    for policy in ("vtc", "drr(5)", "wfq"):
        assert rows_served(trace, policy) == [1, 0, 2, 3]


def test_every_seed_draws_another_order():
    trace = Trace([0.0] * 8, [1] * 8, [1] * 8)
    orders = {tuple(rows_served(trace, f"random({seed})")) for seed in range(20)}
    assert len(orders) == 20
    assert rows_served(trace, "random") == rows_served(trace, "random(0)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fcfs", ("fcfs", 0.0)),
        ("  edf ", ("edf", 0.0)),
        ("aging", ("aging", 100.0)),
        ("aging(0)", ("aging", 0.0)),
        ("aging ( 2.5 )", ("aging", 2.5)),
        ("aging(1e3)", ("aging", 1000.0)),
        ("random", ("random", 0.0)),
        ("random(12)", ("random", 12.0)),
        ("drr", ("drr", 2000.0)),
        ("drr(1)", ("drr", 1.0)),
    ],
)
def test_what_a_policy_is_called(text, expected):
    assert parse_policy(text) == expected


NUMBER = "a number from 0 to 9007199254740991"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fcsf", "unknown policy 'fcsf'; did you mean 'fcfs'?"),
        ("agin(5)", "unknown policy 'agin(5)'; did you mean 'aging'?"),
        ("", f"unknown policy ''; known: {', '.join(POLICIES)}"),
        ("aging(1", "unknown policy 'aging(1'; did you mean 'aging'?"),
        (None, f"unknown policy None; known: {', '.join(POLICIES)}"),
        ("fcfs(1)", "policy 'fcfs' takes no parameter, but 'fcfs(1)' gives one"),
        ("fcfs()", "policy 'fcfs' takes no parameter, but 'fcfs()' gives one"),
        ("aging()", f"policy 'aging()': the parameter must be {NUMBER}, not ''"),
        ("aging(fast)", f"policy 'aging(fast)': the parameter must be {NUMBER}, not 'fast'"),
        ("aging(-1)", f"policy 'aging(-1)': the parameter must be {NUMBER}, not '-1'"),
        ("aging(nan)", f"policy 'aging(nan)': the parameter must be {NUMBER}, not 'nan'"),
        ("aging(inf)", f"policy 'aging(inf)': the parameter must be {NUMBER}, not 'inf'"),
        (
            "random(1.5)",
            "policy 'random(1.5)': the parameter must be a whole number from 0 to "
            "9007199254740991, not '1.5'",
        ),
        # Tenants that may never spend would wait for ever.
        (
            "drr(0)",
            "policy 'drr(0)': the parameter must be a whole number from 1 to 2147483647, not '0'",
        ),
    ],
)
def test_what_a_policy_is_not_called(text, problem):
    for refuse in (parse_policy, lambda policy: SchedulerConfig(policy=policy)):
        with pytest.raises(ConfigError) as caught:
            refuse(text)
        assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("policy", "column"),
    [("priority", "priority"), ("deadline", "deadline_s"), ("edf", "deadline_s")],
)
def test_a_missing_column_is_named(policy, column):
    with pytest.raises(ConfigError) as caught:
        order_of(Trace([0.0], [1], [1]), policy)
    expected = f"policy {policy!r} needs the trace column {column!r}, which is missing"
    assert str(caught.value) == expected


# What policies believe of an output


def test_without_an_error_the_prediction_is_the_truth_or_the_column():
    assert as_believed(FOUR, 0.0, 0) is FOUR
    trace = Trace([0.0, 0.0], [1, 1], [9, 1], predicted_output_tokens=[2, 3])
    assert as_believed(trace, 0.0, 5).output_tokens.tolist() == [2, 3]
    assert rows_served(as_believed(trace, 0.0, 5), "shortest_output") == [0, 1]
    assert rows_served(trace, "shortest_output") == [1, 0]


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=20), st.integers(0, 2**31 - 1))
def test_a_blurred_prediction_is_the_oracles(outputs, seed):
    trace = Trace([0.0] * len(outputs), [1] * len(outputs), outputs)
    expected = [
        blurred(row, {"output_tokens": output}, 0.5, seed) for row, output in enumerate(outputs)
    ]
    assert predicted_output(trace, 0.5, seed).tolist() == expected


def test_a_prediction_of_the_trace_is_not_blurred_again():
    trace = Trace([0.0], [1], [1], predicted_output_tokens=[2])
    with pytest.raises(ConfigError, match="but the trace has predicted_output_tokens"):
        predicted_output(trace, 0.1, 0)


def test_every_policy_is_in_the_documentation():
    assert vecsched_policies.__doc__ is not None
    for name in POLICIES:
        assert f"`{name}" in vecsched_policies.__doc__, name
