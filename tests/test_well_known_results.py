"""Well-known results, each on a workload small enough to follow, and each with its source.

`test_fair_bounds.py` has more of them: what VTC bounds and first-come lets grow, who starves under
shortest-first, what static batching loses, what smaller chunks trade.
"""

import numpy as np
import pytest

from vecsched import CostModel, SchedulerConfig, Trace, simulate

# An iteration takes 10 ms, 0.1 ms more for each prompt token and 10 us more for each decode.
COST = CostModel.affine(0.01, 1e-4, 1e-5, 0.0, 0.0)
# One at a time, an output token a second: a queue with one server, as the textbooks have it.
ONE_SERVER = {"discipline": "orca", "max_batch_size": 1, "max_num_batched_tokens": 1000}


def summary_of(trace, cost=COST, **config):
    return simulate(trace, SchedulerConfig(**config), cost).summary


def served(trace, **config):
    return simulate(trace, SchedulerConfig(**(ONE_SERVER | config)), CostModel.unit()).requests


def short_and_long(n, rate_per_s, seed=5):
    """A Poisson stream of geometric lengths."""
    draw = np.random.default_rng(seed)
    arrival = np.cumsum(draw.exponential(1 / rate_per_s, n))
    return Trace(arrival, draw.geometric(1 / 100, n), draw.geometric(1 / 50, n))


def overloaded_server(n=300):
    """Whole seconds, so that all sums are exact: 3.3 s of work arrive every three seconds."""
    draw = np.random.default_rng(8)
    tenant = np.array(["a", "b"], object)[draw.integers(0, 2, n)]
    arrival = np.sort(draw.integers(0, 3 * n, n)).astype(float)
    return Trace(arrival, draw.integers(1, 9, n), draw.geometric(0.3, n), tenant=tenant)


# Whoever gains, somebody pays.


def test_no_order_of_service_saves_work():
    # Kleinrock, "A conservation law for a wide class of queueing disciplines", 1965: the unfinished
    # work does not depend on the order, so the waits weighted with the work add up to the same.
    trace = overloaded_server()
    policies = ("fcfs", "shortest_output", "longest_total", "aging(1)", "random(3)", "vtc", "wfq")
    waits = {policy: served(trace, policy=policy)["queue_wait_s"] for policy in policies}
    assert len({(trace.output_tokens * wait).sum() for wait in waits.values()}) == 1
    # That is no matter of course: the plain sums differ.
    assert len({wait.sum() for wait in waits.values()}) == len(policies)


def test_shortest_first_has_the_least_mean():
    # Smith, "Various optimizers for single-stage production", 1956.
    output = np.random.default_rng(2).permutation(np.arange(1, 31))
    trace = Trace(np.zeros(30), np.full(30, 4), output)
    mean = {
        policy: served(trace, policy=policy)["e2e_s"].mean()
        for policy in ("shortest_output", "fcfs", "random(1)", "longest_total")
    }
    # The k-th of 1, 2, ..., 30 ends after k (k + 1) / 2 seconds: 4,960 in all.
    assert mean["shortest_output"] == 4960 / 30
    # The other way round each ends after 465 - k (k - 1) / 2 seconds: 465 x 30 - 4,495 in all.
    assert mean["longest_total"] == 9455 / 30
    assert mean["shortest_output"] < min(mean["fcfs"], mean["random(1)"])
    assert max(mean["fcfs"], mean["random(1)"]) < mean["longest_total"]


def test_shortest_first_needs_no_perfect_prediction():
    # Fu et al., "Efficient LLM scheduling by learning to rank", NeurIPS'24: a rough order gets most
    # of the gain.
    trace = short_and_long(600, rate_per_s=17)
    bounds = {"discipline": "vllm", "max_batch_size": 8, "max_num_batched_tokens": 512}
    fcfs = summary_of(trace, policy="fcfs", **bounds)["e2e_mean_s"]
    means = [
        summary_of(trace, policy="shortest_output", prediction_error=error, **bounds)["e2e_mean_s"]
        for error in (0.0, 0.5, 1.0, 2.0, 4.0)
    ]
    assert means == sorted(means)
    assert means[-1] < fcfs
    # An error by a factor of e, either way, costs less than half of what an oracle would gain.
    assert fcfs - means[2] > 0.5 * (fcfs - means[0])


# Between shortest-first and first-come.


