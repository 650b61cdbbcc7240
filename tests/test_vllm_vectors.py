"""Step logs of the real vLLM, and made-up ones: every logged field of every step."""

import json

import pytest
import scenarios

from sweeps.errors import ScenarioError
from sweeps.scenario_file import Step, Summary, read_scenario
from sweeps.step_log import steps_of
from sweeps.step_summary import summary_of
from sweeps.vllm_scenario import Difference, compare, first_difference, summary_difference
from vecsched import CostModel, simulate
from vecsched.simulation import Decisions, Iteration, decisions_until_stuck

STUCK = "s27_stuck"


def vectors(shared):
    folders = {"vllm": 47, "vllm_0.19": 12, "vllm_defaults": 44}
    files = {name: sorted((shared / "conformance" / name).glob("*.json")) for name in folders}
    assert {name: len(found) for name, found in files.items()} == folders
    return [file for found in files.values() for file in found]


# The real vLLM.


def test_every_step_of_vllm(shared):
    for path in vectors(shared):
        scenario = read_scenario(path)
        comparison = compare(scenario)
        assert comparison.difference is None, (path, str(comparison.difference))
        assert comparison.steps == len(scenario.steps)
        note = "request 1 can never be served" if scenario.name == STUCK else ""
        assert comparison.note.startswith(note)
        assert bool(comparison.note) == bool(note)


def test_with_and_without_single_blocks_the_decisions_are_the_same(shared):
    caching = 0
    for path in vectors(shared):
        _, trace, config, steps, *_ = read_scenario(path)
        decisions = decisions_until_stuck(trace, config)
        logged = decisions_until_stuck(trace, config, log_blocks=True)
        assert logged[:2] == decisions[:2], path
        assert decisions.blocks == []
        assert len(logged.blocks) == config.enable_prefix_caching * len(steps)
        caching += config.enable_prefix_caching
    assert caching == 38


def what_was_decided(iterations):
    return [each._replace(start_s=0.0, end_s=0.0) for each in iterations]


def test_simulate_takes_the_same_decisions(shared):
    # Where a step need not last a second, in asynchronous runs, only those can be compared in which
    # nobody comes later. `simulate` refuses what could never be served: somebody in one file.
    compared = 0
    for path in vectors(shared):
        scenario = read_scenario(path)
        trace, config, steps = scenario.trace, scenario.config, scenario.steps
        if config.async_scheduling and trace.arrival_s.max() > 0:
            continue
        result = simulate(trace, config, CostModel.unit(), log_iterations=True)
        if scenario.name == STUCK:
            assert result.requests["reason"].tolist() == ["", "kv_blocks", "", "", ""]
            continue
        iterations = [Iteration(**row) for row in result.iterations.to_dict("records")]
        decisions = decisions_until_stuck(trace, config)
        if config.async_scheduling:
            assert what_was_decided(iterations) == what_was_decided(decisions.iterations), path
        else:
            assert iterations == decisions.iterations, path
            told = list(steps_of(scenario, Decisions(iterations, stuck=None, blocks=[])))
            assert first_difference(steps, told) is None, path
        assert result.summary["completed"] == len(trace)
        logged, summary = scenario.summary, result.summary
        assert summary["preemptions"] == logged.preemptions
        if config.enable_prefix_caching:
            assert summary["evicted_blocks"] == logged.events.get("evicted_blocks", 0), path
            assert result.requests["cached_tokens"].sum() == logged.cached_tokens
            assert result.requests["cached_own_tokens"].sum() == logged.cached_tokens_of_resumed
        compared += 1
    assert compared == 84 - 1 + 2  # synchronous; the one that is stuck; asynchronous


def test_the_logs_agree_with_their_own_summaries(shared):
    # So what is counted here is what was counted there, also where nothing is simulated.
    for path in vectors(shared):
        scenario = read_scenario(path)
        assert set(scenario.summary.events) <= COUNTED | NOT_COUNTED
        told = summary_of(scenario.steps, scenario)
        assert summary_difference(scenario.summary, told) is None, path
        assert set(told.events) | {"hit_in_use", "hit_freed"} == COUNTED


