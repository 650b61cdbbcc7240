"""The command line, run as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

from sweeps.cli import COMMANDS, main, output, progress, simulate
from sweeps.cli.fields import field_texts
from sweeps.frontier import pareto_front
from vecsched import MetricOptions, SchedulerConfig, Trace, __version__

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


# --- vecsched simulate


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


# --- vecsched sweep


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
    # An iteration takes 20,000 s. One at a time, 20 requests of some 100 tokens take 4e7 s, beyond
    # the clock's 4.6e6 s; all together they take some 400 iterations less: 8e6 s would be too much,
    # too, so outputs are short.
    spec.write_text(
        "trace:\n  synthetic:\n    requests: 20\n    rate_per_s: 1\n"
        "    prompt: {distribution: constant, value: 8}\n"
        "    output: {distribution: constant, value: 20}\n"
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


def test_an_interrupt_leaves_nothing_behind(vecsched, spec, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(progress.Lines, "advance", interrupt)
    code, out, err = vecsched("sweep", spec, "-o", tmp_path / "out.parquet")
    assert (code, out) == (130, "")
    assert err.endswith("interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["spec.yaml"]


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


# --- Output and progress


def test_plain_progress_is_a_line_now_and_then(capsys, monkeypatch):
    clock = iter([0.0, 0.0, 1.0, 5.0, 5.0, 10.0, 10.0, 10.0, 12.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.sweep_progress() as lines:
        lines.note("compiling")
        lines.start(100, workers=2)
        lines.advance(10, failed=0)
        lines.advance(40, failed=3)
    # After 10 s, the last line long ago: 50 points, 5 a second, 50 left.
    assert capsys.readouterr().err == "compiling\n"


def test_the_bar_tells_points_rate_and_failures(capsys):
    with progress.Bar() as bar:
        bar.note("compiling [all] kernels")
        bar.start(10, workers=2)
        bar.advance(4, failed=1)
    err = capsys.readouterr().err
    assert "compiling [all] kernels" in err
    assert "4/10" in err
    assert "points/s, 1 failed" in err


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (float("inf"), "inf"),
        (True, "True"),
        ("fcfs", "fcfs"),
        (0, "0"),
        (2.0, "2"),
        (0.123456, "0.1235"),
        (999.94, "999.9"),
        (12345, "12,345"),
        (1234.5, "1,234"),  # halves to even
    ],
)
def test_values_for_people(value, text):
    assert output.show(value) == text


def test_values_for_machines(capsys):
    value = {
        "a": np.float64("nan"),
        1: [np.int64(2), True, None],
        "path": Path("x"),
        "inf": -np.inf,
    }
    output.print_json(value)
    assert json.loads(capsys.readouterr().out) == {
        "a": None,
        "1": [2, True, None],
        "path": "x",
        "inf": None,
    }


def test_tables_fit_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    output.print_table("title", ["a_long_name_of_a_column", "text"], [[12345, "x " * 30]])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "title",
        "a long",
        "  name",
        "  of a",
        "column  text",
        "12,345  x x x x x x x x x x x x x x x x",
        "        x x x x x x x x x x x x x x",
    ]
    output.print_pairs("pairs", {"a" * 10: 1, "b" * 10: 2, "c" * 10: 3}, across=3)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["pairs"],
        ["a" * 10, "1", "c" * 10, "3"],
        ["b" * 10, "2"],
    ]