def test_aging_leads_from_shortest_first_to_first_come():
    # Jackson, "Some problems in queueing with dynamic priorities", 1960: urgency plus waiting time.
    trace = short_and_long(600, rate_per_s=17)
    bounds = {"discipline": "vllm", "max_batch_size": 8, "max_num_batched_tokens": 512}

    def run(policy):
        return simulate(trace, SchedulerConfig(policy=policy, **bounds), COST)

    assert run("aging(0)").requests.equals(run("shortest_total").requests)
    assert run("aging(1e9)").requests.equals(run("fcfs").requests)
    between = [run(f"aging({rate})").summary for rate in (0, 10, 30, 100, 300, 1e9)]
    mean = [summary["e2e_mean_s"] for summary in between]
    longest_wait = [summary["max_queue_wait_s"] for summary in between]
    assert mean == sorted(mean)
    assert longest_wait == sorted(longest_wait, reverse=True)
    assert mean[-1] > 1.5 * mean[0]
    assert longest_wait[0] > 1.5 * longest_wait[-1]


def pairs_out_of_bounds(rows, rate):
    """Pairs of which the second came more than size / rate after the first and was served first."""
    size = (rows["prompt_tokens"] + rows["output_tokens"]).to_numpy()
    arrival, admitted = rows["arrival_s"].to_numpy(), rows["admitted_s"].to_numpy()
    much_later = arrival[None, :] > (arrival + size / rate)[:, None]
    return int((much_later & (admitted[None, :] < admitted[:, None])).sum())


def test_aging_bounds_who_may_overtake():
    # Whoever comes size / rate seconds later has a larger key, however short it is.
    trace = overloaded_server()
    assert pairs_out_of_bounds(served(trace, policy="aging(0.5)"), 0.5) == 0
    assert pairs_out_of_bounds(served(trace, policy="shortest_total"), 0.5) > 100


def long_among_short(seconds):
    """A short request each second, each of which takes one; row 0 is long and comes at 0.5."""
    short = np.arange(float(seconds))
    prompt = np.append(200, np.full(seconds, 10))
    return Trace(np.append(0.5, short), prompt, np.ones(seconds + 1, int))


@pytest.mark.parametrize("seconds", [100, 1000])
def test_promotion_bounds_the_wait(seconds):
    # "A request goes to the head of the queue once it has waited": a deadline on starvation.
    rows = served(long_among_short(seconds), policy="shortest_total", max_wait_s=20.0)
    # At 20 it has waited for 19.5 s; the next boundary is at 21. From then on every short one is
    # served a second late.
    assert rows["queue_wait_s"].iloc[0] == 20.5
    assert rows["queue_wait_s"].iloc[1:].max() == 1.0


def test_promotion_of_everybody_is_first_come():
    # Where all have waited so long, the bound orders the queue, and the policy no longer does.
    trace = overloaded_server()
    promoted = served(trace, policy="shortest_output", max_wait_s=0.0)
    assert promoted.equals(served(trace, policy="fcfs"))


# Fair queueing, one request at a time, as for the links of a network.

WEIGHTS = {"a": 1, "b": 1}, {"a": 3, "b": 1}
SHAPES = {"a": (200, 10), "b": (30, 40)}  # largest prompt and output


def flood(seed, n=300):
    """Two tenants in any order; a has long prompts, b long outputs, and b comes two minutes later.

    By then a has had all service: a queue that kept accounts would pay b back first.
    """
    draw = np.random.default_rng(seed)
    tenant = np.array(list(SHAPES), object)[draw.integers(0, 2, n)]
    most = np.array([SHAPES[name] for name in tenant])
    prompt, output = draw.integers(1, most.T + 1)
    return Trace(np.where(tenant == "b", 120.0, 0.0), prompt, output, tenant=tenant)


def largest_difference(policy, seed, weights):
    given = ",".join(f"{name}={weight}" for name, weight in weights.items())
    config = ONE_SERVER | {"policy": policy, "tenant_weights": given}
    return summary_of(flood(seed), CostModel.unit(), **config)["backlogged_service_difference_max"]


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("policy", "extra"), [("wfq", 0), ("drr(50)", 50), ("drr(1000)", 1000)])
def test_fair_queueing_bounds_the_difference(policy, extra, weights):
    # Golestani, INFOCOM'94: L_a / w_a + L_b / w_b between backlogged flows, L the largest request.
    # Shreedhar and Varghese, SIGCOMM'95: a quantum more for deficit round robin.
    largest = {name: prompt + 2 * output for name, (prompt, output) in SHAPES.items()}
    bound = extra + sum(largest[name] / weight for name, weight in weights.items())
    differences = [largest_difference(policy, seed, weights) for seed in range(5)]
    assert max(differences) <= bound
    # The bound is no idle one, and without fair queueing it does not hold.
    assert max(differences) > bound / 4
    assert largest_difference("fcfs", 0, weights) > 2 * bound


