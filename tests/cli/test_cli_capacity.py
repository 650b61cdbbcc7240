"""`vecsched capacity`."""

import json

import pandas as pd
import pytest


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(
        "trace: {synthetic: azure-conv-like, requests: 100}\n"
        "cost: llama3-8b-a100\n"
        "axes: {load: [1, 5], seed: [0, 1, 2], max_batch_size: [1, 64]}\n"
        "slo: {ttft_s: 5}\n"
    )
    return path


def test_capacity(ok, spec, tmp_path):
    output = tmp_path / "capacity.parquet"
    out, err = ok("capacity", spec, "-o", output, "--tolerance", 0.1)
    title, head, *rows = out.splitlines()
    assert title == "capacity of 2 configurations, the best first"
    assert head.split()[-1] == "max_batch_size"
    assert [line.split()[-1] for line in rows] == ["64", "1"]
    assert f"{output}: 6 points of 100 requests in " in err  # the loads of the file play no part
    points = pd.read_parquet(output)
    assert set(points["load"]) == {1.0}
    best, worst = (points[points["max_batch_size"] == size] for size in (64, 1))
    assert best["capacity_load"].mean() > worst["capacity_load"].mean()
    low, mean, high = (float(rows[0].split()[n].replace(",", "")) for n in (1, 0, 2))
    assert low < mean < high
    assert mean == pytest.approx(best["capacity_requests_per_s"].mean(), rel=1e-3)


def test_capacity_for_machines_and_again(ok, spec, tmp_path):
    output = tmp_path / "capacity.parquet"
    arguments = ["capacity", spec, "-o", output, "--tolerance", 0.1, "--json"]
    first = json.loads(ok(*arguments)[0])
    again = json.loads(ok(*arguments, "--resume")[0])
    assert (first["points"], first["resumed"], again["resumed"]) == (6, 0, 6)
    assert first["capacities"] == again["capacities"]
    assert {row["broke_first"] for row in first["capacities"]} <= {"ttft_p99_s", "slo_attainment"}
    # Another criterion is another question: nothing of the answer can be reused.
    other = json.loads(ok(*arguments, "--resume", "--attainment", 0.9)[0])
    assert other["resumed"] == 0


def test_only_the_best_are_printed(ok, spec, tmp_path):
    out, err = ok("capacity", spec, "-o", tmp_path / "c.parquet", "--tolerance", 1, "--top", 1)
    assert len(out.splitlines()) == 3
    assert "1 more are in the file" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quantile", "p98"], "quantile must be p50, p90, p95 or p99"),
        (["--tolerance", 0], "tolerance must be from"),
        (["-o", "capacity"], "capacity must end in .parquet"),
    ],
)
def test_bad_searches(refused, spec, arguments, message):
    assert message in refused("capacity", spec, *arguments)


def test_a_capacity_needs_objectives(refused, spec):
    spec.write_text(spec.read_text().replace("slo: {ttft_s: 5}", ""))
    assert "slo: a capacity needs bounds, such as ttft_s: 1" in refused("capacity", spec)