COUNTED = {
    "several_victims_in_a_step",
    "threshold_off_lone",
    "victim_mid_prefill",
    "victim_in_flight",
    "victim_last_token_in_flight",
    "finished_while_waiting",
    "resumed_with_hit",
    "resumed_hit_partial",
    "hit_in_use",
    "hit_freed",
}
NOT_COUNTED = {
    "admission_stopped_by_evictable",
    "duplicate_blocks",
    "empty_step",
    "evicted_blocks",
    "hit_capped",
    "hit_not_computed",
    "hit_same_step",
    "self_preempted",
    "served_after_self_preempt",
    "skipped_last_in_flight",
    "victim_already_scheduled",
}


def test_every_setting_makes_a_difference(shared):
    other = {
        "vllm_0.19/s22_priority_self_preempt_goes_on": {"vllm_version": "0.33"},
        "vllm_0.19/a08_priority": {"vllm_version": "0.33"},
        "vllm_0.19/h06_evicted_from_the_tail": {"vllm_version": "0.33"},
        "vllm_defaults/h06_evicted_from_the_tail": {"vllm_version": "0.19"},
        "vllm_defaults/a01_ample": {"async_scheduling": False},
        "vllm_defaults/b03_shared": {"async_scheduling": False},
        "vllm_defaults/p02_resume_all_cached": {"async_scheduling": True},
        "vllm_defaults/h02_hit_in_same_step": {"enable_prefix_caching": False},
    }
    for name, change in other.items():
        scenario = read_scenario(shared / f"conformance/{name}.json")
        changed = scenario._replace(config=scenario.config.replace(**change))
        assert compare(changed).difference is not None, name


def test_ids_decide(shared, read):
    path = shared / "conformance/vllm_defaults/h01_hit_in_use_and_freed.json"
    scenario = json.loads(path.read_text("utf-8"))
    assert compare(read(scenario)).difference is None
    for request in scenario["requests"]:
        del request["hash_ids"]
    assert compare(read(scenario)).difference.field == "scheduled"


# Made-up logs.


@pytest.fixture
def read(tmp_path):
    return lambda scenario: read_scenario(scenarios.write(scenario, tmp_path / "scenario.json"))


def test_equal(read):
    scenario = read(scenarios.preempting())
    assert compare(scenario) == (8, None, "")
    result = simulate(scenario.trace, scenario.config, CostModel.unit(), log_iterations=True)
    assert result.summary["preemptions"] == 1
    assert result.iterations["scheduled"].tolist()[-2:] == [[(1, 5)], [(1, 1)]]


@pytest.mark.parametrize(("made_up", "steps"), [(scenarios.sharing, 4), (scenarios.ahead, 9)])
def test_equal_in_the_second_format(read, made_up, steps):
    assert compare(read(made_up())) == (steps, None, "")


@pytest.mark.parametrize(
    "optional",
    [
        ("running_order", "waiting_order"),
        ("free_queue", "block_tables"),
        ("free_queue",),
        ("summary",),
    ],
)
def test_what_need_not_be_logged(read, optional):
    scenario = scenarios.ahead()
    for part in (scenario, *scenario["steps"]):
        for key in optional:
            part.pop(key, None)
    assert compare(read(scenario)).difference is None


def test_one_block_that_two_hold_comes_back_when_both_have_ended(read):
    # Step 1: request 0 ends and has 3 blocks, of which request 1 holds one.
    scenario = read(scenarios.sharing())
    plain, logged = (
        list(steps_of(scenario, decisions_until_stuck(scenario.trace, scenario.config, **options)))
        for options in ({}, {"log_blocks": True})
    )
    assert [step.free_blocks_after_update for step in logged] == [2, 2, 5, 5]
    assert [step.free_blocks_after_update for step in plain] == [2, None, None, None]
    assert [step.free_queue for step in plain] == [None] * 4


@pytest.mark.parametrize(("made_up", "head"), [(scenarios.stuck, 1), (scenarios.overtaken, 0)])
def test_standing_still_is_equal(read, made_up, head):
    assert compare(read(made_up())) == (
        5,
        None,
        f"request {head} can never be served: vLLM's queue stands still from there on",
    )


def test_only_a_log_that_was_cut_off_stands_still_for_ever(read):
    scenario = scenarios.stuck()
    del scenario["max_steps"]
    comparison = compare(read(scenario))
    assert comparison.difference == (2, "number of steps", 5, 2)
    assert comparison.note.startswith("request 1 can never be served")
    scenario["max_steps"] = 7
    assert compare(read(scenario)).difference == (5, "number of steps", 5, 7)


