"""The command line, run as a user runs it."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from sweeps.cli import COMMANDS, main
from vecsched import Trace, __version__

CODE = "import sys; from sweeps.cli import main; sys.argv[0] = 'vecsched'; main()"


@pytest.fixture
def vecsched(capsys):
    """Run a command in this process; returns exit code, stdout and stderr."""

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return run


@pytest.fixture
def ok(vecsched):
    """Run a command that must succeed; returns stdout and stderr."""

    def run(*arguments):
        code, out, err = vecsched(*arguments)
        assert code == 0, err
        return out, err

    return run


@pytest.fixture
def refused(vecsched):
    """Run a command that must be refused before it does anything; returns its one message."""

    def run(*arguments):
        code, out, err = vecsched(*arguments)
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        return err

    return run


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,3\n5,4,1\n2,6,2\n")
    return path


# --- The program itself


def test_help_lists_the_commands_and_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from sweeps.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as left:\n    assert left.code == 0\n"
        "print({'numba', 'numpy', 'pandas', 'pydantic'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *help_text, heavy = done.stdout.splitlines()
    assert heavy == "set()"
    assert all(any(name in line for line in help_text) for name in COMMANDS)


def test_version(ok):
    assert ok("--version")[0] == f"vecsched {__version__}\n"


@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS], ["trace", "describe"]])
def test_every_command_has_help(ok, command):
    out, _ = ok(*command, "--help")
    assert " ".join(["Usage: vecsched", *command]) in out
    if command not in ([], ["trace"]):
        assert "--json" in out
        assert "--debug" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frontir"], "Did you mean 'frontier'?"),
        (["sweep", "--worker", "2"], "--workers"),
        (["trace", "describe"], "Missing argument 'FILE'"),
        (["simulate", "--max-batch-size", "many"], "'many' is not a valid int"),
        (["sweep", "-o", "out.csv"], "out.csv must end in .parquet"),
        (["simulate", "-o", "out.txt"], "out.txt must end in .parquet or .csv"),
    ],
)
def test_bad_usage(refused, arguments, message):
    assert message in refused(*arguments)


def test_debug_shows_the_traceback(vecsched):
    code, out, err = vecsched("trace", "describe", "nowhere.csv", "--debug")
    assert (code, out) == (2, "")
    assert err.startswith("Traceback")
    assert "InputError: nowhere.csv: there is no such file" in err


def test_a_closed_pipe_is_no_error():
    command = subprocess.Popen(
        [sys.executable, "-c", CODE, "trace", "formats"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    command.stdout.close()
    assert command.stderr.read() == ""
    command.stderr.close()
    command.wait()


# --- vecsched trace


def test_trace_describe(ok, trace):
    out, err = ok("trace", "describe", trace)
    assert out.splitlines()[1].split() == ["requests", "3"]
    assert err == (
        f"{trace}: 1 rows arrive before the row ahead of them; requests are taken in time order\n"
    )
    figures = json.loads(ok("trace", "describe", trace, "--json")[0])
    assert figures["trace"] == str(trace)
    assert figures["span_s"] == 5
    assert figures["prompt_tokens_mean"] == 6  # (8 + 4 + 6) / 3


def test_trace_convert(ok, refused, trace, tmp_path):
    target = tmp_path / "trace.parquet"
    _, err = ok("trace", "convert", trace, target)
    assert f"{target}: 3 requests" in err
    assert Trace.read(target).arrival_s.tolist() == [0, 5, 2]
    assert json.loads(ok("trace", "convert", trace, target, "--json")[0])["requests"] == 3
    assert "known: .parquet, .csv, .jsonl" in refused("trace", "convert", trace, tmp_path / "x.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.csv", "trace.parquet"]


def test_trace_formats(ok):
    names = [line.split()[0] for line in ok("trace", "formats")[0].splitlines()[1:]]
    assert names == list(json.loads(ok("trace", "formats", "--json")[0]))
    assert "azure" in names


def test_bad_traces(refused, trace):
    assert refused("trace", "describe", "nowhere.csv") == (
        "error: nowhere.csv: there is no such file\n"
    )
    assert "did you mean 'columns'" in refused("trace", "describe", trace, "--format", "colums")
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,-3\n")
    assert refused("trace", "describe", trace) == (
        f"error: {trace}, row 0, field 'output_tokens': -3: must not be negative\n"
    )


# --- vecsched frontier


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
    assert "fewer than 90 %" in err
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
