"""`vecsched frontier`."""

import json

import pandas as pd
import pytest

OBJECTIVES = ["goodput_requests_per_s", "slowdown_p99"]


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
        [*OBJECTIVES, "mark", "load", "max_batch_size", "row"],
        ["3", "4", "2", "8", "3"],
        ["2", "2.5", "poor", "slo", "1", "16", "1"],
        ["1", "1", "1", "8", "0"],
    ]
    assert "all of them: policy fcfs\n" in err
    # From goodput 1 and slowdown 4: 1 wide and 4 - 2.5 high; the others lie on its edges.
    assert "hypervolume, from the worst values: 1.5\n" in err
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


def cells(line):
    return line.split()


def words(out):
    return [cells(line) for line in out.splitlines()]


@pytest.fixture
def seeds(tmp_path):
    """Three sizes at two loads, two seeds each; on its own, 16 is the knee between 8 and 32."""
    path = tmp_path / "seeds.parquet"
    sizes = {8: (1.0, 1.0), 16: (5.0, 2.0), 32: (6.0, 6.0), 64: (5.0, 40.0)}
    rows = [
        (load, seed, size, goodput + (seed if size == 32 else 0.0), slowdown * load)
        for load in (1.0, 2.0)
        for seed in (0, 1)
        for size, (goodput, slowdown) in sizes.items()
    ]
    columns = ["load", "seed", "max_batch_size", "goodput_requests_per_s", "slowdown_p99"]
    pd.DataFrame(rows, columns=columns).assign(status="ok").to_parquet(path)
    return path


@pytest.fixture
def one_seed(seeds):
    path = seeds.with_name("one.parquet")
    frame = pd.read_parquet(seeds)
    frame[frame["seed"] == 0].to_parquet(path)  # with gaps in its index: rows count from 0
    return path


def test_knees_are_marked(ok, one_seed):
    out, err = ok("frontier", one_seed, "--by", "load", "--json")
    front = json.loads(out)["front"]
    assert [(row["row"], row["knee"]) for row in front] == [
        (2, False),
        (1, True),
        (0, False),
        (6, False),
        (5, True),
        (4, False),
    ]
    # Load 1, from goodput 1 and slowdown 80: 32 at 5 x 74; 16 adds 4 x (78 - 74).
    assert json.loads(out)["hypervolume"] == {"1.0": 386.0, "2.0": 5 * 68.0 + 4 * 8.0}
    out, err = ok("frontier", one_seed, "--by", "load")
    assert sum("knee," in line for line in words(out)) == 2
    assert "386 at load 1.0, 372 at load 2.0" in err
    assert "--probability" not in err


def test_explain(ok, one_seed):
    out, err = ok("frontier", one_seed, "--by", "load", "--explain", "5")
    table = words(out)[-2:]
    assert words(out)[-4] == cells("nearest to row 5 on the frontier; a gain below 0 is a cost")
    # From 16 at load 2, (5, 4): 32 at (6, 12) and 8 at (1, 2), of ranges 5 and 10.
    assert table[0][:1] + table[0][2:] == cells("6 max_batch_size 16 -> 32 6 1 12 -8")
    assert table[1][:1] + table[1][2:] == cells("4 max_batch_size 16 -> 8 1 -4 2 2")
    assert "is not on the frontier" not in err
    out, err = ok("frontier", one_seed, "--by", "load", "--explain", "3")
    assert "row 3 is not on the frontier: 2 points dominate it" in err  # 16 and 32
    assert words(out)[-3][:1] == ["2"]


def test_effects(ok, one_seed):
    out, _ = ok("frontier", one_seed, "--effects")
    # Goodput ranks with ties 1, 2.5, 4, 2.5 and slowdown's 1, 2, 3, 4, at both loads: the size is
    # the only knob and explains all.
    assert words(out)[-3:] == [
        ["knob", "levels", "goodput_requests_per_s", "slowdown_p99"],
        ["max_batch_size", "4", "100.0%", "100.0%"],
        ["interactions", "-", "0.0%", "0.0%"],
    ]
    out, _ = ok("frontier", one_seed, "--effects", "--by", "load", "--json")
    effects = json.loads(out)["effects"]
    assert [(row["load"], row["objective"], row["knob"]) for row in effects[:2]] == [
        (1.0, "goodput_requests_per_s", "max_batch_size"),
        (1.0, "goodput_requests_per_s", "interactions"),
    ]
    assert len(effects) == 8


def test_cliffs(ok, one_seed):
    out, _ = ok("frontier", one_seed, "--cliffs")
    heading = cells("steps of one knob, all else equal, that change an objective by a factor")
    found = words(out)[words(out).index(heading) + 2 :]
    assert found == [
        cells("goodput_requests_per_s max_batch_size 8 16 2 1 5 x5"),
        cells("slowdown_p99 max_batch_size 32 64 2 12 80 x6.667"),
        cells("slowdown_p99 max_batch_size 16 32 2 4 12 x3"),
        cells("slowdown_p99 max_batch_size 8 16 2 2 4 x2"),
    ]
    out, _ = ok("frontier", one_seed, "--cliffs", "--json")
    assert json.loads(out)["cliffs"][0]["where"] == {}
    out, _ = ok("frontier", one_seed, "--cliffs", "--max", "load", "--json")
    assert json.loads(out)["cliffs"] == []


def test_probability(ok, seeds):
    out, err = ok("frontier", seeds, "--by", "load")
    assert "the points ran with several seeds: --probability" in err
    out, err = ok("frontier", seeds, "--by", "load", "--probability")
    heading = cells("on the frontier, when the seeds are drawn anew")
    table = words(out)[words(out).index(heading) + 1 :]
    assert len(table) == 1 + 6  # 64 has as much goodput as 16, and never less slowdown
    assert table[1] == ["1", "8", "2", "1", "1", "1", "True"]
    assert table[3] == ["1", "32", "2", "6.5", "6", "1", "True"]
    assert "of 6 on the frontier of means, 0 are there by luck" in err
    out, _ = ok("frontier", seeds, "--by", "load", "--probability", "--json")
    sure = json.loads(out)["probability"]
    assert [(row["row"], row["probability"]) for row in sure[:4]] == [
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 0),
    ]


@pytest.mark.parametrize("figure", ["effects", "parallel"])
def test_other_figures(ok, one_seed, tmp_path, figure):
    path = tmp_path / "figure.png"
    ok("frontier", one_seed, "--by", "load", "--figure", figure, "-o", path)
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--explain", "8"], "'row': 8: no such row; there are 5"),
        (["--explain", "4"], "row 4: this row takes no part"),
        (["--probability"], "'seed': no such column"),
        (["--figure", "knee"], "'knee' is not one of"),
    ],
)
def test_questions_without_an_answer(refused, points, arguments, message):
    assert message in " ".join(refused("frontier", points, *arguments).split())


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
