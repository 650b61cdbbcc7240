"""The search for the highest load: its answer, what it says broke, and how often it runs."""

import math
from types import SimpleNamespace

import pytest

from sweeps.capacity import CapacitySearch, Criterion, _highest
from sweeps.spec import load_spec
from vecsched import CostModel, MetricOptions, SchedulerConfig, Trace, simulate
from vecsched.errors import ClockOverflowError, ConfigError

# 11 requests in 10 s: 1 a second.
TRACE = Trace([float(n) for n in range(11)], [10] * 11, [5] * 11)
OPTIONS = MetricOptions(ttft_slo_s=2, tpot_slo_s=0.1)


def at(load, **summary):
    """A server whose objectives depend on the load as told; others are met with ease."""
    fine = {"ttft_p99_s": 0.1, "tpot_p99_s": 0.01, "e2e_p99_s": 1.0, "slo_attainment": 1.0}
    return SimpleNamespace(summary=fine | {name: value(load) for name, value in summary.items()})


DEFAULT = Criterion()


def search(criterion=DEFAULT, **summary):
    runs = []

    def run(trace, config, cost, *, metrics):
        runs.append(10 / (trace.arrival_s[-1] - trace.arrival_s[0]))
        return at(runs[-1], **summary)

    found = CapacitySearch(criterion, run)(
        TRACE, SchedulerConfig(), CostModel.unit(), metrics=OPTIONS
    ).summary
    assert found["simulations"] == len(runs) == len(set(runs))
    return found


@pytest.mark.parametrize("limit", [0.02, 0.3, 0.999, 1.0, 1.7, 3.3, 1000])
@pytest.mark.parametrize("tolerance", [0.001, 0.01, 0.1])
def test_the_answer_is_within_the_tolerance(limit, tolerance):
    criterion = Criterion(tolerance=tolerance)
    found = search(criterion, ttft_p99_s=lambda load: 2 * load / limit)
    assert limit / (1 + tolerance) <= found["capacity_load"] * (1 + 1e-12)
    assert found["capacity_load"] <= limit * (1 + 1e-12)
    assert found["capacity_requests_per_s"] == pytest.approx(found["capacity_load"])
    assert found["broke_first"] == "ttft_p99_s"
    # The summary is that of the run at the capacity: ttft is 2 s x capacity / limit.
    assert found["ttft_p99_s"] == pytest.approx(2 * found["capacity_load"] / limit)
    # Ten doublings at most, and then a bisection of the steps of one octave.
    assert found["simulations"] <= 12 + math.log2(criterion.steps)


@pytest.mark.parametrize(
    ("summary", "first"),
    [
        ({"tpot_p99_s": lambda load: 0.03 * load}, "tpot_p99_s"),
        ({"slo_attainment": lambda load: 1 - 0.005 * load}, "slo_attainment"),
        # At the first load beyond 3 the TTFT misses by a fifth and the TPOT by less.
        (
            {
                "ttft_p99_s": lambda load: 2.4 if load > 3 else 1,
                "tpot_p99_s": lambda load: 0.11 if load > 3 else 0,
            },
            "ttft_p99_s",
        ),
        ({"slo_attainment": lambda load: 0.0 if load > 3 else 1.0}, "slo_attainment"),
    ],
)
def test_what_broke_first(summary, first):
    assert search(**summary)["broke_first"] == first


def test_objectives_that_are_not_asked_for_cannot_break():
    found = search(e2e_p99_s=lambda _: 1e9, tpot_p99_s=lambda _: math.nan)
    assert (found["capacity_load"], found["broke_first"]) == (1024, "")


def test_no_load_is_light_enough():
    found = search(ttft_p99_s=lambda _: 3)
    assert (found["capacity_load"], found["capacity_requests_per_s"]) == (0, 0)
    assert (found["broke_first"], found["simulations"]) == ("ttft_p99_s", 7)  # 1 down to 1/64


def test_a_run_beyond_the_clock_is_over_capacity():
    def run(trace, config, cost, *, metrics):
        if trace.arrival_s[-1] < 5:
            raise ClockOverflowError
        return at(1)

    found = CapacitySearch(Criterion(), run)(TRACE, SchedulerConfig(), None, metrics=OPTIONS)
    assert 1.98 < found.summary["capacity_load"] <= 2
    assert found.summary["broke_first"] == "clock"


@pytest.mark.parametrize("limit", [-384, -383, -1, 0, 1, 77, 639, 640])
def test_bisection(limit):
    """64 steps an octave: from -6 x 64 = -384 to 10 x 64 = 640."""
    assert _highest(lambda step: step > limit, 64) == limit
    assert _highest(lambda step: True, 64) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"quantile": "p98"}, "quantile must be p50, p90, p95 or p99, not 'p98'"),
        ({"attainment": 0}, "attainment must be above 0, up to 1, not 0"),
        ({"tolerance": 0}, "tolerance must be from 0.0001 to 1, not 0"),
    ],
)
def test_impossible_criteria(values, message):
    with pytest.raises(ConfigError, match=message):
        Criterion(**values)


def test_the_engine_agrees_about_both_sides():
    """At the answer the objectives hold, at the next load they do not."""
    spec = load_spec("smoke")
    trace, (cost,) = spec.trace_of(spec.trace[0], 0), spec.cost_models().values()
    config, criterion = SchedulerConfig(max_batch_size=64), Criterion(tolerance=0.02)
    found = CapacitySearch(criterion)(trace, config, cost, metrics=OPTIONS).summary

    def kept(load):
        summary = simulate(trace.scaled(load), config, cost, metrics=OPTIONS).summary
        within = summary["ttft_p99_s"] <= 2 and summary["tpot_p99_s"] <= 0.1
        return within and summary["slo_attainment"] >= 0.99

    assert kept(found["capacity_load"])
    assert not kept(found["capacity_load"] * 2 ** (1 / criterion.steps))
