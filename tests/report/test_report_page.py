"""What is in the page's file: escaping, determinism, exact numbers, and reasons for what is not."""

import html
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markupsafe import escape
from report_sweeps import EVIL, SPEC, run

import sweeps.report.again as again_module
from sweeps.errors import StoreError
from sweeps.report.again import most_telling, simulate_again
from sweeps.report.question import Question
from sweeps.report.source import config_of, read_sweep
from sweeps.run import run_sweep
from sweeps.spec import SweepSpec
from vecsched import engine_version
from vecsched.errors import InputError

# An iteration lasts ten days, so the run leaves the clock.
SLOW = {
    "name": "slow",
    "affine": SPEC["cost"]["affine"] | {"fixed_s": 1e6},
}


def data_in(page):
    """The JSON that the scripts read."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html, re.S)
    return json.loads(found[1])


def rewritten(path, target, change):
    """A sweep's file with its table changed and its metadata kept."""
    kept = {k: v for k, v in pq.read_metadata(path).metadata.items() if k != b"ARROW:schema"}
    pq.write_table(change(pq.read_table(path)).replace_schema_metadata(kept), target)
    return target


def with_value(name, row, value):
    def change(table):
        column = table[name].to_pylist()
        column[row] = value
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, pa.array(column, table.schema.field(name).type))

    return change


@pytest.fixture(scope="module")
def built(report_of, out):
    return report_of(out)


def test_the_same_sweep_gives_the_same_page(built, report_of, out):
    assert report_of(out)[1].html == built[1].html


def test_no_name_breaks_out_of_its_place(built):
    _, page, _ = built
    assert EVIL not in page.html
    assert str(escape(EVIL)) in page.html
    # One element of data, plotly.js, our scripts; nothing else begins or ends one.
    assert page.html.count("<script") == page.html.count("</script>") == 3
    assert SPEC["trace"]["name"] in data_in(page)["command"]["traces"]


def test_the_page_names_nothing_to_load(built):
    _, page, _ = built
    assert "default-src 'none'" in page.html
    ours = page.html.replace(re.search(r"<script>/\*\*.*?</script>", page.html, re.S)[0], "")
    assert re.findall(r"""(?:src|href)=["']?(?!#|data:,)[^"' >]+""", html.unescape(ours)) == [
        "src=x"  # in the name that tries to break out
    ] * ours.count("src=x")


def test_objectives_and_knobs_are_exact_and_the_rest_is_rounded(built):
    sweep, page, _ = built
    columns = data_in(page)["columns"]
    assert columns["slowdown_p99"] == sweep.frame["slowdown_p99"].tolist()
    assert columns["load"] == sweep.frame["load"].tolist()
    assert columns["makespan_s"] == [float(f"{v:.6g}") for v in sweep.frame["makespan_s"]]
    policy = columns["policy"]
    assert [policy["levels"][code] for code in policy["codes"]] == sweep.frame["policy"].tolist()


def test_settings_simulated_again_equal_their_rows(built):
    sweep, page, again = built
    assert len(again.curves) == 4
    assert again.missing == {}
    assert again.metrics == len(sweep.metrics)
    assert f"repeated all {len(sweep.metrics)} metrics of its row exactly" in page.html
    # The greatest and the least latency are in the curve, to six digits.
    row = next(iter(again.curves))
    assert again.curves[row]["latencies"]["ttft_s"][-1] == float(
        f"{sweep.row(row)['ttft_max_s']:.6g}"
    )


def test_a_row_that_was_changed_is_told(out, tmp_path):
    sweep = read_sweep(rewritten(out, tmp_path / "out.parquet", with_value("iterations", 3, 7)))
    with pytest.raises(StoreError, match=r"point 3 says iterations = 7, but simulated again it is"):
        simulate_again(sweep, [3], [tmp_path], lambda: None)


def test_another_engine_is_told(report_of, out, monkeypatch):
    monkeypatch.setattr(again_module, "engine_version", lambda: "9.9+new")
    _, page, again = report_of(out)
    reason = f"the sweep ran on engine {engine_version()}, and this one is 9.9+new"
    assert again.missing == {reason: 4}
    assert f"No curves of 4 settings: {reason}" in page.html


def test_a_trace_that_is_gone_or_changed_is_told(tmp_path, report_of):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    file = folder / "log.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,3\n1,4,2\n2,6,2\n")
    spec = SPEC | {"trace": {"path": str(file), "name": "log"}}
    out = run(spec, tmp_path / "out.parquet")
    assert len(report_of(out)[2].curves) == 2  # one at each load is all of the frontier
    file.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,3\n1,4,2\n2,6,9\n")
    _, page, again = report_of(out)
    assert again.missing == {"the trace 'log' is not what it was when the sweep ran": 2}
    assert "No curves of 2 settings" in page.html
    file.unlink()
    (reason,) = report_of(out)[2].missing
    assert reason.startswith("the trace cannot be read: ")
    assert "log.csv" in reason


def test_a_trace_is_looked_for_in_the_folders_given(tmp_path, report_of):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "log.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,8,3\n1,4,2\n2,6,2\n")
    spec = SPEC | {"trace": {"path": "log.csv"}}
    run_sweep(SweepSpec.from_mapping(spec, folder=folder), tmp_path / "out.parquet")
    assert report_of(tmp_path / "out.parquet")[2].curves == {}
    assert len(report_of(tmp_path / "out.parquet", folders=[folder])[2].curves) == 2


def test_settings_that_failed_are_listed_with_their_error(tmp_path, report_of):
    costs = [SPEC["cost"] | {"name": "fine"}, SLOW]
    axes = {"load": [1.6], "max_batch_size": [4, 8]}
    out = run(SPEC | {"cost": costs, "axes": axes}, tmp_path / "out.parquet")
    sweep, page, _ = report_of(out)
    assert len(sweep.failed) == 2
    assert "2 settings failed, the first with ClockOverflowError" in page.html
    assert page.html.count("ClockOverflowError: ") == 3  # in words, and a row each
    assert data_in(page)["rows"] == 2


def test_the_most_telling_settings_come_first(built):
    sweep, _, _ = built
    question = Question(by="load")
    front = question.front(sweep.frame)
    rows = most_telling(front, question, len(front))
    assert sorted(rows) == sorted(front.index)
    first = front.loc[rows[: front["load"].nunique()]]
    assert first["load"].nunique() == front["load"].nunique()  # each load has its turn
    assert most_telling(front, question, 3) == rows[:3]


def test_a_row_is_the_configuration_it_came_from(built):
    sweep, _, _ = built
    config = config_of(sweep.row(0))
    assert (config.policy, config.max_batch_size, config.kv_blocks) == ("fcfs", 4, 60)
    assert isinstance(config.kv_blocks, int)
    assert config.max_tokens is None


def test_one_objective_is_no_trade_off(built):
    with pytest.raises(InputError, match="a report needs two objectives, not 'slowdown_p99' alone"):
        Question((), ("slowdown_p99",)).front(built[0].frame)


def test_objectives_that_nobody_has(built):
    with pytest.raises(
        InputError, match="no point has all of goodput_requests_per_s, service_diff"
    ):
        Question(("goodput_requests_per_s",), ("service_difference_max",)).front(built[0].frame)


def test_a_sweep_of_failures_is_nothing_to_report(tmp_path):
    spec = SPEC | {"cost": SLOW, "axes": {"max_batch_size": [4, 8]}}
    out = run(spec, tmp_path / "out.parquet")
    with pytest.raises(StoreError, match="none of its 2 points ended well, first ClockOverflow"):
        read_sweep(out)
