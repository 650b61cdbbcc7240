"""Well-known results on small workloads.

What fair queueing bounds, who pays for shortest-first, what continuous batching gains over static
batching, and what chunking trades.
"""

import numpy as np
import pytest

from vecsched import CostModel, SchedulerConfig, Trace, simulate

# An iteration takes 10 ms, and 0.1 ms more a prompt token: decodes are nearly free in company.
COST = CostModel.affine(0.01, 1e-4, 1e-5, 0.0, 0.0)


# Fair queueing between tenants that always have requests waiting.

BLOCKS, BLOCK_SIZE = 32, 16
LARGEST_BATCH = BLOCKS * BLOCK_SIZE  # tokens whose KV fits


def one_ahead(n):
    """All at once; the requests of a stand ahead of b's."""
    return np.zeros(n), np.full(n, 40), np.full(n, 20), np.arange(n) * 2 // n


def nine_to_one(n):
    """a asks nine times as often as b, both far more than can be served."""
    return np.arange(n) / 1000, np.full(n, 40), np.full(n, 20), np.arange(n) % 10 // 9


def prompts_and_outputs(n):
    """a has long prompts, b long outputs, in turns."""
    own = np.arange(n) % 2
    return np.zeros(n), np.where(own, 20, 150), np.where(own, 90, 10), own


def four_by_lot(n):
    """Four tenants in any order, each with requests about twice as long as those of the last."""
    draw = np.random.default_rng(7)
    own = draw.integers(0, 4, n)
    return np.zeros(n), draw.integers(1, 25, n) << own, draw.integers(1, 10, n) << own, own


FLOODS = (one_ahead, nine_to_one, prompts_and_outputs, four_by_lot)


def backlogged_difference(flood, requests, policy, discipline):
    """The largest service difference while all tenants wait, and VTC's bound on it."""
    arrival, prompt, output, tenant = flood(requests)
    trace = Trace(arrival, prompt, output, tenant=np.array(list("abcd"))[tenant])
    config = {
        "discipline": discipline,
        "policy": policy,
        "max_batch_size": 16,
        "max_num_batched_tokens": 256,
        "prefill_chunk_size": 256,
        "kv_blocks": BLOCKS,
        "block_size": BLOCK_SIZE,
    }
    difference = simulate(trace, SchedulerConfig(**config), COST).summary[
        "backlogged_service_difference_max"
    ]
    return difference, 2 * max(prompt.max(), 2 * LARGEST_BATCH)


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("discipline", ["strict", "vllm"])
def test_vtc_bounds_the_service_difference(flood, discipline):
    # Sheng et al., OSDI'24: between backlogged clients 2 max(w_p L_input, w_q M), w_p = 1, w_q = 2.
    for requests in (200, 400, 800):
        difference, bound = backlogged_difference(flood, requests, "vtc", discipline)
        assert difference <= bound


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("discipline", ["strict", "vllm"])
def test_fcfs_lets_the_service_difference_grow(flood, discipline):
    small, bound = backlogged_difference(flood, 400, "fcfs", discipline)
    large, _ = backlogged_difference(flood, 1600, "fcfs", discipline)
    # Four times the flood, about four times the difference, and no bound.
    assert large > 3 * small
    assert large > 2 * bound


# Shortest first.


def long_among_short(seconds):
    """A short request each second, each of which takes one; a long one soon after the first."""
    short = np.arange(float(seconds))
    return Trace(
        np.append(short, 0.5),
        np.append(np.full(seconds, 10), 200),
        np.ones(seconds + 1, int),
        id=[*range(seconds), "long"],
    )


def wait_of_long(policy, seconds):
    one_at_a_time = SchedulerConfig(
        discipline="orca", policy=policy, max_batch_size=1, max_num_batched_tokens=1000
    )
    rows = simulate(long_among_short(seconds), one_at_a_time, CostModel.unit()).requests
    return rows.set_index("id")["queue_wait_s"]["long"]


def test_shortest_first_starves_the_long_and_aging_does_not():
    # The slot is free at every full second, when a short one has just come, as long as they come.
    assert wait_of_long("shortest_total", 100) == 100 - 0.5
    assert wait_of_long("shortest_total", 1000) == 1000 - 0.5
    # 201 + 10 x 0.5 = 206 is less than 11 + 10 k from k = 20 on.
    assert wait_of_long("aging(10)", 100) == wait_of_long("aging(10)", 1000) == 20 - 0.5


def test_shortest_first_lowers_the_mean_at_the_cost_of_the_long():
    draw = np.random.default_rng(5)
    n = 300
    trace = Trace(np.zeros(n), draw.geometric(1 / 100, n), draw.geometric(1 / 50, n))
    config = {"discipline": "vllm", "max_batch_size": 8, "max_num_batched_tokens": 512}
    fcfs, shortest = (
        simulate(trace, SchedulerConfig(policy=policy, **config), COST).summary
        for policy in ("fcfs", "shortest_total")
    )
    assert shortest["e2e_mean_s"] < 0.8 * fcfs["e2e_mean_s"]
    assert shortest["long_over_short_wait"] > 10 * fcfs["long_over_short_wait"]


# Batching.


def test_static_batching_is_far_below_continuous():
    # A static batch of 16 runs until its longest output is done, 3.4 times the mean of a geometric
    # distribution (the 16th harmonic number); continuous batching refills the slots meanwhile.
    draw = np.random.default_rng(3)
    n = 400
    trace = Trace(np.zeros(n), np.full(n, 50), draw.geometric(1 / 100, n))
    bounds = {"max_batch_size": 16, "max_num_batched_tokens": 2048}
    rates = {
        discipline: simulate(trace, SchedulerConfig(discipline=discipline, **bounds), COST).summary[
            "output_tokens_per_s"
        ]
        for discipline in ("static", "orca", "vllm")
    }
    assert rates["orca"] > 2.5 * rates["static"]
    assert rates["vllm"] > 2.5 * rates["static"]


def test_smaller_chunks_trade_ttft_for_tpot():
    # Prompts of 1000 in pieces of the budget: decodes wait for a piece, the prompt for all of them.
    draw = np.random.default_rng(11)
    n = 200
    trace = Trace(np.cumsum(draw.exponential(0.2, n)), np.full(n, 1000), np.full(n, 40))
    runs = [
        simulate(
            trace,
            SchedulerConfig(discipline="sarathi", max_batch_size=64, max_num_batched_tokens=budget),
            COST,
        ).summary
        for budget in (192, 384, 1024)
    ]
    ttft = [summary["ttft_p50_s"] for summary in runs]
    tpot = [summary["tpot_p99_s"] for summary in runs]
    assert ttft == sorted(ttft, reverse=True)
    assert tpot == sorted(tpot)
    assert ttft[0] > 1.5 * ttft[-1]
    assert tpot[-1] > 1.5 * tpot[0]
