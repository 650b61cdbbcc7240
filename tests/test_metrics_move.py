"""Every metric of fairness sees an unfair scheduler: the same requests, served less evenly.

That of the tenants' metrics is shown in `test_naive_fair.py`. A sum over completed requests would
not move at all, whoever is favoured: in the end all of them are served.
"""

import naive.tenant_metrics
import numpy as np
import pytest

from vecsched import CostModel, SchedulerConfig, Trace, simulate
from vecsched.metrics import MetricOptions

COST = CostModel.affine(0.01, 1e-4, 1e-5, 0.0, 0.0)
# Longer than anybody waits under first-come; by default it is 2 s here, which most wait.
METRICS = MetricOptions(starvation_s=9.0)

# What a summary says about fairness between requests: whether more of it is fairer.
MORE_IS_FAIRER = {
    "jain_slowdown": True,
    "jain_tpot": True,
    "slowdown_gini": False,
    "slowdown_variance": False,
    "slowdown_p99_over_p50": False,
    "ttft_p99_over_p50": False,
    "long_over_short_wait": False,
    "max_queue_wait_s": False,
    "wait_over_isolated_p99": False,
    "starved_requests": False,
}
# The words that such names are made of.
WORDS = ("jain", "gini", "variance", "over", "starved", "max_queue_wait", "difference", "tenant_s")


def favoured_shorter_ones():
    """More than can be served, of nearly equal sizes, so that only the order of service matters."""
    draw = np.random.default_rng(4)
    n = 400
    prompt = draw.integers(50, 60, n)
    return Trace(np.cumsum(draw.exponential(0.01, n)), prompt, np.full(n, 20))


def evicted_late_comers():
    """Equal requests that come at once and outgrow the KV cache together."""
    return Trace(np.zeros(60), np.full(60, 100), np.full(60, 100))


SLOTS = {"discipline": "vllm", "max_batch_size": 8, "max_num_batched_tokens": 512}
CACHE = SLOTS | {"max_batch_size": 64, "kv_blocks": 200}
# Trace, the fair setting and the unfair one.
FAVOURING = (
    favoured_shorter_ones,
    SLOTS | {"policy": "fcfs"},
    SLOTS | {"policy": "shortest_total"},
)
EVICTING = (
    evicted_late_comers,
    CACHE | {"kv_reserve": "full"},
    CACHE | {"kv_reserve": "on_demand"},
)


def summaries(case):
    make, *settings = case
    return [
        simulate(make(), SchedulerConfig(**each), COST, metrics=METRICS).summary
        for each in settings
    ]


@pytest.fixture(scope="module")
def favouring():
    return summaries(FAVOURING)


@pytest.fixture(scope="module")
def evicting():
    return summaries(EVICTING)


def test_no_metric_of_fairness_is_left_out(favouring):
    named = {name for name in favouring[0] if any(word in name for word in WORDS)}
    assert named == set(MORE_IS_FAIRER) | set(naive.tenant_metrics.NAMES)


@pytest.mark.parametrize("name", [name for name in MORE_IS_FAIRER if name != "jain_tpot"])
def test_a_metric_sees_that_some_may_pass(favouring, name):
    fair, unfair = (summary[name] for summary in favouring)
    assert (unfair < fair) if MORE_IS_FAIRER[name] else (unfair > fair)


def test_jain_of_tpot_sees_that_some_are_stopped_midway(evicting):
    fair, unfair = evicting
    assert (fair["preemptions"], unfair["preemptions"] > 0) == (0, True)
    assert unfair["jain_tpot"] < 0.95 < fair["jain_tpot"]


def test_totals_do_not_see_it(favouring):
    for name in ("completed", "output_tokens_per_s", "total_tokens_per_s", "makespan_s"):
        fair, unfair = (summary[name] for summary in favouring)
        assert unfair == pytest.approx(fair, rel=0.02)
