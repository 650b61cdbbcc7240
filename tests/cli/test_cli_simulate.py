"""`vecsched simulate`."""

import json

import pandas as pd
import pytest
import typer

from sweeps.cli import simulate
from sweeps.cli.fields import field_texts
from vecsched import MetricOptions, SchedulerConfig


def test_simulate(ok, trace):
    out, err = ok("simulate", trace, "--cost", "unit", "--max-batch-size", 1)
    title, head, *rows = out.splitlines()
    assert title == "trace.csv, load 1, unit, strict, fcfs"
    assert head.split() == ["mean", "p50", "p90", "p95", "p99", "max"]
    # One slot, 1 s an iteration. Request 0 runs 0 to 3 (3 outputs), 2 waits from 2 and runs 3 to 5,
    # 1 arrives at 5 and runs 5 to 7: its one output, and the strict discipline's idle iteration.
    assert rows[0].split() == ["queue_wait_s", "0.3333", "0", "0.8", "0.9", "0.98", "1"]
    assert any(line.split()[:2] == ["makespan_s", "7"] for line in rows)
    assert "1 rows arrive before the row ahead" in err


def test_simulate_for_machines(ok, trace, tmp_path):
    (tmp_path / "scheduler.yaml").write_text("discipline: static\nmax_batch_size: 1\n")
    arguments = ["--cost", "unit", "--config", tmp_path / "scheduler.yaml", "--load", 2]
    out, _ = ok("simulate", trace, *arguments, "--max-batch-size", 3, "--ttft-slo-s", 1, "--json")
    result = json.loads(out)
    assert (result["trace"], result["load"], result["cost"]) == ("trace.csv", 2, "unit")
    assert result["config"]["discipline"] == "static"  # from the file
    assert result["config"]["max_batch_size"] == 3  # the option overrides it
    assert result["config"]["block_size"] == SchedulerConfig().block_size
    assert result["summary"]["requests"] == 3
    assert result["summary"]["kv_utilization"] is None  # no capacity, nothing to measure
    # At twice the load 2 arrives at 1 and waits for 0's batch until 3; 1 arrives at 2.5 and joins.
    assert result["summary"]["slo_attainment"] == 1 / 3


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_simulate_writes_the_requests(ok, trace, tmp_path, ending):
    output = tmp_path / f"requests{ending}"
    ok("simulate", trace, "--cost", "unit", "--max-batch-size", 1, "-o", output)
    requests = pd.read_csv(output) if ending == ".csv" else pd.read_parquet(output)
    assert requests["arrival_s"].tolist() == [0, 5, 2]  # the file's order
    assert requests["finished_s"].tolist() == [3, 7, 5]


def test_simulate_needs_no_file(ok):
    arguments = ["--requests", 20, "--cost", "unit", "--json"]
    first, second, other = (
        json.loads(ok("simulate", *arguments, "--seed", seed)[0]) for seed in (1, 1, 2)
    )
    assert (first["trace"], first["summary"]["requests"]) == ("azure-conv-like", 20)
    assert first == second
    assert first["summary"] != other["summary"]


def test_the_first_run_says_that_it_compiles(ok, trace, monkeypatch):
    monkeypatch.setattr(simulate, "is_compiled", lambda: False)
    _, err = ok("simulate", trace, "--cost", "unit")
    assert "compiling the kernels (the first time only)" in err


@pytest.mark.parametrize("cls", [SchedulerConfig, MetricOptions])
def test_every_field_is_an_option_with_a_text(cls):
    options = {option.name: option for option in typer.main.get_command(simulate.app).params}
    for name in cls.__dataclass_fields__:
        assert options[name].opts == [f"--{name.replace('_', '-')}"]
        assert len(options[name].help) > 10


def test_texts_of_fields_come_from_the_docstring():
    class Some:
        """Something.

        Attributes:
            one, two: first line
                and second; `code`.
            three: short.

        Raises:
            four: is no field.
        """

    assert field_texts(Some) == {
        "one": "first line and second; code.",
        "two": "first line and second; code.",
        "three": "short.",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "fcsf"], "unknown policy 'fcsf'; did you mean 'fcfs'?"),
        (["--max-batch-size", "0"], "max_batch_size must be a whole number from 1"),
        (["--cost", "units"], "unknown preset 'units'"),
        (["--cost", "nowhere.json"], "nowhere.json"),
        (["--load", "0"], "a load factor must be positive"),
        (["--synthetic", "azure"], "known: azure-conv-like"),
        (["--requests", "0"], "trace.requests = 0"),
        (["nowhere.csv"], "nowhere.csv: there is no such file"),
        (["nowhere.csv", "--seed", "1"], "trace.seed = 1: goes with 'synthetic' only"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--warmup", "0.6", "--cooldown", "0.6"], "leave no steady window"),
        (["--policy", "priority"], "needs the trace column 'priority'"),
        (["--requests", "5", "-o", "nowhere/out.csv"], "nowhere/out.csv: cannot be written"),
    ],
)
def test_bad_simulations(refused, arguments, message):
    assert message in refused("simulate", *arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("polcy: fcfs", "unknown field 'polcy'; did you mean 'policy'?"),
        ("- policy", "must be a mapping of scheduler fields"),
        ("policy: fcsf", "did you mean 'fcfs'?"),
    ],
)
def test_bad_scheduler_files(refused, tmp_path, text, message):
    path = tmp_path / "scheduler.yaml"
    path.write_text(text)
    err = refused("simulate", "--requests", 5, "--config", path)
    assert err.startswith(f"error: {path}: ")
    assert message in err


def test_a_bad_override_is_not_blamed_on_the_file(refused, tmp_path):
    path = tmp_path / "scheduler.yaml"
    path.write_text("policy: fcfs")
    err = refused("simulate", "--requests", 5, "--config", path, "--policy", "fcsf")
    assert err == "error: unknown policy 'fcsf'; did you mean 'fcfs'?\n"


@pytest.fixture
def shared_engine(tmp_path):
    path = tmp_path / "tenants.csv"
    path.write_text(
        "arrival_s,prompt_tokens,output_tokens,tenant\n0,8,3,ann\n0,4,2,bob\n1,6,1,ann\n"
    )
    return path


def test_simulate_tells_of_tenants(ok, shared_engine, tmp_path):
    arguments = ["simulate", shared_engine, "--cost", "unit", "--max-batch-size", 1]
    curve = tmp_path / "service.csv"
    out, _ = ok(*arguments, "--service", curve)
    title, head, *rows = out.splitlines()[-4:]
    assert (title, head.split()[:3]) == ("tenants", ["tenant", "weight", "requests"])
    # Prompt tokens and twice the output tokens: 8 + 6 + 2 x 3 + 2 x 1, and 4 + 2 x 2.
    assert [row.split()[:5] for row in rows] == [
        ["ann", "1", "2", "2", "22"],
        ["bob", "1", "1", "1", "8"],
    ]
    last = pd.read_csv(curve).iloc[-1]
    assert (last["ann"], last["bob"]) == (22, 8)
    told = json.loads(ok(*arguments, "--json")[0])["tenants"]
    assert [(row["tenant"], row["service"]) for row in told] == [("ann", 22), ("bob", 8)]


def test_the_service_curve_is_a_table(refused, shared_engine, tmp_path):
    err = refused("simulate", shared_engine, "--cost", "unit", "--service", tmp_path / "curve.txt")
    assert "must end in .parquet or .csv" in err
