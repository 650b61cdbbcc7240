"""The oracle's paged disciplines and `orca` on random input with scarce KV."""

import copy
import random

import naive
import pytest
from naive.examples import UNIT_COST, affine_cost, request, small_config
from naive.policies import POLICIES

SCENARIOS = 300
PAGED = ("vllm", "sarathi", "prefill_first")


def random_scenario(seed, discipline):
    """Requests of up to 7 blocks each, a capacity of 6 to 12, and every switch."""
    draw = random.Random(f"{seed}{discipline}")
    stamped, sized = draw.random() < 0.5, draw.random() < 0.2
    requests = [
        request(
            draw.choice([0, 0, 1, 2.5, 7]) + draw.randint(0, 3) / 4,
            draw.choice([1, 3, 4, 5, 9, 14]),
            draw.choice([1, 2, 5, 9, 14]),
            priority=draw.randint(0, 2),
            deadline_s=draw.choice([None, 5.0, 20.0]),
            cancel_at_s=draw.choice([None] * 6 + [3.0, 9.5]),
            engine_time_s=float(draw.randint(0, 4)) if stamped else None,
            kv_blocks=draw.randint(1, 7) if sized else None,
        )
        for _ in range(draw.randint(4, 16))
    ]
    slots = draw.randint(2, 6)
    budgets, prefill_bounds = [3, 8, 15, 28], [None, None, 4, 10]
    if discipline == "prefill_first":  # all of a request in one piece, up to 14 + 14 - 1 tokens
        budgets, prefill_bounds = [20, 27, 40, 60], [None, None, None, 18]
    config = small_config(
        discipline=discipline,
        policy=draw.choice(["fcfs", "priority", "priority", *POLICIES]),
        max_batch_size=slots,
        max_num_batched_tokens=max(slots, draw.choice(budgets)),
        kv_blocks=draw.choice([None, 6, 7, 8, 9, 10, 12]),
        block_size=draw.choice([3, 4]),
        max_prefill_tokens=draw.choice(prefill_bounds),
        max_wait_s=draw.choice([None, None, 0.0, 6.0]),
        timeout_s=draw.choice([None, None, None, 25.0]),
        lookahead=draw.choice([0, 0, 1, 3]),
        max_tokens=draw.choice([None, None, None, 14]),
        max_model_len=draw.choice([None, None, 14, 20]),
        kv_reserve=draw.choice(["on_demand", "on_demand", "on_demand", "full"]),
        watermark=draw.choice([0.0, 0.0, 0.1, 0.3]),
        scheduler_reserve_full_isl=draw.choice([True, False]),
        enable_chunked_prefill=draw.choice([True, True, False]),
        long_prefill_token_threshold=draw.choice([0, 0, 2, 5]),
        long_prefill_token_threshold_adaptive=draw.choice([False, True]),
        vllm_version=draw.choice(["0.33", "0.33", "0.19"]),
    )
    cost = draw.choice([UNIT_COST, affine_cost(0.5, 0.125, 0.25, 0.001, 0.0005)])
    return requests, config, cost


def results(discipline, **changes):
    """Each scenario with its result, but for the few that get nowhere."""
    stuck = []
    for seed in range(SCENARIOS):
        requests, config, cost = random_scenario(seed, discipline)
        config |= changes
        try:
            yield requests, config, naive.simulate(requests, config, cost)
        except naive.LivelockError:
            stuck.append(config)
    assert len(stuck) < SCENARIOS // 50
    for config in stuck:
        assert config["discipline"] == "vllm"
        assert config["policy"] == "priority"
        assert not config["scheduler_reserve_full_isl"]


