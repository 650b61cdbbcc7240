"""`vecsched confidence`."""

import json

import pandas as pd
import pytest


@pytest.fixture
def points(tmp_path):
    path = tmp_path / "points.parquet"
    pd.DataFrame(
        {
            "policy": ["fcfs", "edf"] * 2,
            "load": [1.0] * 4,
            "seed": [0, 0, 1, 1],
            "goodput_requests_per_s": [1.0, 2.0, 3.0, 4.0],
            "slowdown_p99": [5.0, 4.0, 5.0, 4.0],
        }
    ).to_parquet(path)
    return path


def test_means(ok, points):
    out, _ = ok("confidence", points)
    title, head, *rows = out.splitlines()
    assert title == "means over seeds, with 95% intervals"
    assert head.split()[:5] == [
        *("policy", "seeds", "goodput_requests_per_s"),
        *("goodput_requests_per_s_low", "goodput_requests_per_s_high"),
    ]
    assert [row.split() for row in rows] == [
        ["fcfs", "2", "2", "1", "3", "5", "5", "5"],
        ["edf", "2", "3", "2", "4", "4", "4", "4"],
    ]


def test_differences(ok, points):
    arguments = ["--metric", "slowdown_p99", "--baseline", "policy=fcfs", "--baseline", "load=1"]
    out, _ = ok("confidence", points, *arguments)
    assert out.startswith("differences from policy=fcfs, load=1 over seeds, with 95% intervals")
    assert out.splitlines()[-1].split() == ["2", "-1", "-1", "-1"]
    result = json.loads(ok("confidence", points, *arguments, "--json")[0])
    assert (result["level"], result["rows"][0]["slowdown_p99"]) == (0.95, -1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric", "slowdown_p98"], "did you mean 'slowdown_p99'?"),
        (["--baseline", "policy"], "'policy' must be COLUMN=VALUE"),
        (["--baseline", "load=high"], "load is a column of numbers"),
        (["--baseline", "policy=lcfs"], "no point has these values"),
        (["--level", 1], "is not between 0 and 1"),
    ],
)
def test_bad_questions(refused, points, arguments, message):
    assert message in refused("confidence", points, *arguments)
