"""Sweeps: what the driver adds to the simulations, and what a second thread is worth."""

from itertools import product

from ledger import Bar
from timing import OtherLoad, compare, compared, in_cpu_seconds
from workload import AFFINE, COST, REQUESTS, SHAPE

from sweeps.run import RunOptions, run_sweep
from sweeps.spec import SweepSpec
from sweeps.workloads import SyntheticSpec, generate
from vecsched import SchedulerConfig, simulate

ONE_WORKER, TWO_WORKERS = RunOptions(workers=1), RunOptions(workers=2)

LENGTHS = {"distribution": "lognormal", "sigma": SHAPE}
TRACE = {
    "requests": REQUESTS,
    "rate_per_s": 9,  # about what saturates 256 slots
    "prompt": {"mean": 1_000} | LENGTHS,
    "output": {"mean": 200} | LENGTHS,
}
BASE = {"kv_blocks": 26_000}
LOADS = [0.5, 0.9, 1.1, 1.5]
AXES = {
    "policy": ["fcfs", "shortest_prompt", "shortest_total", "longest_total", "aging(100)"],
    "max_batch_size": [32, 64, 128, 256],
    "max_num_batched_tokens": [1_024, 1_536, 2_048, 3_072, 4_096],
    "prefill_chunk_size": [128, 192, 256, 384, 512],
}


def spec_of(axes: dict) -> SweepSpec:
    values = {"trace": {"synthetic": TRACE}, "cost": {"affine": AFFINE}, "base": BASE}
    return SweepSpec.from_mapping({**values, "axes": {"load": LOADS, **axes}})


@in_cpu_seconds
def test_sweep_against_one_by_one(benchmark, ledger, tmp_path):
    spec = spec_of(AXES)

    def one_by_one() -> None:
        trace = generate(SyntheticSpec.from_mapping(TRACE))
        for load in LOADS:
            scaled = trace.scaled(load)
            for values in product(*AXES.values()):
                knobs = dict(zip(AXES, values, strict=True))
                simulate(scaled, SchedulerConfig(**BASE, **knobs), COST)

    def sweep() -> None:
        outcome = run_sweep(spec, tmp_path / "out.parquet", ONE_WORKER)
        assert (outcome.points, outcome.failed) == (2_000, 0)

    times = compare(benchmark, sweep, one_by_one, 2)
    what = "a sweep of 2,000 / one by one"
    ledger.note(what, times.ratio, Bar(1.2), **times.remarks)


def test_two_threads_against_one(ledger, tmp_path):
    """The shortest wall time of five, simulations and rows; other load spoils this first."""
    spec = spec_of(
        AXES | {"max_num_batched_tokens": [1_024, 2_048, 4_096], "prefill_chunk_size": [256]}
    )

    def seconds(options: RunOptions) -> float:
        return run_sweep(spec, tmp_path / "out.parquet", options).seconds

    seconds(TWO_WORKERS)
    with OtherLoad() as load:
        turns = [(seconds(ONE_WORKER), seconds(TWO_WORKERS)) for _ in range(5)]
    one, two = (list(times) for times in zip(*turns, strict=True))
    times = compared(one, two, load, typical=min)
    bar = Bar(1.8, at_least=True)
    ledger.note("1 thread / 2 threads, 240 points", times.ratio, bar, **times.remarks)
