"""`vecsched trace`."""

import json

from vecsched import Trace


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
