"""`vecsched trace`."""

import json
import re

import pytest

from sweeps.workloads import FORMATS
from vecsched import Trace


@pytest.fixture
def foreign(tmp_path):
    """A table with names and a time unit of its own, of which one request failed."""
    path = tmp_path / "log.csv"
    path.write_text("when,user,in,out\n1000,a,8,3\n3000,b,4,0\n2000,a,6,2\n")
    return path


def flat(message: str) -> str:
    """Take a message out of the frame in which usage errors are shown, of whatever width."""
    return re.sub(r"[\s\u2500-\u257f]+", " ", message)


COLUMNS = ("arrival_s=when", "prompt_tokens=in", "output_tokens=out", "tenant=user")
MAPPED = [part for column in COLUMNS for part in ("-O", f"columns.{column}")]
MAPPED += ["--option", "time_unit=ms"]


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
    assert figures["by_tenant"] == {}


def test_trace_describe_with_options_and_tenants(ok, foreign):
    out, err = ok("trace", "describe", foreign, *MAPPED)
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line}
    assert rows["span_s"] == ["2"]
    assert rows["a"][:2] == ["2", "0.6667"]
    assert "requests without a prompt or an output: 1" in err
    figures = json.loads(ok("trace", "describe", foreign, *MAPPED, "--json")[0])
    assert figures["tenants"] == 2
    assert figures["by_tenant"]["a"]["prompt_tokens_mean"] == 7  # (8 + 6) / 2
    assert figures["by_tenant"]["b"]["gap_cv"] is None


def test_trace_describe_shows_the_busiest_tenants(ok, tmp_path):
    path = tmp_path / "many.csv"
    rows = [f"{i},1,1,t{i}\n" for i in range(25)]
    path.write_text("arrival_s,prompt_tokens,output_tokens,tenant\n" + "".join(rows))
    out, err = ok("trace", "describe", path)
    assert sum(line.startswith("t") and line[1].isdigit() for line in out.splitlines()) == 20
    assert "and 5 smaller tenants; --json has all" in err


def test_trace_head(ok, foreign):
    out, _ = ok("trace", "head", foreign, "-n", 2, *MAPPED)
    lines = [line.split() for line in out.splitlines()]
    assert lines[1:] == [
        ["arrival_s", "prompt_tokens", "output_tokens", "tenant"],
        ["0", "8", "3", "a"],
        ["2", "4", "0", "b"],
    ]
    records = json.loads(ok("trace", "head", foreign, *MAPPED, "--json")[0])
    assert len(records) == 3
    assert records[1] == {"arrival_s": 2, "prompt_tokens": 4, "output_tokens": 0, "tenant": "b"}


