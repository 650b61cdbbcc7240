"""`vecsched simulate --vllm-scenario`."""

import json

import pytest
import scenarios

from sweeps.cli import scenarios as command


@pytest.fixture
def files(tmp_path):
    """Scenarios that are equal, one with a difference planted, and one that stands still."""
    wrong = scenarios.preempting()
    wrong["steps"][1]["preempted"] = [0]
    contents = {"equal": scenarios.preempting(), "wrong": wrong, "stuck": scenarios.stuck()}
    contents["sharing"], contents["ahead"] = scenarios.sharing(), scenarios.ahead()
    return {
        name: scenarios.write(each, tmp_path / f"{name}.json") for name, each in contents.items()
    }


def test_equal(ok, files):
    out, err = ok("simulate", "--vllm-scenario", files["equal"])
    assert out == f"equal: {files['equal']}: 8 steps\n"
    assert err == ""
    out, _ = ok("simulate", "--vllm-scenario", files["stuck"])
    assert out.startswith(f"equal: {files['stuck']}: 5 steps (request 1 can never be served")


def test_prefix_caching_and_asynchronous_scheduling(vecsched, ok, files, tmp_path):
    out, _ = ok("simulate", "--vllm-scenario", files["sharing"], files["ahead"])
    assert out == f"equal: {files['sharing']}: 4 steps\nequal: {files['ahead']}: 9 steps\n"
    wrong = scenarios.ahead()
    wrong["steps"][6]["free_queue"] = [1]
    bad = scenarios.write(wrong, tmp_path / "bad.json")
    code, out, _ = vecsched("simulate", "--vllm-scenario", bad)
    assert code == 1
    assert out == f"different: {bad}: step 6, free_queue: vLLM [1], vecsched [-1]\n"


def test_different(vecsched, files):
    code, out, err = vecsched("simulate", "--vllm-scenario", files["wrong"])
    assert code == 1
    assert out == f"different: {files['wrong']}: step 1, preempted: vLLM [0], vecsched [1]\n"
    assert err == ""


def test_a_run_that_stands_still_is_named_where_it_differs(vecsched, tmp_path):
    uncut = scenarios.stuck()
    del uncut["max_steps"]
    code, out, _ = vecsched("simulate", "--vllm-scenario", scenarios.write(uncut, tmp_path / "x"))
    assert code == 1
    assert "step 2, number of steps: vLLM 5, vecsched 2 (request 1 can never be served" in out


def test_several_files(vecsched, ok, files):
    several = ["simulate", "--vllm-scenario", *files.values()]
    code, out, _ = vecsched(*several)
    assert code == 1
    told = [line.partition(":")[0] for line in out.splitlines()]
    assert told == ["equal", "different", "equal", "equal", "equal"]
    # The option may come again, or files may follow it.
    again = ["simulate", "--vllm-scenario", files["equal"], "--vllm-scenario", files["stuck"]]
    assert ok(*again) == ok("simulate", "--vllm-scenario", files["equal"], files["stuck"])


def test_for_machines(vecsched, files, tmp_path):
    arguments = ["simulate", "--vllm-scenario", *files.values(), "--json"]
    code, out, _ = vecsched(*arguments)
    assert code == 1
    told = json.loads(out)
    assert told["equal"] is False
    equal, wrong, stuck, *_ = told["scenarios"]
    assert equal == {
        "file": str(files["equal"]),
        "equal": True,
        "steps": 8,
        "difference": None,
        "note": "",
    }
    assert wrong["difference"] == {"step": 1, "field": "preempted", "vllm": [0], "vecsched": [1]}
    assert (wrong["equal"], stuck["equal"]) == (False, True)
    assert "can never be served" in stuck["note"]
    other = scenarios.ahead()
    other["summary"]["cached_tokens"] = 5
    summary = scenarios.write(other, tmp_path / "summary.json")
    _, out, _ = vecsched("simulate", "--vllm-scenario", summary, "--json")
    (found,) = json.loads(out)["scenarios"]
    difference = {"step": None, "field": "cached_tokens", "vllm": 5, "vecsched": 4}
    assert found["difference"] == difference
    code, out, _ = vecsched("simulate", "--vllm-scenario", files["equal"], "--json")
    assert (code, json.loads(out)["equal"]) == (0, True)


def test_one_file_that_cannot_be_compared_spoils_all(refused, files, tmp_path):
    broken = scenarios.preempting()
    del broken["config"]["policy"]
    bad = scenarios.write(broken, tmp_path / "broken.json")
    err = refused("simulate", "--vllm-scenario", files["wrong"], bad)
    assert err == f"error: {bad}: config.policy: is missing\n"
    assert "nowhere.json" in refused("simulate", "--vllm-scenario", "nowhere.json")


@pytest.mark.parametrize(
    "option", ["--policy fcfs", "--load 2", "--cost unit", "--max-num-seqs 3", "--warmup 0"]
)
def test_a_scenario_has_settings_of_its_own(refused, files, option):
    err = refused("simulate", "--vllm-scenario", files["equal"], *option.split())
    shown = " ".join(err.replace("\u2502", " ").split())
    assert f"a scenario has settings of its own, {option.split()[0]} cannot change them" in shown


def test_two_traces_are_one_too_many(refused, trace):
    assert "one trace at a time" in refused("simulate", trace, trace)


def test_the_first_run_says_that_it_compiles(ok, files, monkeypatch):
    monkeypatch.setattr(command, "is_compiled", lambda: False)
    _, err = ok("simulate", "--vllm-scenario", files["equal"])
    assert "compiling the kernels (the first time only)" in err


def test_the_logs_of_the_real_vllm(ok, shared):
    logs = sorted((shared / "conformance").glob("vllm*/*.json"))
    out, _ = ok("simulate", "--vllm-scenario", *logs)
    lines = out.splitlines()
    assert len(lines) == 47 + 12 + 44
    assert all(line.startswith("equal: ") for line in lines)
