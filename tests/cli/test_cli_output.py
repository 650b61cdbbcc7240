"""Tables, JSON and progress."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from sweeps.cli import output, progress


def test_plain_progress_is_a_line_now_and_then(capsys, monkeypatch):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.sweep_progress() as lines:
        lines.note("compiling")
        now = 120.0
        lines.start(100, workers=2)
        now = 129.0
        lines.advance(10, failed=0)
        assert capsys.readouterr().err == "compiling\n"
        now = 130.0
        lines.advance(40, failed=3)
        # 50 points in 10 s are 5 a second, so the other 50 take 10 s more.
        assert capsys.readouterr().err == "50 of 100 points, 5 points/s, 3 failed, 10 s left\n"
        now = 139.0
        lines.advance(40, failed=0)
    assert capsys.readouterr().err == ""


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
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)  # without bold
    assert [line.rstrip() for line in out.splitlines()] == [
        "title",
        "a long",
        "  name",
        "  of a",
        "column  text",
        "12,345  x x x x x x x x x x x x x x x x",
        "        x x x x x x x x x x x x x x",
    ]
    output.print_pairs("pairs", {"a" * 10: 1, "b" * 10: 2, "c" * 10: 3}, across=3)
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["a" * 10, "1", "c" * 10, "3"],
        ["b" * 10, "2"],
    ]