@pytest.fixture
def sharing(tmp_path):
    """Three prompts of 1,200 tokens in 512-token blocks; the second begins as the first does."""
    path = tmp_path / "m.jsonl"
    ids = ([0, 1, 2], [0, 1, 3], [4, 5, 6])
    rows = [
        {"timestamp": 1000 * n, "input_length": 1200, "output_length": 2, "hash_ids": own}
        for n, own in enumerate(ids)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_trace_commands_tell_and_keep_prefixes(ok, refused, sharing, tmp_path):
    out, _ = ok("trace", "describe", sharing)
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["prefix_hit_rate"] == ["0.2844"]  # 1,024 of 3,600 tokens
    out, _ = ok("trace", "head", sharing, "-n", 1)
    assert out.splitlines()[-1].split()[-3:] == ["0", "1", "2"]
    parquet, half, both, text = (tmp_path / f"{x}.parquet" for x in ("all", "half", "both", "text"))
    ok("trace", "convert", sharing, parquet)
    ok("trace", "scale", parquet, half, "--load", 0.5)
    assert Trace.read(half).prefix_ids[1].tolist() == [0, 1, 3]
    assert Trace.read(half).prefix_block_tokens == 512
    ok("trace", "merge", f"a={parquet}", f"b={half}", "-o", both)
    figures = json.loads(ok("trace", "describe", both, "--json")[0])
    assert figures["prefix_blocks_distinct"] == 14  # 7 of either
    ok("trace", "merge", f"a={parquet}", f"b={half}", "-o", both, "--shared-prefixes")
    figures = json.loads(ok("trace", "describe", both, "--json")[0])
    assert figures["prefix_blocks_distinct"] == 7
    ok("trace", "convert", sharing, text.with_suffix(".jsonl"))
    again = ("trace", "convert", text.with_suffix(".jsonl"), text)
    assert "give prefix_block_tokens" in refused(*again)
    ok(*again, "-O", "prefix_block_tokens=512")
    assert "CSV has no place" in refused("trace", "convert", sharing, tmp_path / "t.csv")


def test_long_lists_are_cut_in_the_middle(ok, tmp_path):
    path = tmp_path / "m.jsonl"
    row = {"timestamp": 0, "input_length": 9999, "output_length": 2, "hash_ids": list(range(20))}
    path.write_text(json.dumps(row))
    out, _ = ok("trace", "head", path)
    assert out.splitlines()[-1].split()[-4:] == ["0", "1", "..", "19"]
    assert len(json.loads(ok("trace", "head", path, "--json")[0])[0]["prefix_ids"]) == 20


def test_trace_convert(ok, refused, trace, tmp_path):
    target = tmp_path / "trace.parquet"
    _, err = ok("trace", "convert", trace, target)
    assert f"{target}: 3 requests" in err
    assert Trace.read(target).arrival_s.tolist() == [0, 5, 2]
    assert json.loads(ok("trace", "convert", trace, target, "--json")[0])["requests"] == 3
    assert "known: .parquet, .csv, .jsonl" in refused("trace", "convert", trace, tmp_path / "x.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.csv", "trace.parquet"]


def test_trace_convert_a_part_of_a_foreign_file(ok, foreign, tmp_path):
    target = tmp_path / "part.jsonl"
    ok("trace", "convert", foreign, target, *MAPPED, "-O", "window_s=[1,3]")
    part = Trace.read(target)
    assert part.arrival_s.tolist() == [1, 0]
    assert part.tenant.tolist() == ["b", "a"]


def test_trace_convert_draws_from_a_process(ok, tmp_path):
    path, target = tmp_path / "lengths.csv", tmp_path / "t.parquet"
    path.write_text("prompt_tokens,output_tokens\n5,1\n6,2\n")
    process = ["-O", "arrivals.process=gamma", "-O", "arrivals.cv=2"]
    ok("trace", "convert", path, target, "-O", "rate_per_s=1e3", *process)
    assert 0 < Trace.read(target).arrival_s[1] < 1


def test_trace_scale(ok, refused, trace, tmp_path):
    target = tmp_path / "t.csv"
    _, err = ok("trace", "scale", trace, target, "--load", 2)
    assert f"{target}: 3 requests" in err
    assert Trace.read(target).arrival_s.tolist() == [0, 2.5, 1]
    # 2 gaps in 5 s are 0.4 a second; to have 0.1, the gaps grow by 4.
    ok("trace", "scale", trace, target, "--rate", 0.1)
    assert Trace.read(target).arrival_s.tolist() == pytest.approx([0, 20, 8])
    before, after = (
        json.loads(ok("trace", "describe", path, "--json")[0]) for path in (trace, target)
    )
    assert after["rate_per_s"] == pytest.approx(0.1)
    assert after["gap_cv"] == pytest.approx(before["gap_cv"])
    assert "a load factor must be positive" in refused("trace", "scale", trace, target, "--load", 0)
    for wrong in ([], ["--load", 2, "--rate", 3]):
        message = refused("trace", "scale", trace, target, *wrong)
        assert "exactly one of --load and --rate" in flat(message)
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n1,8,3\n")
    assert "no rate to scale" in refused("trace", "scale", trace, target, "--rate", 3)


def test_trace_merge(ok, refused, trace, tmp_path):
    target, other = tmp_path / "t.parquet", tmp_path / "other.csv"
    other.write_text("arrival_s,prompt_tokens,output_tokens\n7,1,1\n8,2,2\n")
    result, _ = ok("trace", "merge", f"chat={trace}", other, "-o", target, "--json")
    assert json.loads(result)["requests"] == 5
    merged = Trace.read(target)
    assert merged.arrival_s.tolist() == [0, 0, 1, 2, 5]
    assert merged.tenant.tolist() == ["chat", "other", "other", "chat", "chat"]
    message = refused("trace", "merge", trace, trace, "-o", target)
    assert "'trace': two traces have this label" in message
    assert "no such file" in refused("trace", "merge", "a=nowhere.csv", "-o", target)


def test_trace_merge_of_a_file_with_an_equals_sign(ok, trace, tmp_path):
    path, target = tmp_path / "a=b.csv", tmp_path / "t.parquet"
    path.write_text(trace.read_text())
    ok("trace", "merge", path, "-o", target)
    assert set(Trace.read(target).tenant) == {"a=b"}


def test_trace_formats(ok):
    lines = [line.split() for line in ok("trace", "formats")[0].splitlines()[2:]]
    listed = json.loads(ok("trace", "formats", "--json")[0])
    assert [line[0] for line in lines] == list(listed) == list(FORMATS)
    assert listed["servegen"]["options"] == ["seed", "rate_per_s"]
    assert "chunk-N-trace.csv" in listed["servegen"]["about"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("time_unit", "'time_unit' is not NAME=VALUE"),
        ("=ms", "'=ms' is not NAME=VALUE"),
        ("time_unit.x=1", "time_unit"),
        ("columns={a: [", "neither JSON nor YAML"),
        ("time_unit=sec", "unknown unit; known: s, ms, us, ns, iso"),
        ("timeunit=ms", "does not take this option"),
        ("window_s=5", "must be two numbers of seconds"),
        ("rate_per_s=-1", "rate_per_s must be a number > 0"),
    ],
)
def test_bad_options(refused, trace, option, words):
    given = ["-O", "time_unit=ms"] if option.startswith("time_unit.") else []
    assert words in flat(refused("trace", "describe", trace, *given, "-O", option))


def test_bad_traces(refused, trace):
    assert refused("trace", "describe", "nowhere.csv") == (
        "error: nowhere.csv: there is no such file\n"
    )
    assert "did you mean 'columns'" in refused("trace", "describe", trace, "--format", "colums")
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,-3\n")
    assert refused("trace", "describe", trace) == (
        f"error: {trace}, row 0, field 'output_tokens': -3: must not be negative\n"
    )