@pytest.mark.parametrize("discipline", [*PAGED, "orca"])
def test_invariants_hold_with_scarce_kv(discipline):
    preempting, several, resumed, late_failures = 0, 0, 0, 0
    for requests, config, result in results(discipline):
        naive.check_invariants(requests, config, result)
        rows, iterations = result["requests"], result["iterations"]
        preempting += result["summary"]["preemptions"] > 0
        several += any(len(it["preempted"]) > 1 for it in iterations)
        resumed += any(it["resumed"] for it in iterations)
        late_failures += any(r["status"] == "failed" and r["admitted_ps"] is not None for r in rows)
    # The scenarios are worth their name.
    assert (preempting >= SCENARIOS // 5) == (discipline in PAGED)
    assert (resumed >= SCENARIOS // 5) == (discipline in PAGED)
    assert (several > 0) == (discipline in PAGED)
    assert (late_failures > 0) == (discipline == "vllm")


def test_without_a_threshold_sarathi_is_vllm():
    # A prompt that is not done has used up the budget (or the bound on prefill), so nobody was
    # admitted behind it: at most one member is in prefill, and it is the last. With a token for
    # every slot the decodes get theirs in either order.
    for seed in range(SCENARIOS):
        requests, config, cost = random_scenario(seed, "sarathi")
        as_vllm = {
            **config,
            "discipline": "vllm",
            "enable_chunked_prefill": True,
            "long_prefill_token_threshold": 0,
            "vllm_version": "0.33",
        }
        ours = naive.simulate(requests, config, cost)
        theirs = naive.simulate(requests, as_vllm, cost)
        assert ours["iterations"] == theirs["iterations"]
        assert repr(ours) == repr(theirs)  # NaN and all


def test_a_self_preemption_leaves_an_empty_iteration():
    # Only where the pass ends with it: version 0.19 under `priority`.
    empty = []
    for _, config, result in results("vllm", policy="priority"):
        found = [it for it in result["iterations"] if not it["scheduled"]]
        assert all(it["preempted"] for it in found)
        empty += [config["vllm_version"]] * bool(found)
    assert set(empty) == {"0.19"}


# The invariants notice.


def preempting_run(discipline):
    # The run of tests/test_naive_paged.py: row 1 preempts itself in iteration 1 and is back in 6.
    requests = [request(0, 4, 6), request(0, 4, 3)]
    config = small_config(discipline=discipline, kv_blocks=3, max_num_batched_tokens=9)
    return requests, config, naive.simulate(requests, config, UNIT_COST)


def spoil(place, name, value):
    def change(result):
        parent = result[place[0]] if len(place) == 1 else result[place[0]][place[1]]
        parent[name] = value(parent[name])

    return change


@pytest.mark.parametrize(
    "change",
    [
        spoil(["requests", 1], "preemptions", lambda n: n + 1),
        spoil(["requests", 1], "recomputed_tokens", lambda n: n + 1),
        spoil(["requests", 1], "first_token_ps", lambda ps: ps + 1),
        spoil(["summary"], "preemptions", lambda n: n + 1),
        spoil(["summary"], "recomputed_tokens", lambda n: n + 1),
        spoil(["iterations", 1], "preempted", lambda _: []),
        spoil(["iterations", 1], "preempted", lambda rows: rows * 2),
        spoil(["iterations", 1], "preempted", lambda _: [0]),
        spoil(["iterations", 1], "admitted", lambda _: [1]),
        spoil(["iterations", 1], "free_kv_blocks", lambda n: n + 1),
        spoil(["iterations", 1], "blocked_reason", lambda _: "slot"),
        spoil(["iterations", 3], "scheduled", lambda _: []),
        spoil(["iterations", 6], "admitted", lambda _: []),
        spoil(["iterations", 6], "scheduled", lambda _: [(1, 4)]),
        spoil(["iterations", 6], "free_kv_blocks", lambda n: n - 1),
        spoil(["iterations", 7], "finished", lambda _: []),
    ],
)
@pytest.mark.parametrize("discipline", PAGED)
def test_invariants_notice(discipline, change):
    requests, config, result = preempting_run(discipline)
    naive.check_invariants(requests, config, result)
    spoilt = copy.deepcopy(result)
    change(spoilt)
    with pytest.raises(AssertionError):
        naive.check_invariants(requests, config, spoilt)


@pytest.mark.parametrize("changes", [{"kv_reserve": "full"}, {"discipline": "orca"}])
def test_invariants_notice_a_preemption_that_could_not_be(changes):
    requests, config, result = preempting_run("sarathi")
    with pytest.raises(AssertionError):
        naive.check_invariants(requests, {**config, **changes}, result)
