"""The reference points do the same job as `simulate`; otherwise ratios would mean nothing."""

import heapq

import numpy as np
import pytest
import simpy_model
from floor import Floor
from step import Step
from workload import AFFINE, CONFIG, COST, LOADS, trace_at

from vecsched import simulate
from vecsched.clock import to_ps, to_seconds

TIGHT = CONFIG.replace(kv_blocks=8_000)
INSTANTS = ("admitted_s", "first_token_s", "finished_s")


@pytest.mark.parametrize("config", [CONFIG, TIGHT], ids=["ample KV", "tight KV"])
@pytest.mark.parametrize("load", LOADS)
def test_step_equals_simulate(load, config):
    trace = trace_at(load)
    requests = simulate(trace, config, COST).requests
    for name, column in zip(INSTANTS, Step(trace, config, AFFINE)(), strict=True):
        np.testing.assert_array_equal(to_seconds(column), requests[name], err_msg=name)


@pytest.mark.parametrize("load", LOADS)
def test_simpy_model_roughly_agrees(load):
    trace = trace_at(load)
    times = simpy_model.run(trace, CONFIG, AFFINE)
    summary = simulate(trace, CONFIG, COST).summary
    ttft = np.array(times.first_token) - trace.arrival_s
    e2e = np.array(times.finished) - trace.arrival_s
    assert ttft.mean() == pytest.approx(summary["ttft_mean_s"], rel=0.02)
    assert e2e.mean() == pytest.approx(summary["e2e_mean_s"], rel=0.02)
    assert max(times.finished) == pytest.approx(
        trace.arrival_s[0] + summary["makespan_s"], rel=1e-3
    )


def test_floor_is_a_queue_with_many_servers():
    """Each request starts when it is there and the slot that is free first is free."""
    trace = trace_at(1.5)
    admitted, _, finished = Floor(trace, CONFIG)()
    free_at = [0] * CONFIG.max_batch_size
    expected = []
    for arrival, end in zip(to_ps(trace.arrival_s).tolist(), finished.tolist(), strict=True):
        expected.append(max(arrival, heapq.heappop(free_at)))
        heapq.heappush(free_at, end)
    assert admitted.tolist() == expected
