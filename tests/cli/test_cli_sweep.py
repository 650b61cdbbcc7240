"""`vecsched sweep`."""

import json

import pandas as pd
import pytest

from sweeps import files
from sweeps.cli import progress
from sweeps.frontier import pareto_front


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(
        "trace: {synthetic: azure-conv-like, requests: 20}\n"
        "cost: {affine: {fixed_s: 0.01, per_prefill_token_s: 0.0001, per_decode_s: 0,"
        " per_context_token_s: 0}}\n"
        "axes: {load: [1, 4], max_batch_size: [1, 64], policy: [fcfs, shortest_total]}\n"
        "slo: {ttft_s: 1}\n"
    )
    return path


def test_sweep(ok, spec, tmp_path):
    output = tmp_path / "out.parquet"
    out, err = ok("sweep", spec, "-o", output)
    points = pd.read_parquet(output)
    assert len(points) == 8
    assert set(points["status"]) == {"ok"}
    front = pareto_front(points, by="load")
    assert out.splitlines()[0] == f"{len(front)} of 8 points are on the frontier"
    assert out.splitlines()[1].split()[0] == "load"
    assert f"figure: {tmp_path / 'out.png'}" in err
    assert f"{output}: 8 points of 20 requests in " in err
    assert (tmp_path / "out.png").exists()


def test_sweep_for_machines(ok, spec, tmp_path):
    output = tmp_path / "out.parquet"
    out, _ = ok("sweep", spec, "-o", output, "--workers", 1, "--json")
    result = json.loads(out)
    assert (result["points"], result["failed"], result["workers"]) == (8, 0, 1)
    assert (result["output"], result["figure"]) == (str(output), str(tmp_path / "out.png"))


def test_dry_run_writes_nothing(ok, spec, tmp_path):
    out, _ = ok("sweep", spec, "-o", tmp_path / "out.parquet", "--dry-run")
    assert ["points", "8"] in [line.split() for line in out.splitlines()]
    result = json.loads(ok("sweep", spec, "--dry-run", "--json")[0])
    assert (result["points"], result["requests"]) == (8, 20)
    assert [path.name for path in tmp_path.iterdir()] == ["spec.yaml"]


def test_sweep_reports_rows_out_of_order(ok, spec, trace):
    spec.write_text("trace: {path: trace.csv}\ncost: unit\n")
    assert "trace.csv: 1 rows arrive before the row ahead" in ok("sweep", spec, "--dry-run")[1]


def test_failed_points_are_counted_and_have_their_exit_code(vecsched, spec, tmp_path):
    # 20 requests of 20 tokens, one by one, take 400 iterations of 20,000 s: 8e6 s are beyond the
    # clock's 4.6e6 s. Side by side they take 20: 4e5 s.
    (tmp_path / "same.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + "0,8,20\n" * 20)
    spec.write_text(
        "trace: {path: same.csv}\n"
        "cost: {affine: {fixed_s: 20000, per_prefill_token_s: 0, per_decode_s: 0,"
        " per_context_token_s: 0}}\n"
        "axes: {max_batch_size: [1, 64]}\n"
    )
    output = tmp_path / "out.parquet"
    code, out, err = vecsched("sweep", spec, "-o", output)
    assert code == 1
    assert pd.read_parquet(output)["status"].tolist() == ["error", "ok"]
    assert "1 of 2 points failed, first point 0 (max_batch_size=1" in err
    assert "left out: 1 points, error" in err
    assert out.startswith("1 of 2 points are on the frontier")
    code, out, _ = vecsched("sweep", spec, "-o", output, "--json")
    assert (code, json.loads(out)["failed"]) == (1, 1)


def test_an_interrupt_keeps_what_is_done_and_says_how_to_go_on(
    vecsched, ok, spec, tmp_path, monkeypatch
):
    def interrupt(self, points, failed):
        self.done += points
        raise KeyboardInterrupt

    output = tmp_path / "out.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(progress.Lines, "advance", interrupt)
        code, out, err = vecsched("sweep", spec, "-o", output, "--workers", 1, "--per-request")
    assert (code, out) == (130, "")
    command = f"vecsched sweep {spec} -o {output} --resume --per-request"
    assert err.endswith(f"1 of 8 points are done and kept; go on with: {command}\ninterrupted\n")
    assert not output.exists()
    assert "holds 1 parts of a sweep; resume it" in vecsched("sweep", spec, "-o", output)[2]
    _, err = ok(*command.split()[1:])
    assert "8 points of 20 requests in " in err
    assert ", 1 of them by earlier runs" in err
    assert len(pd.read_parquet(output)) == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("out.parquet", "out.png", "out.requests", "spec.yaml"),
    ]


def test_a_full_disk_says_how_to_go_on(vecsched, spec, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    output = tmp_path / "out.parquet"
    monkeypatch.setattr(files.os, "replace", full)
    code, out, err = vecsched("sweep", spec, "-o", output)
    assert (code, out) == (2, "")
    assert f"kept; go on with: vecsched sweep {spec} -o {output} --resume\n" in err
    assert err.endswith("cannot be written: No space left on device\n")


def test_schema(ok):
    schema = json.loads(ok("sweep", "--schema")[0])
    assert {"trace", "cost", "axes", "design", "constraints"} <= set(schema["properties"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("axes:", "axis:"), "axis: no such key; did you mean 'axes'?"),
        (("fcfs", "fcsf"), "unknown policy 'fcsf'; did you mean 'fcfs'?"),
        (("azure-conv-like", "azure"), "unknown synthetic trace 'azure'"),
    ],
)
def test_bad_sweeps(refused, spec, tmp_path, change, message):
    spec.write_text(spec.read_text().replace(*change))
    assert message in refused("sweep", spec, "-o", tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["spec.yaml"]


def test_sweeps_that_cannot_be_found_or_written(refused, spec, tmp_path):
    assert "known: default, " in refused("sweep", "nothing-near")
    assert "workers must be" in refused("sweep", spec, "--workers", 0)
    err = refused("sweep", spec, "-o", tmp_path / "nowhere" / "out.parquet")
    assert "out.parquet: cannot be written" in err
