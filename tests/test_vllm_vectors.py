"""Step logs of the real vLLM, and made-up ones: every logged field of every step."""

import pytest
import scenarios

from sweeps.errors import ScenarioError
from sweeps.vllm_scenario import (
    Difference,
    Step,
    compare,
    first_difference,
    read_scenario,
    steps_of,
)
from vecsched import CostModel, simulate
from vecsched.simulation import Iteration, decisions_until_stuck

STUCK = "s27_stuck"
# Synchronous and without prefix caching; the other files there are neither.
OLDER = (
    "s09_threshold_lone_request",
    "s22_priority_self_preempt_goes_on",
    "s23_priority_ties",
    "s29_priority_budget_returned",
)


def vectors(shared):
    files = sorted((shared / "conformance/vllm").glob("*.json"))
    older = [shared / f"conformance/vllm_0.19/{name}.json" for name in OLDER]
    assert (len(files), len(older)) == (47, 4)
    return [*files, *older]


# The real vLLM.


def test_every_step_of_vllm(shared):
    for path in vectors(shared):
        scenario = read_scenario(path)
        comparison = compare(scenario)
        assert comparison.difference is None, (path, str(comparison.difference))
        if scenario.name == STUCK:
            assert "request 1 can never be served" in comparison.note
            assert comparison.steps == 4 < len(scenario.steps)
        else:
            assert (comparison.steps, comparison.note) == (len(scenario.steps), "")


def test_simulate_takes_the_same_decisions(shared):
    # `simulate` refuses what could never be served; nobody is refused but in one file.
    for path in vectors(shared):
        scenario = read_scenario(path)
        trace, config, steps = scenario.trace, scenario.config, scenario.steps
        result = simulate(trace, config, CostModel.unit(), log_iterations=True)
        if scenario.name == STUCK:
            assert result.requests["reason"].tolist() == ["", "kv_blocks", "", "", ""]
            continue
        iterations = [Iteration(**row) for row in result.iterations.to_dict("records")]
        assert iterations == decisions_until_stuck(trace, config, CostModel.unit())[0]
        assert first_difference(steps, list(steps_of(iterations, trace, config))) is None, path
        assert result.summary["completed"] == len(trace)
        assert result.summary["preemptions"] == sum(len(step.preempted) for step in steps)


def test_the_version_makes_a_difference(shared):
    for name in OLDER:
        scenario = read_scenario(shared / f"conformance/vllm_0.19/{name}.json")
        newer = scenario._replace(config=scenario.config.replace(vllm_version="0.33"))
        assert compare(newer).difference is not None


@pytest.mark.parametrize(
    ("file", "feature"),
    [
        ("vllm_defaults/p02_resume_all_cached.json", "enable_prefix_caching"),
        ("vllm_defaults/a01_ample.json", "async_scheduling"),
        ("vllm_0.19/h04_duplicates.json", "enable_prefix_caching"),
    ],
)
def test_what_is_not_modelled(shared, file, feature):
    with pytest.raises(ScenarioError, match=f"{feature} is on, which is not modelled yet"):
        read_scenario(shared / "conformance" / file)


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


def test_orders_need_not_be_logged(read):
    scenario = scenarios.preempting()
    for step in scenario["steps"]:
        del step["running_order"], step["waiting_order"]
    assert compare(read(scenario)).difference is None


def test_standing_still_for_ever_is_equal(read):
    comparison = compare(read(scenarios.stuck()))
    assert comparison.difference is None
    assert comparison.steps == 2
    assert comparison.note == (
        "request 1 can never be served: vLLM's queue stands still from there on"
    )


PLANTED = {
    "step": (7, 8),
    "scheduled": (6, [[1, 4]]),
    "newly_admitted": (0, [1, 0]),
    "resumed": (6, []),
    "preempted": (1, [0]),
    "finished": (5, []),
    "free_blocks_after_schedule": (3, 2),
    "num_running": (1, 2),
    "num_waiting": (2, 0),
    "free_blocks_after_update": (5, 2),
    "running_order": (0, [1, 0]),
    "waiting_order": (4, []),
}


@pytest.mark.parametrize("field", Step.model_fields)
def test_a_difference_in_any_field_is_found(read, field):
    number, wrong = PLANTED[field]
    right = read(scenarios.preempting()).steps[number]
    scenario = scenarios.preempting()
    scenario["steps"][number][field] = wrong
    found = compare(read(scenario)).difference
    assert (found.field, found.step) == (field, wrong if field == "step" else number)
    assert found.vllm != found.vecsched == getattr(right, field)


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
        (changed("config", "enable_prefix_caching", True), "config: enable_prefix_caching is on"),
        (changed("config", "async_scheduling", True), "which is not modelled yet"),
        (changed("config", "policy", "lottery"), "unknown policy 'lottery'"),
        (changed("config", "num_blocks", 1), "kv_blocks must be a whole number from 1"),
        (changed("config", "max_num_seqs", "4"), "config.max_num_seqs: must be a valid integer"),
        (changed("config", "max_num_seqs", 9), "max_num_batched_tokens 8 is less than"),
        ({**scenarios.preempting(), "vllm": "0.20.1"}, "unknown vllm_version '0.20'"),
        ({**scenarios.preempting(), "requests": []}, "requests: "),
        (changed("requests", "id", 5), "requests.1.id is 5, but ids count from 0"),
        (changed("requests", "prompt_len", -4), "must not be negative"),
        (changed("steps", "free_queue", [1, -2]), "steps.1.free_queue: is not understood"),
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
