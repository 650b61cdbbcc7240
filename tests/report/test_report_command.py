"""`vecsched report`."""

import json
import re
import shlex

import pandas as pd
import pytest
from report_sweeps import SPEC, run

from sweeps.report.source import read_sweep


@pytest.fixture
def refused(vecsched, tmp_path):
    """Run a command that must be refused; returns its message. No page must be there."""

    def call(*arguments):
        code, out, err = vecsched("report", *arguments, "-o", tmp_path / "page.html")
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        assert not [*tmp_path.glob("*.html"), *tmp_path.glob(".*")]
        return err

    return call


def test_it_writes_a_page_and_says_what_was_found(vecsched, out, tmp_path):
    code, printed, err = vecsched("report", out, "-o", tmp_path / "page.html")
    assert code == 0
    head, _, lead, _, tally, *_ = printed.splitlines()
    assert re.fullmatch(r"At load \S+, \d+\xa0% more goodput for .+ slowdown p99, by .+", head)
    assert lead.startswith(f"{head.partition(',')[0]}, the most goodput is ")
    assert tally.endswith("on the frontier of goodput against slowdown p99, at equal load.")
    assert f"written: {tmp_path / 'page.html'}" in err
    assert "metrics of each equal its row" in err
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_as_json_with_figures(vecsched, out, tmp_path):
    page, folder = tmp_path / "page.html", tmp_path / "figures"
    code, printed, _ = vecsched(
        "report", out, "-o", page, "--figures", folder, "--curves", 2, "--json"
    )
    assert code == 0
    told = json.loads(printed)
    assert told["page"] == str(page)
    assert (told["points"], told["failed"], told["simulated_again"]) == (48, 0, 2)
    assert [trade["group"] for trade in told["trades"]] == [0.8, 1.6]
    names = {
        f"{n}.{kind}"
        for n in ("frontier", "main-effects", "parallel")
        for kind in ("png", "svg", "pdf")
    }
    assert {path.name for path in folder.iterdir()} == names
    assert sorted(told["figures"]) == sorted(str(folder / name) for name in names)
    best = told["trades"][0]["best_first"]
    frame = read_sweep(out).frame
    assert (
        best["goodput_requests_per_s"]
        == frame[frame["load"] == 0.8]["goodput_requests_per_s"].max()
    )


def test_by_default_the_page_is_beside_the_file(vecsched, out, tmp_path):
    file = tmp_path / "my.parquet"
    file.write_bytes(out.read_bytes())
    assert vecsched("report", file, "--curves", 0)[0] == 0
    assert (tmp_path / "my.html").is_file()


def test_a_folder_of_parts_will_do(vecsched, tmp_path):
    folder = run(SPEC, tmp_path / "parts")
    assert vecsched("report", folder, "-o", tmp_path / "page.html", "--curves", 1)[0] == 0


def test_it_is_in_the_list_of_commands(vecsched):
    assert "report" in vecsched("--help")[1]


def test_a_column_that_does_not_exist(refused, out):
    assert "slowdown_p99" in refused(out, "--max", "requests_per_s", "--min", "slowdown_p9")
    assert "load" in refused(out, "--by", "lod")


def test_what_is_no_sweep(refused, tmp_path):
    table = tmp_path / "table.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(table)
    assert "is not the output of a sweep" in refused(table)
    text = tmp_path / "text.parquet"
    text.write_text("hello")
    assert "is not the output of a sweep" in refused(text)
    assert "cannot be read" in refused(tmp_path / "nothing.parquet")


def test_a_name_that_is_no_page(vecsched, out, tmp_path):
    code, _, err = vecsched("report", out, "-o", tmp_path / "page.pdf")
    assert code == 2
    assert "--output" in err
    assert not (tmp_path / "page.pdf").exists()


def test_a_page_that_cannot_be_written(vecsched, out, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = vecsched("report", out, "-o", tmp_path / "file" / "page.html", "--curves", 0)
    assert code == 2
    assert "cannot be written" in err


# A workload that the command line knows by name.
NAMED = {
    "trace": {"synthetic": "azure-conv-like", "requests": 60, "seed": 3},
    "cost": "unit",
    "axes": {
        "load": [0.5],
        "policy": ["aging(50)", "shortest_prompt"],
        "lookahead": [0, 2],
        "scheduler_reserve_full_isl": [True, False],
        "max_wait_s": [None, 40.5],
    },
    "slo": {"ttft_s": 30},
}


def test_the_commands_of_settings_give_their_rows(opened, page_file, vecsched, tmp_path):
    file = run(NAMED, tmp_path / "named.parquet")
    page = opened(page_file(file, curves=0))
    sweep = read_sweep(file)
    for number in (0, 7, len(sweep.frame) - 1):
        page.js("select(arguments[0])", number)
        words = shlex.split(page.text("#setting-command"))
        assert words[:2] == ["vecsched", "simulate"]
        code, printed, _ = vecsched(*words[1:], "--json")
        assert code == 0
        row = sweep.row(number)
        summary = json.loads(printed)["summary"]
        assert {name: row[name] for name in summary} == summary


def test_a_setting_without_a_command_has_a_sweep_file(opened, default_page, out, tmp_path):
    page = opened(default_page)
    page.js("select(7)")
    spec = json.loads(page.text("#setting-command"))
    alone = read_sweep(run(spec, tmp_path / "one.parquet"))
    sweep = read_sweep(out)
    assert {name: alone.row(0)[name] for name in sweep.metrics} == {
        name: sweep.row(7)[name] for name in sweep.metrics
    }
    assert alone.row(0)["key"] == sweep.row(7)["key"]
