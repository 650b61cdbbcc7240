"""`vecsched frontier`."""

import json

import pandas as pd
import pytest


@pytest.fixture
def points(tmp_path):
    path = tmp_path / "points.parquet"
    pd.DataFrame(
        {
            "load": [1.0, 1.0, 1.0, 2.0, 2.0],
            "policy": ["fcfs", "fcfs", "random", "fcfs", "random"],
            "max_batch_size": [8, 16, 8, 8, 8],
            "goodput_requests_per_s": [1.0, 2.0, 1.0, 3.0, None],
            "slowdown_p99": [1.0, 2.5, 3.0, 4.0, None],
            "slo_attainment": [1.0, 0.5, 1.0, 1.0, None],
            "status": ["ok", "ok", "ok", "ok", "error"],
        }
    ).to_parquet(path)
    return path


def test_frontier(ok, points):
    out, err = ok("frontier", points)
    assert [line.split() for line in out.splitlines()] == [
        ["3", "of", "5", "points", "are", "on", "the", "frontier"],
        ["goodput_requests_per_s", "slowdown_p99", "mark", "load", "policy", "max_batch_size"],
        ["3", "4", "2", "fcfs", "8"],
        ["2", "2.5", "poor", "slo", "1", "fcfs", "16"],
        ["1", "1", "1", "fcfs", "8"],
    ]
    assert "left out: 1 points, error" in err
    assert "poor slo: met by fewer than 90%" in err
    assert f"figure: {points.with_suffix('.png')}" in err
    assert points.with_suffix(".png").stat().st_size > 10_000


def test_frontier_for_machines(ok, points, tmp_path):
    figure = tmp_path / "front.svg"
    arguments = ["--max", "max_batch_size", "--min", "slowdown_p99", "--by", "load"]
    out, err = ok("frontier", points, *arguments, "-o", figure, "--json")
    result = json.loads(out)
    assert err == ""
    assert (result["maximise"], result["minimise"]) == (["max_batch_size"], ["slowdown_p99"])
    assert (result["points"], result["left_out"]) == (5, {"error": 1})
    assert [(row["load"], row["max_batch_size"]) for row in result["front"]] == [
        (1, 16),
        (1, 8),
        (2, 8),
    ]
    assert result["figure"] == str(figure)
    assert figure.read_text().startswith("<?xml")


def test_one_objective_has_no_figure(ok, points):
    out, err = ok("frontier", points, "--min", "slowdown_p99")
    assert "1 of 5 points" in out
    assert "no figure" in err
    assert not points.with_suffix(".png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max", "goodput_request_per_s"], "did you mean 'goodput_requests_per_s'?"),
        (["--by", "laod"], "did you mean 'load'?"),
        (["--max", "policy"], "must be a column of numbers"),
        (["-o", "front.jpeg"], "must end in one of .png, .svg, .pdf"),
    ],
)
def test_bad_frontiers(refused, points, arguments, message):
    assert message in refused("frontier", points, *arguments)
    assert [path.name for path in points.parent.iterdir()] == ["points.parquet"]


def test_files_that_hold_no_points(refused, tmp_path):
    assert "nowhere.parquet: cannot be read" in refused("frontier", tmp_path / "nowhere.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet")
    assert "is not a Parquet file" in refused("frontier", tmp_path / "text.parquet")
