"""simulate as a whole: the ends of the clock, memory that is used again, threads, compilation."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from compare import assert_same, in_oracle_shape, same, simulate_both

from vecsched import DISCIPLINES, CostModel, RequestTable, SchedulerConfig, Trace, simulate
from vecsched._jit import JIT_ENABLED
from vecsched.boundary import advance_iteration, form_iteration_batch, iteration_token_demand
from vecsched.errors import ClockOverflowError, SimulationError
from vecsched.metrics import MetricOptions

COST = CostModel.affine(0.01, 0.0002, 0.001, 1e-6, 1e-9)
REQUESTS = 60 if JIT_ENABLED else 30


def columns(seed=0, n=REQUESTS):
    """Columns of a workload in which everything happens; no two arrivals are the same."""
    draw = np.random.default_rng(seed)
    arrival_s = np.cumsum(draw.exponential(0.2, n))
    return {
        "arrival_s": arrival_s,
        "prompt_tokens": draw.integers(1, 90, n),
        "output_tokens": draw.integers(1, 60, n),
        "priority": draw.integers(0, 3, n),
        "deadline_s": arrival_s + draw.random(n),
        "cancel_at_s": np.where(draw.random(n) < 0.1, arrival_s + 0.3, np.nan),
        "id": np.arange(n),
    }


# Settings that differ in what is kept with a trace: chunks larger than the budget, KV by other
# lengths, orders, ends.
BASE = SchedulerConfig(max_batch_size=6, max_num_batched_tokens=64, prefill_chunk_size=48)
SETTINGS = [
    BASE,
    BASE.replace(max_num_batched_tokens=20, max_batch_size=2),
    BASE.replace(kv_blocks=20, lookahead=2, policy="shortest_total"),
    BASE.replace(kv_blocks=30, max_tokens=60, policy="priority", timeout_s=1.5),
    BASE.replace(policy="edf", max_wait_s=0.4, block_size=4, kv_blocks=40),
    BASE.replace(policy="aging(20)", max_prefill_tokens=50),
    BASE.replace(discipline="static", policy="longest_total"),
    BASE.replace(discipline="static", max_num_batched_tokens=20, kv_blocks=20),
]


def told(trace, config, log_iterations=True):
    """All that a run says, as values that can be compared."""
    return in_oracle_shape(simulate(trace, config, COST, log_iterations))


def assert_equal_runs(runs, others):
    for ours, theirs in zip(runs, others, strict=True):
        assert ours["iterations"] == theirs["iterations"]
        for mine, other in zip(
            [ours["summary"], *ours["requests"]],
            [theirs["summary"], *theirs["requests"]],
            strict=True,
        ):
            assert mine.keys() == other.keys()
            assert all(same(mine[name], other[name]) for name in mine), (mine, other)


# The clock.


def test_a_request_that_could_outlast_the_clock_is_refused():
    # 12 iterations of a million seconds; the clock holds 2^62 ps = 4.6 million.
    slow = CostModel.affine(1e6, 0.0, 0.0, 0.0)
    with pytest.raises(
        ClockOverflowError, match=r"1 prompt and 10 output tokens could take 1\.2e\+07"
    ):
        simulate(Trace([0.0], [1], [10]), BASE, slow)


def test_a_run_that_leaves_the_clock():
    # One after another, 900,000 s each: five fit into 4.61 million seconds, the sixth does not.
    one_slot = BASE.replace(max_batch_size=1)

    def run(n):
        return simulate(Trace([0.0] * n, [1] * n, [900_000] * n), one_slot, CostModel.unit())

    assert run(5).summary["makespan_s"] == 4_500_000.0
    with pytest.raises(
        ClockOverflowError, match=r"after 5400000 iterations simulated time is 5400000"
    ):
        run(6)
    with pytest.raises(SimulationError):
        simulate(Trace([4_600_000.0], [1], [20_000]), one_slot, CostModel.unit())


# The record.


@pytest.mark.parametrize("discipline", ["strict", "static"])
def test_a_record_that_has_to_grow(discipline):
    # Prompts in chunks of one token: over 4,000 lines for two requests, where 1,032 are set aside.
    records = [
        {"arrival_s": 0.0, "prompt_tokens": 4000, "output_tokens": 3},
        {"arrival_s": 0.0095, "prompt_tokens": 300, "output_tokens": 80},
    ]
    config = SchedulerConfig(discipline=discipline, prefill_chunk_size=1, max_batch_size=2)
    ours, theirs = simulate_both(records, config, CostModel.affine(1e-3, 5e-4, 2e-4, 1e-6))
    assert len(theirs["iterations"]) > 4000
    assert_same(ours, theirs)


def test_a_result_outlives_later_runs():
    """Tables are built when asked for, from a record that nobody else may have used meanwhile."""
    trace = Trace(**columns())
    early = [simulate(trace, config, COST, True) for config in SETTINGS]
    expected = [told(trace, config) for config in SETTINGS]
    assert_equal_runs([in_oracle_shape(result) for result in early], expected)


def test_nothing_depends_on_what_ran_before():
    fresh = [told(Trace(**columns()), config) for config in SETTINGS]
    trace = Trace(**columns())
    for order in (SETTINGS, SETTINGS[::-1], SETTINGS):
        runs = {config: told(trace, config) for config in order}
        assert_equal_runs([runs[config] for config in SETTINGS], fresh)


def test_the_log_changes_nothing():
    trace = Trace(**columns())
    for config in SETTINGS:
        logged, plain = simulate(trace, config, COST, True), simulate(trace, config, COST)
        assert plain.iterations is None
        assert plain.requests.equals(logged.requests)
        assert plain.stretches.equals(logged.stretches)
        assert all(same(plain.summary[name], logged.summary[name]) for name in logged.summary)


def test_two_threads_are_as_good_as_one():
    trace = Trace(**columns())
    one_by_one = [told(trace, config) for config in SETTINGS * 3]
    shared_trace = Trace(**columns())  # its derived columns are not there yet
    with ThreadPoolExecutor(2) as pool:
        at_once = list(pool.map(lambda config: told(shared_trace, config), SETTINGS * 3))
    assert_equal_runs(at_once, one_by_one)


# The order of rows.


@pytest.mark.parametrize("config", SETTINGS)
def test_rows_in_any_order(config):
    given = columns()
    order = np.random.default_rng(3).permutation(REQUESTS)
    sorted_run = simulate(Trace(**given), config, COST, True)
    trace = Trace(**{name: column[order] for name, column in given.items()})
    run = simulate(trace, config, COST, True)
    assert trace.backward_steps > 0
    assert run.requests.sort_values("id", ignore_index=True).equals(sorted_run.requests)
    assert all(same(run.summary[name], sorted_run.summary[name]) for name in run.summary)
    # The log speaks of the rows as they were given.
    for ours, theirs in zip(
        run.iterations["scheduled"], sorted_run.iterations["scheduled"], strict=True
    ):
        assert [(order[row], tokens) for row, tokens in ours] == theirs


# Compilation.


def varied_calls():
    """Call everything with whatever types a caller may come with."""
    given = columns(n=12)
    writable = Trace(**given)
    for column in given.values():
        column.flags.writeable = False
    plain = {name: given[name].tolist() for name in ("arrival_s", "prompt_tokens", "output_tokens")}
    traces = [
        writable,
        Trace(**given),
        Trace(**plain),
        Trace([0, 1], np.array([4, 5], np.int32), np.array([3.0, 1.0])),
        Trace(**plain, kv_blocks=np.arange(12, dtype=np.uint8)[::-1]).scaled(2),
    ]
    costs = [
        COST,
        CostModel.unit(),
        CostModel.affine(1, 0, 0, 0),
        CostModel.preset("llama3-8b-a100"),
    ]
    options = [MetricOptions(), MetricOptions(ttft_slo_s=1, starvation_s=np.float32(2), warmup=0)]
    for trace in traces:
        for cost, metrics in zip(costs, options * 2, strict=True):
            for discipline in DISCIPLINES:
                config = SchedulerConfig(
                    discipline=discipline, max_batch_size=np.int32(3), timeout_s=5, max_wait_s=1
                )
                for log_iterations in (False, True, np.bool_(True), 1):
                    result = simulate(trace, config, cost, log_iterations, metrics=metrics)
                    assert result.requests is not None
                    assert result.stretches is not None
                    assert result.iterations is not None or not log_iterations
    for config in SETTINGS:
        simulate(writable, config, COST)
    boundary_calls()


def boundary_calls():
    record = {"remaining_prefill_tokens": 4, "remaining_decode_tokens": 2, "kv_blocks": 1}
    records = [{"id": i, "phase": "prefill", "status": "waiting", **record} for i in range(3)]
    table, nothing = RequestTable.from_records(records), RequestTable.from_records([])
    read_only = table.take(slice(None))
    for name in ("phase", "status", *record):
        getattr(read_only, name).flags.writeable = False
    for waiting in (table, nothing, read_only, table.take(np.array([2, 0]))):
        for number in (int, np.int32, np.int64):
            report = form_iteration_batch(nothing, waiting, *map(number, (4, 9, 99, 4)))
            advance_iteration(report.batch)
            form_iteration_batch(report.batch, waiting, *map(number, (9, 9, 99, 4)))
            iteration_token_demand(waiting, number(4))


def print_signatures():
    """Print how many signatures each entry point has been compiled for, as JSON."""
    varied_calls()
    modules = [module for name, module in sys.modules.items() if name.startswith("vecsched.")]
    found = {
        f"{value.py_func.__module__}.{value.__name__}": len(value.signatures)
        for module in modules
        for value in vars(module).values()
        if hasattr(value, "signatures") and not value.targetoptions["no_cpython_wrapper"]
    }
    sys.stdout.write(json.dumps(found))


@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_each_entry_point_is_compiled_once():
    # In a process of its own, so that it is these calls that count.
    program = "import test_simulation; test_simulation.print_signatures()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    counts = json.loads(done.stdout)
    assert len(counts) > 10
    assert {name: count for name, count in counts.items() if count > 1} == {}
