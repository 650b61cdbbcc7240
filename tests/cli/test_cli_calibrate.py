"""`vecsched calibrate` and `vecsched validate`."""

import json

import pytest

from vecsched import CostModel

GPU = """\
gpu: {flops_per_s: 9.89e+14, memory_bytes_per_s: 3.35e+12}
model: llama-3.1-8b
"""


@pytest.fixture
def gpu(tmp_path):
    path = tmp_path / "h100.yaml"
    path.write_text(GPU)
    return path


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    engine = {"max_num_seqs": 4, "max_num_batched_tokens": 64}
    meta = {"model": "Llama-3.1-8B", "vllm_version": "0.19.0", "engine_kwargs": engine}
    (folder / "meta.json").write_text(json.dumps(meta))
    rows = [
        {"input_toks": 30, "output_toks": 5, "arrival_time": t, "queued_ts": t}
        | {"first_token_ts": t + 0.1, "last_token_ts": t + 0.3}
        for t in (0.0, 0.2, 0.9, 2.0)
    ]
    (folder / "requests.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_calibrate_writes_a_model_with_its_error(ok, gpu, tmp_path):
    output = tmp_path / "cost.json"
    out, err = ok("calibrate", gpu, "-o", output)
    assert out.startswith("h100: abs(model / given - 1)")
    assert "held out, decode_only" in out
    assert f"cost model: {output}" in err
    model = CostModel.load(output)
    assert model.name == "h100"
    assert model.error["all"]["mean"] < 0.02


def test_calibrate_for_machines(ok, gpu, tmp_path):
    output = tmp_path / "cost.json"
    out, _ = ok("calibrate", gpu, "-o", output, "--name", "mine", "--licence", "MIT", "--json")
    told = json.loads(out)
    assert told["name"] == "mine"
    assert told["error"] == CostModel.load(output).error
    assert CostModel.load(output).licence == "MIT"


def test_a_fit_beyond_the_bound_is_refused_unless_forced(ok, refused, gpu, tmp_path):
    output = tmp_path / "cost.json"
    err = refused("calibrate", gpu, "-o", output, "--max-error", "0.0001")
    assert "above the bound of 0.0%; --force accepts it" in err
    assert not output.exists()
    _, err = ok("calibrate", gpu, "-o", output, "--max-error", "0.0001", "--force")
    assert "warning: " in err
    assert output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: there is no such file or folder"),
        (["cost.txt"], "there is no such file"),
        (["RUN"], "a run adjusts a cost model: give one to start from"),
        (["GPU", "--kind", "roof"], "unknown kind 'roof'; did you mean 'roofline'?"),
        (["GPU", "--model", "llama-9"], "unknown model 'llama-9'"),
        (["GPU", "-o", "cost.yaml"], "cost.yaml must end in .json"),
    ],
)
def test_bad_calibrations(refused, gpu, run_dir, tmp_path, arguments, message):
    places = {"RUN": run_dir, "GPU": gpu}
    given = [places.get(argument, argument) for argument in arguments]
    more = [] if "-o" in arguments else ["-o", tmp_path / "cost.json"]
    assert message in refused("calibrate", *given, *more)


HEAD = "num_prefill_tokens,num_decode_seqs,sum_context_tokens,prefill_context_tokens,seconds\n"


def test_several_files_are_one_source(ok, refused, gpu, tmp_path):
    """Iterations of 1 ms and 10 us a token, in two tables that are no use alone."""
    rows = [
        f"{64 * (n % 2)},{n},{100 * n},0,{1e-3 + 1e-5 * (64 * (n % 2) + n)}\n" for n in range(1, 41)
    ]
    tables = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for place, table in enumerate(tables):
        table.write_text(HEAD + "".join(rows[place::2]))
    output = tmp_path / "cost.json"
    out, _ = ok("calibrate", *tables, "-o", output, "--name", "both")
    assert out.startswith("both: ")
    assert CostModel.load(output).source == f"{tables[0]} {tables[1]}"
    assert "a fit needs 20, some with a prefill" in refused("calibrate", tables[0], "-o", output)
    err = refused("calibrate", tables[0], gpu, "-o", output)
    assert "these do not go together (a.csv: iterations, h100.yaml: roofline)" in err


def test_what_gpus_send_each_other_is_asked_for(ok, gpu, tmp_path):
    output = tmp_path / "cost.json"
    _, err = ok("calibrate", gpu, "-o", output, "--tensor-parallel", 2)
    assert "--all-reduce FILE adds it" in err
    table = tmp_path / "all_reduce.csv"
    rows = [f"{size},2,2,{0.01 + size * 1e-7}\n" for size in (2048, 2**20, 2**24)]
    head = "size,num_workers,devices_per_node,time_stats.all_reduce.median\n"
    table.write_text(head + "".join(rows))
    without = CostModel.load(output)
    _, err = ok("calibrate", gpu, "-o", output, "--tensor-parallel", 2, "--all-reduce", table)
    assert "--all-reduce" not in err
    more = CostModel.load(output).tables(4096, 8).token_ps - without.tables(4096, 8).token_ps
    # 4,096 tokens of 4,096 numbers of 2 bytes: 32 MiB, beyond the table. 64 calls.
    assert more[4096] / 1e12 == pytest.approx(64 * (0.01 + 2**25 * 1e-7) * 1e-3, rel=0.01)


def test_validate_tells_how_gpus_are_connected(ok, gpu, run_dir, tmp_path):
    meta = json.loads((run_dir / "meta.json").read_text())
    meta["engine_kwargs"]["tensor_parallel_size"] = 2
    (run_dir / "meta.json").write_text(json.dumps(meta))
    command = ("validate", run_dir, "--profile", gpu, "--json")
    plain = json.loads(ok(*command)[0])
    assert "--all-reduce FILE adds it" in plain["notes"][-1]
    (run_dir / "config.json").write_text('{"link_bw": 16, "link_latency": 20000}')
    linked = json.loads(ok(*command)[0])
    assert (
        "a ring over the links of the run's config.json: 16 GB/s and 20 us" in linked["notes"][-1]
    )
    slower = linked["metrics"][0]["simulated_s"] - plain["metrics"][0]["simulated_s"]
    # Prefill of 30 tokens: 64 all-reduces of 2 steps, each 20 us and half of 240 KiB at 16 GB/s.
    assert slower == pytest.approx(64 * 2 * (20e-6 + 30 * 4096 * 2 / 2 / 16e9), rel=0.02)


def test_a_run_adjusts_a_model(ok, gpu, run_dir, tmp_path):
    output = tmp_path / "cost.json"
    ok("calibrate", run_dir, "--base", "llama3-8b-h100", "-o", output, "--force")
    assert {"factor", "overhead_s", "ttft", "held_out"} <= CostModel.load(output).error.keys()


def test_validate(ok, run_dir, tmp_path):
    figure = tmp_path / "cdf.png"
    out, err = ok("validate", run_dir, "--cost", "llama3-8b-h100", "-o", figure)
    assert "time to first token" in out
    assert "makespan" in out
    assert "never run out" in err
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_validate_for_machines(ok, run_dir):
    out, _ = ok("validate", run_dir, "--cost", "llama3-8b-h100", "--json")
    told = json.loads(out)
    assert len(told["metrics"]) == 15
    row = told["metrics"][0]
    assert row.keys() == {"metric", "stat", "measured_s", "simulated_s", "diff_percent"}
    assert (row["metric"], row["stat"], row["measured_s"]) == ("ttft", "mean", pytest.approx(0.1))


def test_validate_needs_one_cost(refused, run_dir):
    assert "exactly one of --profile and --cost" in refused("validate", run_dir)
