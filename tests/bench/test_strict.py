"""`strict`, kernel and complete summary, against the reference points."""

from dataclasses import fields

import pytest
import simpy_model
from floor import Floor
from ledger import Bar
from step import Step
from timing import compare, in_cpu_seconds
from workload import AFFINE, CONFIG, COST, LOADS, Lengths, trace_at

from vecsched import Trace, simulate
from vecsched.assembly import RunOptions, assemble
from vecsched.disciplines import strict
from vecsched.kernels.engine import FINISHED, Engine
from vecsched.pool import RecordPool

pytestmark = in_cpu_seconds
at_each_load = pytest.mark.parametrize("load", LOADS)


@at_each_load
def test_against_floor(benchmark, ledger, load):
    trace = trace_at(load)
    times = compare(benchmark, lambda: simulate(trace, CONFIG, COST), Floor(trace, CONFIG), 40)
    ledger.note(f"strict / floor, load {load}", times.ratio, Bar(4), **times.remarks)


@at_each_load
def test_first_run_over_a_trace_against_floor(benchmark, ledger, load):
    """What only depends on the trace is kept for the next run over it; here nothing is yet."""
    trace = trace_at(load)
    columns = {column.name: getattr(trace, column.name) for column in fields(Trace)}
    times = compare(
        benchmark,
        lambda new: simulate(new, CONFIG, COST),
        Floor(trace, CONFIG),
        20,
        fresh=lambda: Trace(**columns),
    )
    ledger.note(f"strict, a new trace / floor, load {load}", times.ratio, **times.remarks)


@at_each_load
def test_kernel_alone_against_floor(benchmark, ledger, load):
    """What is left to the simulation itself: no summary, no columns to lay out."""
    trace, records = trace_at(load), RecordPool()

    def laid_out() -> Engine:
        record = records.borrow(4 * len(trace) + 1_024, CONFIG.max_batch_size, False)
        records.give_back(record)  # memory that has been written to, as in a sweep
        return assemble(trace, CONFIG, COST, record, RunOptions())

    def run(engine: Engine) -> None:
        assert strict.run(engine) == FINISHED

    times = compare(benchmark, run, Floor(trace, CONFIG), 40, fresh=laid_out)
    ledger.note(f"strict, kernel alone / floor, load {load}", times.ratio, **times.remarks)


@at_each_load
def test_against_step(benchmark, ledger, load):
    trace = trace_at(load)
    times = compare(
        benchmark, lambda: simulate(trace, CONFIG, COST), Step(trace, CONFIG, AFFINE), 20
    )
    bar = Bar(5, at_least=True) if load < 1 else None
    ledger.note(f"step / strict, load {load}", times.speedup, bar, **times.remarks)


@at_each_load
def test_against_simpy(benchmark, ledger, load):
    trace = trace_at(load)
    times = compare(
        benchmark,
        lambda: simulate(trace, CONFIG, COST),
        lambda: simpy_model.run(trace, CONFIG, AFFINE),
        3,
    )
    bar = Bar(300, at_least=True)
    ledger.note(f"simpy / strict, load {load}", times.speedup, bar, **times.remarks)


@at_each_load
def test_outputs_ten_times_longer(benchmark, ledger, load):
    """The load is the same share of what saturates each of the two workloads."""
    short, long = trace_at(load), trace_at(load, Lengths(mean_output=2_000))
    times = compare(
        benchmark,
        lambda: simulate(long, CONFIG, COST),
        lambda: simulate(short, CONFIG, COST),
        20,
    )
    ledger.note(f"outputs 10 x longer, load {load}", times.ratio, Bar(1.5), **times.remarks)


@at_each_load
def test_a_million_requests(benchmark, ledger, load):
    few, many = trace_at(load, Lengths(10_000)), trace_at(load, Lengths(1_000_000))
    times = compare(
        benchmark, lambda: simulate(many, CONFIG, COST), lambda: simulate(few, CONFIG, COST), 5
    )
    per_request = times.ratio * len(few) / len(many)
    what = f"1,000,000 requests / 10,000, each, load {load}"
    ledger.note(what, per_request, Bar(2), **times.remarks)
