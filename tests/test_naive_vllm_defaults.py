"""The oracle's prefix caching and asynchronous scheduling against vLLM's own step logs."""

import json

import naive
import pytest
from naive.examples import UNIT_COST
from naive.requests import PS_PER_S
from test_naive_vllm import as_step, read_scenario

OPTIONAL = ("free_queue", "block_tables")  # in small files with caching


def read(path):
    """(requests, configuration, scenario) of a file in the extended format."""
    requests, config, _ = read_scenario(path)
    scenario = json.loads(path.read_text("utf-8"))
    for record, theirs in zip(requests, scenario["requests"], strict=True):
        record["prefix_ids"] = theirs.get("hash_ids")
    switches = ("enable_prefix_caching", "async_scheduling")
    return requests, config | {name: scenario["config"][name] for name in switches}, scenario


def in_words_of_the_logs(it, fields):
    step = as_step(it, fields)
    if it["num_cached_tokens"]:
        step["num_cached_tokens"] = [list(entry) for entry in it["num_cached_tokens"]]
    tables = {"free_queue": it.get("free_queue")}
    tables["block_tables"] = [list(entry) for entry in it.get("block_tables", [])]
    return step | {name: tables[name] for name in OPTIONAL if name in fields}


def run(requests, config):
    # A log's ids each stand for a block.
    return naive.simulate(
        requests, config, UNIT_COST, prefix_block_tokens=config["block_size"], in_steps=True
    )


def assert_equals_vllm(requests, config, scenario):
    result = run(requests, config)
    for it, theirs in zip(result["iterations"], scenario["steps"], strict=True):
        assert in_words_of_the_logs(it, theirs) == theirs
    naive.check_invariants(requests, config, result)
    return result


# What this oracle counts of the logs' special cases.
EVENTS = (
    *("hit_in_use", "hit_freed", "hit_capped", "resumed_with_hit", "resumed_hit_partial"),
    *("duplicate_blocks", "evicted_blocks"),
    *("victim_in_flight", "victim_last_token_in_flight", "finished_while_waiting"),
)


def assert_same_summary(result, theirs):
    rows, iterations = result["requests"], result["iterations"]
    ours = {
        "steps": len(iterations),
        "last_step": iterations[-1]["start_ps"] // PS_PER_S,
        "finished": result["summary"]["completed"],
        "preemptions": result["summary"]["preemptions"],
        "max_preemptions_of_one": max(row["preemptions"] for row in rows),
        "scheduled_tokens": sum(tokens for it in iterations for _, tokens in it["scheduled"]),
        "cached_tokens": sum(tokens for it in iterations for _, tokens in it["num_cached_tokens"]),
        "max_running": max(it["slots_in_use"] for it in iterations),
        "min_free_blocks": min(it["free_kv_blocks"] for it in iterations),
        "cached_tokens_of_resumed": sum(
            tokens
            for it in iterations
            for row, tokens in it["num_cached_tokens"]
            if row in it["resumed"]
        ),
    }
    assert ours == {name: theirs[name] for name in ours}
    events = {name: result["events"][name] for name in EVENTS}
    events["empty_step"] = sum(not it["scheduled"] for it in iterations)
    assert events == {name: theirs["events"].get(name, 0) for name in events}


def paths(shared, folder):
    return sorted((shared / "conformance" / folder).glob("*.json"))


def test_every_step_of_vllm(shared):
    files = paths(shared, "vllm_defaults")
    assert len(files) == 44
    for path in files:
        requests, config, scenario = read(path)
        result = assert_equals_vllm(requests, config, scenario)
        assert_same_summary(result, scenario["summary"])


def test_every_step_of_an_older_vllm(shared):
    files = paths(shared, "vllm_0.19")
    assert len(files) == 12
    for path in files:
        requests, config, scenario = read(path)
        assert config["vllm_version"] == "0.19"
        result = assert_equals_vllm(requests, config, scenario)
        assert_same_summary(result, scenario["summary"])
        # The version is what makes the difference.
        with pytest.raises(AssertionError):
            assert_equals_vllm(requests, {**config, "vllm_version": "0.33"}, scenario)
