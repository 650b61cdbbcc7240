"""The engine against queueing theory: one slot is a single server.

With one slot, requests in arrival order and a cost that is the same for every iteration, a request
of o >= 2 output tokens and a prompt of one chunk keeps the server for o iterations, and the next
one begins at the boundary where it ends. With Poisson arrivals that is an M/G/1 queue, whose mean
wait is (Pollaczek and Khinchine)

    W = rate x E[S^2] / (2 (1 - rho)),    rho = rate x E[S].

Estimate: each of R seeds gives the mean wait of one run without its first tenth, in which the queue
fills up. These R means are independent and, of many requests each, nearly normal, so their mean
lies within t s / sqrt(R) of W, where s is their standard deviation and t the quantile of Student's
distribution with R - 1 degrees of freedom.
"""

import numpy as np
import pytest

from vecsched import CostModel, SchedulerConfig, Trace, simulate
from vecsched._jit import JIT_ENABLED
from vecsched.clock import PS_PER_S, to_ps

ITERATION_S = 0.01
ONE_SLOT = SchedulerConfig(max_batch_size=1)
COST = CostModel.affine(ITERATION_S, 0.0, 0.0, 0.0)

# Student's t leaves 0.05 % on either side of the given quantile. The interval may not reach farther
# from W than a share of it, so that a wait that is wrong by so much is noticed.
RUNS, REQUESTS, T_QUANTILE, LARGEST_REACH = (
    (24, 20_000, 3.768, 0.1) if JIT_ENABLED else (12, 800, 4.437, 0.7)
)


def waits_of(rate, outputs, seed):
    """Waits in seconds of one run: Poisson arrivals, outputs by lot from those given."""
    draw = np.random.default_rng(seed)
    arrival_s = np.cumsum(draw.exponential(1 / rate, REQUESTS))
    output = draw.choice(outputs, REQUESTS)
    result = simulate(Trace(arrival_s, np.ones(REQUESTS, int), output), ONE_SLOT, COST)
    return arrival_s, output, result.requests


def pollaczek_khinchine(rate, outputs):
    service = ITERATION_S * np.array(outputs)
    return rate * np.mean(service**2) / (2 * (1 - rate * np.mean(service)))


@pytest.mark.parametrize("rho", [0.4, 0.8])
@pytest.mark.parametrize("outputs", [[10], [2, 38]], ids=["M/D/1", "M/G/1"])
def test_mean_wait(outputs, rho):
    rate = rho / (ITERATION_S * np.mean(outputs))
    means = []
    for seed in range(RUNS):
        _, _, requests = waits_of(rate, outputs, seed)
        means.append(requests["queue_wait_s"][REQUESTS // 10 :].mean())
    expected = pollaczek_khinchine(rate, outputs)
    reach = T_QUANTILE * np.std(means, ddof=1) / np.sqrt(RUNS)
    assert reach < LARGEST_REACH * expected
    assert abs(np.mean(means) - expected) <= reach


def test_each_begins_when_it_is_there_and_the_one_before_is_gone():
    """Lindley's recursion, to the picosecond."""
    arrival_s, output, requests = waits_of(6.0, [2, 5, 38], seed=1)
    arrivals, services = to_ps(arrival_s).tolist(), (to_ps(ITERATION_S) * output).tolist()
    free_ps, expected = 0, []
    for arrival, service in zip(arrivals, services, strict=True):
        begin = max(arrival, free_ps)
        free_ps = begin + service
        expected.append((begin / PS_PER_S, free_ps / PS_PER_S))
    assert list(zip(requests["admitted_s"], requests["finished_s"], strict=True)) == expected