def test_a_log_may_be_cut_off_anywhere(read):
    scenario = scenarios.preempting()
    scenario["steps"] = scenario["steps"][:4]
    assert compare(read({**scenario, "max_steps": 4})) == (4, None, "")


PLANTED = {
    "step": (-1, 20),
    "scheduled": (6, [[1, 4]]),
    "newly_admitted": (0, [1, 0]),
    "resumed": (6, []),
    "preempted": (1, [0]),
    "finished": (5, []),
    "num_cached_tokens": (6, []),
    "free_blocks_after_schedule": (3, 2),
    "num_running": (1, 2),
    "num_waiting": (2, 0),
    "free_blocks_after_update": (5, 2),
    "running_order": (0, [1, 0]),
    "waiting_order": (4, []),
    "free_queue": (4, [2]),
    "block_tables": (6, [[1, [3, 2]]]),
}
BLOCKS = ("num_cached_tokens", "free_queue", "block_tables")


@pytest.mark.parametrize(
    ("made_up", "field"),
    [(scenarios.preempting, field) for field in PLANTED if field not in BLOCKS]
    + [(scenarios.ahead, field) for field in PLANTED],
)
def test_a_difference_in_any_field_is_found(read, made_up, field):
    assert PLANTED.keys() == Step.model_fields.keys()
    number, wrong = PLANTED[field]
    scenario = made_up()
    right = getattr(read(scenario).steps[number], field)
    scenario["steps"][number][field] = wrong
    found = compare(read(scenario)).difference
    assert (found.field, found.step) == (field, wrong if field == "step" else number)
    assert found.vllm != found.vecsched == right


def test_a_shared_block_is_counted_once(read):
    scenario = scenarios.sharing()
    scenario["steps"][1]["free_blocks_after_update"] = 3
    found = compare(read(scenario)).difference
    assert found == (1, "free_blocks_after_update", 3, 2)


@pytest.mark.parametrize("field", [field for field in Summary.model_fields if field != "events"])
def test_a_difference_in_any_count_is_found(read, field):
    scenario = scenarios.ahead()
    right = scenario["summary"][field]
    scenario["summary"][field] = right + 1
    found = compare(read(scenario)).difference
    assert found == (None, field, right + 1, right)
    assert str(found) == f"summary, {field}: vLLM {right + 1}, vecsched {right}"


@pytest.mark.parametrize("event", sorted(COUNTED))
def test_a_difference_in_any_event_is_found(read, event):
    scenario = scenarios.ahead()
    events = scenario["summary"]["events"]
    right = events.get(event, 0)
    events[event] = right + 1
    found = compare(read(scenario)).difference
    assert found == (None, f"events.{event}", right + 1, right)


def test_an_event_left_out_never_happened(read):
    scenario = scenarios.sharing()
    del scenario["summary"]["events"]["hit_in_use"]
    assert compare(read(scenario)).difference == (None, "events.hit_in_use", 0, 2)
    del scenario["summary"]["events"]
    assert compare(read(scenario)).difference is None


def test_the_first_difference_counts(read):
    scenario = scenarios.preempting()
    scenario["steps"][6]["scheduled"] = [[1, 4]]
    scenario["steps"][2]["num_waiting"] = 5
    assert compare(read(scenario)).difference == Difference(2, "num_waiting", 5, 1)
    # An empty list is left out: here vLLM would have preempted nobody.
    del scenario["steps"][1]["preempted"]
    found = compare(read(scenario)).difference
    assert str(found) == "step 1, preempted: vLLM [], vecsched [1]"


@pytest.mark.parametrize("change", [slice(0, 7), slice(0, 0)])
def test_a_log_that_ends_too_soon(read, change):
    scenario = scenarios.preempting()
    scenario["steps"] = scenario["steps"][change]
    kept = len(scenario["steps"])
    assert compare(read(scenario)).difference == (kept, "number of steps", kept, 8)


def test_a_log_that_goes_on(read):
    scenario = scenarios.preempting()
    scenario["steps"].append(scenarios.step(8, [[1, 1]], 1, [1]))
    assert compare(read(scenario)).difference == (8, "number of steps", 9, 8)


