"""The oracle's `vllm` against the step logs of vLLM's own scheduler, field by field."""

import json

import naive
import pytest
from naive.examples import UNIT_COST, request, small_config
from naive.requests import PS_PER_S

SAME_NAMES = (
    *("max_num_batched_tokens", "max_model_len", "block_size", "policy", "watermark"),
    *("enable_chunked_prefill", "scheduler_reserve_full_isl", "long_prefill_token_threshold"),
    "long_prefill_token_threshold_adaptive",
)
LISTS = ("newly_admitted", "resumed", "preempted", "finished")  # left out where empty
STUCK = "s27_stuck"


def read_scenario(path):
    scenario = json.loads(path.read_text("utf-8"))
    settings = scenario["config"]
    config = small_config(
        discipline="vllm",
        max_batch_size=settings["max_num_seqs"],
        kv_blocks=settings["num_blocks"] - 1,  # one stands for no block
        vllm_version=scenario["vllm"].rpartition(".")[0],
        **{name: settings[name] for name in SAME_NAMES},
    )
    requests = [
        request(
            r["arrival_step"],
            r["prompt_len"],
            r["output_len"],
            priority=r["priority"],
            engine_time_s=float(r["arrival_time"]),
        )
        for r in scenario["requests"]
    ]
    return requests, config, scenario["steps"]


def as_step(it, fields):
    """An iteration of one second in the words of the logs."""
    assert it["end_ps"] == it["start_ps"] + PS_PER_S
    step = {
        "step": it["start_ps"] // PS_PER_S,
        "scheduled": [list(entry) for entry in it["scheduled"]],
        **{name: it[name] for name in LISTS if it[name]},
        "free_blocks_after_schedule": it["free_kv_blocks"],
        "free_blocks_after_update": it["free_blocks_after_update"],
        "num_running": it["slots_in_use"],
        "num_waiting": it["waiting"],
    }
    orders = ("running_order", "waiting_order")  # in the small files only
    return step | {name: it[name] for name in orders if name in fields}


def assert_equals_vllm(requests, config, steps):
    result = naive.simulate(requests, config, UNIT_COST)
    for it, theirs in zip(result["iterations"], steps, strict=True):
        assert as_step(it, theirs) == theirs
    naive.check_invariants(requests, config, result)


def test_every_step_of_vllm(shared):
    paths = sorted((shared / "conformance/vllm").glob("*.json"))
    assert len(paths) == 47
    for path in paths:
        if path.stem != STUCK:
            assert_equals_vllm(*read_scenario(path))


@pytest.mark.parametrize(
    "name",
    [
        "s09_threshold_lone_request",
        "s22_priority_self_preempt_goes_on",
        "s23_priority_ties",
        "s29_priority_budget_returned",
    ],
)
def test_every_step_of_an_older_vllm(shared, name):
    requests, config, steps = read_scenario(shared / f"conformance/vllm_0.19/{name}.json")
    assert config["vllm_version"] == "0.19"
    assert_equals_vllm(requests, config, steps)
    # The version is what makes the difference.
    newer = {**config, "vllm_version": "0.33"}
    with pytest.raises(AssertionError):
        assert_equals_vllm(requests, newer, steps)


def test_who_can_never_fit_fails_at_the_door(shared):
    # Prompts 20, 60, 5, 5, 5 and outputs 4, 2, 2, 2, 2 in 3 blocks of 16. Row 1 would need
    # ceil(61 / 16) = 4. Without it row 2 need not wait for the end of row 0 (two of three blocks).
    requests, config, _ = read_scenario(shared / f"conformance/vllm/{STUCK}.json")
    result = naive.simulate(requests, config, UNIT_COST)
    assert [row["status"] for row in result["requests"]] == ["completed", "failed"] + [
        "completed"
    ] * 3
    assert result["requests"][1]["reason"] == "kv_blocks"
    assert result["requests"][1]["finished_ps"] == 0
    # Row 2 has steps 0 and 1; row 3 then has the third block until the end of step 4.
    assert [it["scheduled"] for it in result["iterations"]] == [
        [(0, 20), (2, 5)],
        [(0, 1), (2, 1)],
        [(0, 1)],
        [(0, 1), (3, 5)],
        [(3, 1), (4, 5)],
        [(4, 1)],
    ]
    naive.check_invariants(requests, config, result)


def test_who_stands_in_the_way_for_good_fails(shared):
    requests, config, steps = read_scenario(shared / f"conformance/vllm/{STUCK}.json")
    result = naive.simulate(requests, config, UNIT_COST, refuse_at_door=False)
    empty = next(number for number, step in enumerate(steps) if not step["scheduled"])
    assert empty == 4
    iterations = result["iterations"]
    for it, theirs in zip(iterations[:empty], steps[:empty], strict=True):
        assert as_step(it, theirs) == theirs
    # There vLLM makes empty steps for ever. Here the head fails and the others get their turn.
    stuck = result["requests"][1]
    assert (stuck["status"], stuck["reason"]) == ("failed", "kv_blocks")
    assert stuck["finished_ps"] == empty * PS_PER_S
    assert stuck["admitted_ps"] is None
    # Four iterations at the head of the queue, blocked for want of blocks.
    assert stuck["blocked_kv_blocks_ps"] == 4 * PS_PER_S
    assert [it["scheduled"] for it in iterations[empty:]] == [
        [(2, 5), (3, 5), (4, 5)],
        [(2, 1), (3, 1), (4, 1)],
    ]
    naive.check_invariants(requests, config, result)