# Batching.


def test_static_batching_lags_at_a_load_that_continuous_batching_carries():
    # Yu et al., Orca, OSDI'22: at equal load a batch that waits for its longest member makes
    # everyone behind it wait.
    trace = short_and_long(600, rate_per_s=15)
    bounds = {"max_batch_size": 16, "max_num_batched_tokens": 2048}
    static, orca = (summary_of(trace, discipline=name, **bounds) for name in ("static", "orca"))
    assert orca["blocked_slot_share"] < 0.1
    assert static["blocked_slot_share"] > 0.9
    assert static["normalized_latency_p50_s"] > 20 * orca["normalized_latency_p50_s"]


def one_writer_and_eight_prompts():
    """One request decodes for 300 tokens; after a second eight prompts of 1,000 arrive at once."""
    return Trace([0.0] + [1.0] * 8, [10] + [1000] * 8, [300] + [40] * 8)


@pytest.mark.parametrize(
    ("discipline", "budget", "longest_gap_s"),
    [
        # All eight prompts in one iteration, 10 + 800 ms, then nine decodes, 10.09 ms.
        ("prefill_first", 8192, 0.81 + 0.01009),
        # Two prompts an iteration: the same prompts, and no decode among them.
        ("prefill_first", 2048, 4 * 0.21 + 0.01009),
        # A decode and 255 tokens of a prompt in every iteration: 10 + 0.01 + 25.5 ms.
        ("sarathi", 256, 0.03551),
        # 511 tokens: twice the chunk, nearly twice the gap.
        ("sarathi", 512, 0.06111),
    ],
)
def test_decodes_stall_behind_whole_prompts_and_not_behind_chunks(
    discipline, budget, longest_gap_s
):
    # Agrawal et al., Sarathi-Serve, OSDI'24: generation stalls, and batches without them.
    result = simulate(
        one_writer_and_eight_prompts(),
        SchedulerConfig(discipline=discipline, max_num_batched_tokens=budget, max_batch_size=16),
        COST,
    )
    assert result.requests["max_itl_s"].iloc[0] == pytest.approx(longest_gap_s, abs=1e-12)
    assert result.summary["itl_max_s"] == result.requests["max_itl_s"].max()


def test_whole_prompts_first_answer_sooner():
    # The other side of that trade: the last of the eight has its first token earlier.
    trace = one_writer_and_eight_prompts()
    ttft = {
        (name, budget): summary_of(
            trace, discipline=name, max_num_batched_tokens=budget, max_batch_size=16
        )["ttft_max_s"]
        for name, budget in (("prefill_first", 8192), ("sarathi", 512), ("sarathi", 256))
    }
    assert ttft["prefill_first", 8192] < ttft["sarathi", 512] < ttft["sarathi", 256]


def test_preemptions_come_as_the_cache_shrinks():
    # Kwon et al., PagedAttention, SOSP'23: blocks on demand, and recomputation when they run out.
    trace = short_and_long(400, rate_per_s=15)
    bounds = {"discipline": "vllm", "max_batch_size": 64, "max_num_batched_tokens": 512}
    caches = (400, 200, 150, 120, 100)
    on_demand = [summary_of(trace, kv_blocks=blocks, **bounds) for blocks in caches]
    preemptions = [summary["preemptions"] for summary in on_demand]
    assert preemptions[0] == 0
    assert preemptions == sorted(preemptions)
    assert preemptions[-1] > 50
    recomputed = [summary["recomputed_tokens"] for summary in on_demand]
    assert recomputed == sorted(recomputed)
    # Nobody is preempted who had all blocks set aside; but then fewer fit.
    reserved = summary_of(trace, kv_blocks=caches[-1], kv_reserve="full", **bounds)
    assert reserved["preemptions"] == 0
    assert reserved["batch_occupancy"] < on_demand[-1]["batch_occupancy"]