def test_settings_decide(read):
    scenario = scenarios.preempting()
    scenario["config"]["num_blocks"] = 5  # so request 1 need not wait
    found = compare(read(scenario)).difference
    assert found == (0, "free_blocks_after_schedule", 1, 2)


# Files that cannot be compared.


def complaint(read, scenario):
    with pytest.raises(ScenarioError) as caught:
        read(scenario)
    place, _, text = str(caught.value).partition("scenario.json: ")
    assert place
    return text


@pytest.mark.parametrize("key", ["vllm", "name", "config", "requests", "steps"])
def test_a_missing_part(read, key):
    scenario = scenarios.preempting()
    del scenario[key]
    assert complaint(read, scenario) == f"{key}: is missing"


@pytest.mark.parametrize(
    ("part", "key", "place"),
    [
        ("config", "num_blocks", "config.num_blocks"),
        ("config", "policy", "config.policy"),
        ("requests", "prompt_len", "requests.1.prompt_len"),
        ("requests", "arrival_time", "requests.1.arrival_time"),
        ("steps", "scheduled", "steps.1.scheduled"),
        ("steps", "free_blocks_after_update", "steps.1.free_blocks_after_update"),
    ],
)
def test_a_missing_key(read, part, key, place):
    scenario = scenarios.preempting()
    del (scenario[part] if part == "config" else scenario[part][1])[key]
    assert complaint(read, scenario) == f"{place}: is missing"


def changed(part, key, value):
    scenario = scenarios.preempting()
    (scenario[part] if part == "config" else scenario[part][1])[key] = value
    return scenario


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ({}, "format None, but vllm-v1-scheduler-steps/1 and vllm-v1-scheduler-steps/2 are"),
        ({**scenarios.preempting(), "format": "other/3"}, "format 'other/3', but"),
        ([1], "format [1], but"),
        (changed("config", "block_size", 0), "config.block_size: must be greater than or equal"),
        (changed("config", "async_scheduling", 1), "config.async_scheduling: must be a valid bool"),
        (changed("config", "policy", "lottery"), "unknown policy 'lottery'"),
        (changed("config", "num_blocks", 1), "kv_blocks must be a whole number from 1"),
        (changed("config", "max_num_seqs", "4"), "config.max_num_seqs: must be a valid integer"),
        (changed("config", "max_num_seqs", 9), "max_num_batched_tokens 8 is less than"),
        ({**scenarios.preempting(), "vllm": "0.20.1"}, "unknown vllm_version '0.20'"),
        ({**scenarios.preempting(), "requests": []}, "requests: "),
        (changed("requests", "id", 5), "requests.1.id is 5, but ids count from 0"),
        (changed("requests", "prompt_len", -4), "must not be negative"),
        (changed("requests", "hash_ids", ["a"]), "requests.1.hash_ids.0: must be a valid integer"),
        (
            changed("requests", "hash_ids", [1, 2]),
            "requests.1.hash_ids has length 2, but must have",
        ),
        (changed("requests", "hash_ids", []), "one id for each of the prompt's 1 full blocks"),
        (changed("steps", "free_queue", [1, -2]), "steps.1.free_queue cannot be compared without"),
        (changed("steps", "block_tables", []), "steps.1.block_tables cannot be compared without"),
        (changed("steps", "free_list", [1]), "steps.1.free_list: is not understood"),
        ({**scenarios.ahead(), "summary": {"hits": 1}}, "summary.hits: is not understood"),
        (changed("steps", "scheduled", [[0]]), "steps.1.scheduled.0.1: is missing"),
    ],
)
def test_bad_scenarios(read, scenario, message):
    assert message in complaint(read, scenario)


def test_requests_out_of_order(read):
    scenario = changed("requests", "arrival_step", 0)
    scenario["requests"][0]["arrival_step"] = 2
    assert complaint(read, scenario) == "requests must stand in order of arrival_step"


def test_what_is_no_scenario_at_all(tmp_path):
    with pytest.raises(ScenarioError, match=r"nowhere\.json: cannot be read as a scenario"):
        read_scenario(tmp_path / "nowhere.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(ScenarioError, match=r"text\.json: cannot be read as a scenario"):
        read_scenario(tmp_path / "text.json")
