"""Each format on a small made-up file, recognised by itself; and how formats are chosen."""

import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import yaml
from workload_files import jsonl, refused, write

from sweeps.workloads import FORMATS, SyntheticSpec, generate, read_trace
from sweeps.workloads.arrivals import ARRIVALS
from sweeps.workloads.build import CONVERTERS, TIME_UNITS
from sweeps.workloads.lengths import LENGTHS
from vecsched.errors import ConfigError, InputError


def same(path, name):
    """Read a file by itself and by its format's name; both must agree."""
    trace, named = read_trace(path), read_trace(path, name)
    for column in ("arrival_s", "prompt_tokens", "output_tokens", "id"):
        assert getattr(trace, column).tolist() == getattr(named, column).tolist()
    return trace


def lengths(trace) -> list[tuple[int, int]]:
    return list(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))


# Tables


def mooncake(timestamp, prompt=1000, output=5, ids=(0, 1)):
    return {
        "timestamp": timestamp,
        "input_length": prompt,
        "output_length": output,
        "hash_ids": list(ids),
    }


def test_mooncake(tmp_path):
    rows = [mooncake(27000), mooncake(27000, 1025, 1, (0, 1, 2)), mooncake(30500, 9, 7, ())]
    trace = same(write(tmp_path, jsonl(*rows), "t.jsonl"), "mooncake")
    # Milliseconds, counted from the first.
    assert trace.arrival_s.tolist() == [0.0, 0.0, 3.5]
    assert lengths(trace) == [(1000, 5), (1025, 1), (9, 7)]


def test_mooncake_block_size(tmp_path):
    # 33 tokens are three blocks of 16, where 512 tokens an id leave room for one id.
    path = write(tmp_path, jsonl(mooncake(0, 33, 1, (5, 6, 7))), "t.jsonl")
    assert len(read_trace(path, block_size=16)) == 1
    error = refused(path)
    assert (error.row, error.field, error.value) == (0, "hash_ids", 3)
    assert "more ids of 512 tokens than a prompt of 33 tokens has room for" in str(error)
    with pytest.raises(ConfigError, match="block_size must be a whole number of at least 1"):
        read_trace(path, block_size=0)


def bailian(chat, timestamp, parent=-1, **more):
    row = {"chat_id": chat, "parent_chat_id": parent, "timestamp": timestamp}
    return row | {"input_length": 20, "output_length": 3, "type": "text", "turn": 1} | more


def test_bailian(tmp_path):
    rows = [
        bailian(7, 61.25, hash_ids=[0, 1]),
        bailian(9, 61.5, parent=3, hash_ids=[4], type="search", turn=2),  # chat 3 is not here
    ]
    path = write(tmp_path, jsonl(*rows), "t.jsonl")
    trace = same(path, "bailian")
    assert trace.arrival_s.tolist() == [0.0, 0.25]
    assert trace.id.tolist() == [7, 9]
    assert trace.tenant is None
    assert read_trace(path, tenant="type").tenant.tolist() == ["text", "search"]
    assert "did you mean 'type'?" in str(refused(path, tenant="typ"))


def test_ragpulse(tmp_path):
    ids = {"sys_prompt": [1, 2], "passages_ids": [], "history": [3], "web_search": []}
    rows = [
        {
            "timestamp": time,
            "input_length": 50,
            "output_length": 4,
            "hash_ids": ids,
            "session_id": s,
        }
        for time, s in (("82", "a"), ("90", "b"))
    ]
    path = write(tmp_path, jsonl(*rows), "t.jsonl")
    trace = same(path, "ragpulse")
    assert trace.arrival_s.tolist() == [0.0, 8.0]
    assert trace.tenant is None
    assert read_trace(path, tenant="session_id").tenant.tolist() == ["a", "b"]
    error = refused(write(tmp_path, jsonl(mooncake("5")), "t.jsonl"), "ragpulse")
    assert (error.row, error.field, error.value) == (0, "hash_ids", [0, 1])


V1 = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
V3 = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
)


def test_burstgpt_1(tmp_path):
    text = V1 + "5,ChatGPT,472,18,490,Conversation log\n5,GPT-4,1087,0,1087,API log\n"
    path = write(tmp_path, text)
    trace = same(path, "burstgpt")
    assert trace.arrival_s.tolist() == [0.0, 0.0]
    assert lengths(trace) == [(472, 18), (1087, 0)]  # the second one failed
    assert read_trace(path, tenant="Log Type").tenant.tolist() == ["Conversation log", "API log"]


def test_burstgpt_3(tmp_path):
    # Two columns more in the middle; the first time is 225 days after the start of the log.
    text = V3 + (
        "19440110.0,1722ac82,43,GPT-4,906,446,1352,Conversation log\n"
        "19440161.5,,,ChatGPT,36,29,65,API log\n"
    )
    trace = same(write(tmp_path, text), "burstgpt")
    assert trace.arrival_s.tolist() == [0.0, 51.5]
    assert lengths(trace) == [(906, 446), (36, 29)]


def test_vidur(tmp_path):
    text = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,374,44\n1.0,1,2\n"
    trace = same(write(tmp_path, text), "vidur")
    assert trace.arrival_s.tolist() == [0.0, 0.5]
    assert lengths(trace) == [(374, 44), (1, 2)]


def test_vidur_lengths_only(tmp_path):
    text = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3,1,4,3.0\n4,2,6,2.0\n"
    path = write(tmp_path, text)
    assert "no arrival times: give rate_per_s" in str(refused(path))
    trace = read_trace(path, rate_per_s=4, seed=3)
    gap = np.random.default_rng(np.random.SeedSequence(3)).standard_exponential() / 4
    assert trace.arrival_s.tolist() == [0.0, gap]
    assert lengths(trace) == [(3, 1), (4, 2)]


SPLITWISE = (
    "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
)


def test_splitwise_sim(tmp_path):
    path = write(tmp_path, SPLITWISE + "a,2,0,1,1,4096,32\nb,2,1,3,1,2048,8\n")
    trace = same(path, "splitwise_sim")
    assert trace.arrival_s.tolist() == [0.0, 2.0]
    assert lengths(trace) == [(4096, 32), (2048, 8)]
    assert trace.id.tolist() == ["a", "b"]
    assert trace.tenant.tolist() == ["0", "1"]
    assert read_trace(path, tenant=None).tenant is None
    error = refused(write(tmp_path, SPLITWISE + "a,2,0,1,1,40,3\nb,2,1,3,4,20,8\n"))
    assert (error.row, error.field, error.value) == (1, "batch_size", 4)


def test_llmservingsim(tmp_path):
    rows = [
        {"input_toks": 10, "output_toks": 2, "arrival_time_ns": 46926808, "input_tok_ids": [5, 6]},
        {"input_toks": 22, "output_toks": 3, "arrival_time_ns": 46926809},
    ]
    trace = same(write(tmp_path, jsonl(*rows), "t.jsonl"), "llmservingsim")
    assert trace.arrival_s.tolist() == [0.0, 1e-9]
    assert lengths(trace) == [(10, 2), (22, 3)]


def test_llmservingsim_log_of_a_run(tmp_path):
    # The arrival is of the wall clock, the other stamps are monotonic: they are not compared.
    run = {"input_toks": 10, "output_toks": 2, "queued_ts": 479748.34}
    rows = [
        run | {"request_id": "bench-0", "arrival_time": 1777142838.25},
        run | {"request_id": "bench-1", "arrival_time": 1777142839.5},
    ]
    trace = same(write(tmp_path, jsonl(*rows), "t.jsonl"), "llmservingsim")
    assert trace.arrival_s.tolist() == [0.0, 1.25]
    assert trace.id.tolist() == ["bench-0", "bench-1"]


QA = "prompt_tokens,generation_tokens,ttft,user_id,question_id,launch_time,finish_time\n"


def test_multi_round_qa(tmp_path):
    # In the order of completion: the second row was launched first.
    first, second = "6.9,3,1,1747434784.5,1747434798.6", "1,5,1,1747434782.25,1747434799"
    path = write(tmp_path, f"{QA}21073.0,100.0,{first}\n21073.0,34.0,{second}\n")
    trace = same(path, "multi_round_qa")
    assert trace.arrival_s.tolist() == [2.25, 0.0]
    assert trace.backward_steps == 1
    assert lengths(trace) == [(21073, 100), (21073, 34)]
    assert read_trace(path, tenant="user_id").tenant.tolist() == ["3", "5"]


# Documents

BENCH = {
    "date": "20260101-000000",
    "num_prompts": 3,
    "request_rate": "inf",
    "completed": 2,
    "request_goodput:": None,
    "input_lens": [10, 11, 12],
    "output_lens": [4, 0, 1],
    "ttfts": [0.1, 0.0, 0.2],
    "itls": [[0.1, 0.1, 0.1], [], []],
    "start_times": [81234.5, 81234.75, 81236.5],
    "errors": ["", "Traceback (most recent call last)", ""],
}


def bench(*dropped, **changes):
    return {key: value for key, value in (BENCH | changes).items() if key not in dropped}


@pytest.mark.parametrize("indent", [None, 1])
def test_vllm_bench(tmp_path, indent):
    trace = same(write(tmp_path, json.dumps(BENCH, indent=indent), "t.json"), "vllm_bench")
    assert trace.arrival_s.tolist() == [0.0, 0.25, 2.0]
    assert lengths(trace) == [(10, 4), (11, 0), (12, 1)]  # the second one failed


def test_vllm_bench_several_results_in_a_file(tmp_path):
    path = write(tmp_path, json.dumps(BENCH) + "\n" + json.dumps(bench(output_lens=[7, 8, 9])))
    assert "there are 2 results in the file: name one by run=0 to run=1" in str(refused(path))
    assert lengths(read_trace(path, run=1)) == [(10, 7), (11, 8), (12, 9)]
    assert refused(path, run=2).value == 2


def test_vllm_bench_summary(tmp_path):
    summary = bench("input_lens", "output_lens", "start_times")
    error = refused(write(tmp_path, json.dumps(summary)))
    assert error.field == "input_lens"
    assert "--save-detailed" in str(error)


def test_vllm_bench_without_start_times(tmp_path):
    path = write(tmp_path, json.dumps(bench("start_times")))
    assert "give rate_per_s" in str(refused(path))
    trace = read_trace(path, rate_per_s=2)
    assert trace.arrival_s[0] == 0 < trace.arrival_s[1]
    assert lengths(trace) == [(10, 4), (11, 0), (12, 1)]


@pytest.mark.parametrize(
    ("changes", "row", "field", "words"),
    [
        ({"input_lens": "long"}, None, "input_lens", "is not a list"),
        ({"input_lens": [1, None, 3]}, 1, "input_lens", "is missing"),
        ({"output_lens": [1, 2, "3"]}, 2, "output_lens", "is not a number"),
        ({"output_lens": [1, 2]}, None, "output_lens", "has 2 entries, but input_lens has 3"),
        ({"start_times": [1.0, float("nan"), 2.0]}, 1, "start_times", "finite"),
    ],
)
def test_vllm_bench_errors(tmp_path, changes, row, field, words):
    error = refused(write(tmp_path, json.dumps(bench(**changes))))
    assert (error.row, error.field) == (row, field)
    assert words in str(error)


def test_vllm_tap(tmp_path):
    rows = [
        {"meta": {"model": "m", "block_size": 16}},
        {"prompt_tokens": 277, "output_tokens": 2, "itl_ms": [21.6], "arrival_ms": 1000.5},
        {"prompt_tokens": 271, "output_tokens": 1, "itl_ms": [], "arrival_ms": 1500.5},
    ]
    trace = same(write(tmp_path, jsonl(*rows), "t.jsonl"), "vllm_tap")
    assert trace.arrival_s.tolist() == [0.0, 0.5]
    assert lengths(trace) == [(277, 2), (271, 1)]
    del rows[2]["arrival_ms"]
    error = refused(write(tmp_path, jsonl(*rows), "t.jsonl"))
    assert (error.row, error.field) == (1, "arrival_ms")  # the header has no row
    del rows[1]["arrival_ms"]
    path = write(tmp_path, jsonl(*rows), "t.jsonl")
    assert "give rate_per_s" in str(refused(path))
    assert lengths(read_trace(path, rate_per_s=1)) == [(277, 2), (271, 1)]
    assert "there are no requests" in str(refused(write(tmp_path, jsonl(rows[0]))))


def turn(who, text):
    return {"from": who, "value": text}


def test_sharegpt(tmp_path):
    conversations = [
        [turn("human", "12345678"), turn("gpt", "12345"), turn("human", "more"), turn("gpt", "x")],
        [turn("gpt", "1234"), turn("human", "1234"), turn("gpt", "12")],
        [turn("system", "1234"), turn("user", "1"), turn("assistant", "1")],
        [turn("human", "no answer")],
        [],
    ]
    entries = [{"id": f"c{n}", "conversations": each} for n, each in enumerate(conversations)]
    path = write(tmp_path, json.dumps(entries, indent=1), "t.json")
    assert "give rate_per_s" in str(refused(path))
    trace = read_trace(path, rate_per_s=2)
    # Four characters a token, rounded up: 8 -> 2, 5 -> 2; 4 + 4 -> 2, 2 -> 1; 4 + 1 -> 2, 1 -> 1;
    # 9 -> 3 without an answer; nothing at all.
    assert lengths(trace) == [(2, 2), (2, 1), (2, 1), (3, 0), (0, 0)]
    assert trace.id.tolist() == ["c0", "c1", "c2", "c3", "c4"]
    assert lengths(read_trace(path, rate_per_s=2, characters_per_token=1))[0] == (8, 5)
    lines = write(tmp_path, jsonl(*entries), "t.jsonl")
    assert lengths(read_trace(lines, rate_per_s=2)) == lengths(trace)


@pytest.mark.parametrize("turns", [None, "hello", [{"from": "human"}], [["human", "x"]]])
def test_sharegpt_errors(tmp_path, turns):
    entries = [{"id": 1, "conversations": []}, {"id": 2, "conversations": turns}]
    error = refused(write(tmp_path, json.dumps(entries)), rate_per_s=1)
    assert (error.row, error.field) == (1, "conversations")


def ask(t, prompt=640, output=5, **more):
    return {"t": t, "type": "n", "in": prompt, "out": output, "hash_ids": [1, 2]} | more


def session(*requests, **more):
    head = {"id": "trace_7", "models": [], "block_size": 64, "hash_id_scope": "local"}
    return head | {"requests": list(requests)} | more


def test_weka(tmp_path):
    requests = [ask(0.0), ask(2.5, 700, 0, stop=""), ask(9.0, 64, 1, hash_ids=[1])]
    for indent in (None, 1):
        path = write(tmp_path, json.dumps(session(*requests), indent=indent), "trace_7.json")
        trace = same(path, "weka")
        assert trace.arrival_s.tolist() == [0.0, 2.5, 9.0]
        assert lengths(trace) == [(640, 5), (700, 0), (64, 1)]
        assert trace.id.tolist() == ["trace_7/0", "trace_7/1", "trace_7/2"]
        assert trace.tenant.tolist() == ["trace_7"] * 3


def test_weka_nested_agents_with_a_clock_of_their_own(tmp_path):
    inner = {"t": 3.0, "type": "subagent", "requests": [ask(0.0)]}
    agent = {"t": 10.0, "type": "subagent", "requests": [ask(0.0), ask(4.0), inner]}
    path = write(tmp_path, json.dumps(session(ask(1.0), agent, ask(30.0))))
    trace = read_trace(path)
    # 1, then 10 + 0, 10 + 4, 10 + 3 + 0, then 30, counted from 1.
    assert trace.arrival_s.tolist() == [0.0, 9.0, 13.0, 12.0, 29.0]
    ids = ["0", "1.0", "1.1", "1.2.0", "2"]
    assert trace.id.tolist() == [f"trace_7/{place}" for place in ids]


def test_weka_nested_agents_on_the_clock_of_the_session(tmp_path):
    agent = {"t": 10.0, "type": "subagent", "requests": [ask(10.0), ask(14.0)]}
    trace = read_trace(write(tmp_path, json.dumps(session(ask(1.0), agent))))
    assert trace.arrival_s.tolist() == [0.0, 9.0, 13.0]


def test_weka_several_sessions(tmp_path):
    one, two = session(ask(0.0), ask(5.0)), session(ask(0.0), id="trace_8")
    folder = tmp_path / "sessions"
    write(folder, json.dumps(one), "a.json")
    write(folder, json.dumps(two), "b.json")
    write(folder, "not a session", "README.md")
    lines = write(tmp_path, jsonl(one, two), "t.jsonl")
    start = np.random.default_rng(np.random.SeedSequence(0)).standard_exponential() / 2
    for path in (folder, lines):
        assert "there are 2 sessions" in str(refused(path))
        trace = read_trace(path, rate_per_s=2)
        assert trace.arrival_s.tolist() == [0.0, 5.0, start]
        assert trace.tenant.tolist() == ["trace_7", "trace_7", "trace_8"]
    assert refused(folder, format="weka", seed=1).problem.startswith("there are 2 sessions")


def test_weka_without_requests(tmp_path):
    write(tmp_path / "f", "x", "a.txt")
    assert "there are no sessions" in str(refused(tmp_path / "f", "weka"))
    path = write(tmp_path, json.dumps(session()))
    assert "the trace is empty" in str(refused(path))


def test_weka_a_single_session_may_start_when_it_likes(tmp_path):
    path = write(tmp_path, json.dumps(session(ask(0.0), ask(5.0))))
    assert read_trace(path, rate_per_s=2).arrival_s.tolist() == [0.0, 5.0]


@pytest.mark.parametrize(
    ("request_", "field", "words"),
    [
        (ask("soon"), "t", "is not a number"),
        (ask(None), "t", "is missing"),
        ({"t": 3.0, "type": "n", "out": 5}, "in", "is missing"),
        (ask(3.0, 64, 5, hash_ids=[1, 2]), "hash_ids", "more ids of 64 tokens than a prompt of 64"),
        (ask(3.0, hash_ids=[1, "2"]), "hash_ids", "not a list of whole numbers"),
        ({"t": 3.0, "type": "subagent"}, "requests", "is not a list of requests"),
        ("hello", "requests", "is not a JSON object"),
        (ask(3.0, -1, 5, hash_ids=None), "in", "negative"),
    ],
)
def test_weka_errors(tmp_path, request_, field, words):
    error = refused(write(tmp_path, json.dumps(session(ask(0.0), request_))))
    assert (error.row, error.field) == (1, field)
    assert words in str(error)


# How a format is chosen


def test_every_format_has_a_description_and_its_options_exist():
    for name, row in FORMATS.items():
        assert row.description, name
        keywords = row.read.__kwdefaults__ or {}
        assert set(row.options) == set(keywords), name


def test_options_choose_among_formats(tmp_path):
    # An Azure file by its columns, but only the general reader takes a mapping.
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5,2\n"
    path = write(tmp_path, text)
    names = {"prompt_tokens": "GeneratedTokens", "output_tokens": "ContextTokens"}
    mapped = {"arrival_s": "TIMESTAMP", **names}
    assert lengths(read_trace(path, columns=mapped, time_unit="iso")) == [(2, 5)]
    error = refused(path, tenant="x")
    assert "the format 'azure' does not take this option" in str(error)


def test_unknown_folders_and_documents(tmp_path):
    write(tmp_path / "f", "x", "a.txt")
    assert "a folder with a.txt" in str(refused(tmp_path / "f"))
    assert "a json file with no columns" in str(refused(write(tmp_path, "[1]", "t.json")))
    error = refused(write(tmp_path, "[]", "t.json"), "sharegpt", rate_per_s=1)
    assert "there are no requests" in str(error)
    error = refused(write(tmp_path, "[1]", "t.json"), "sharegpt", rate_per_s=1)
    assert (error.row, error.value) == (0, 1)
    error = refused(write(tmp_path, "a,b\n1,2\n"), "weka")
    assert "a csv is not JSON" in str(error)


# Lengths with an arrival process, and windows


def test_a_table_of_lengths(tmp_path):
    path = write(tmp_path, "prompt_tokens,output_tokens,tenant\n5,1,a\n6,2,b\n")
    assert "give rate_per_s" in str(refused(path))
    trace = read_trace(path, rate_per_s=2, arrivals={"process": "gamma", "cv": 2}, seed=5)
    gap = np.random.default_rng(np.random.SeedSequence(5)).standard_gamma(0.25) / 0.25 / 2
    assert trace.arrival_s.tolist() == [0.0, gap]
    assert trace.tenant.tolist() == ["a", "b"]


def test_a_process_replaces_times(tmp_path):
    path = write(tmp_path, "arrival_s,prompt_tokens,output_tokens,deadline_s\n7,5,1,8\n9,6,2,9\n")
    trace = read_trace(path, rate_per_s=1e3)
    assert 0 < trace.arrival_s[1] < 1
    assert trace.deadline_s is None  # of another clock
    assert "an arrival process needs rate_per_s" in str(refused(path, seed=4))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate_per_s": 0}, "rate_per_s must be a number > 0"),
        ({"rate_per_s": 1, "seed": -1}, "seed must be a whole number"),
        ({"rate_per_s": 1, "arrivals": "poison"}, "did you mean 'poisson'?"),
    ],
)
def test_impossible_processes(tmp_path, options, words):
    path = write(tmp_path, "prompt_tokens,output_tokens\n5,1\n")
    with pytest.raises(ConfigError) as caught:
        read_trace(path, **options)
    assert words in str(caught.value)


TABLE = "arrival_s,prompt_tokens,output_tokens,deadline_s\n"


def test_a_window_is_cut_out_and_begins_at_zero(tmp_path):
    path = write(tmp_path, TABLE + "100,1,1,101\n101,2,1,109\n109.5,3,1,\n102,4,1,105\n110,5,1,\n")
    trace = read_trace(path, window_s=[1, 9.5])
    # After the first arrival: 0, 1, 9.5, 2, 10 s; those at 1 and 2 are in, the one at 9.5 is not.
    assert trace.prompt_tokens.tolist() == [2, 4]
    assert trace.arrival_s.tolist() == [0.0, 1.0]
    assert trace.deadline_s.tolist() == [8.0, 4.0]


def test_errors_in_a_window_name_the_files_rows(tmp_path):
    path = write(tmp_path, TABLE + "0,1,1,\n5,1,1,\n6,-1,1,\n")
    error = refused(path, window_s=[5, 9])
    assert (error.row, error.field, error.value) == (2, "prompt_tokens", -1)
    error = refused(write(tmp_path, TABLE + "0,1,1,\n5,1,1,\nNaN,1,1,\n"), window_s=[5, 9])
    assert (error.row, error.field) == (2, "arrival_s")


def test_bad_windows(tmp_path):
    path = write(tmp_path, TABLE + "0,1,1,\n5,1,1,\n")
    error = refused(path, window_s=[6, 9])
    assert (error.field, error.value) == ("window_s", [6, 9])
    assert "the last one arrives 5 s after the first" in str(error)
    for window in ([3], [5, 5], [-1, 5], ["a", "b"], [0, float("inf")], 7):
        with pytest.raises(InputError, match="two numbers of seconds"):
            read_trace(path, window_s=window)


def test_a_trace_longer_than_the_clock(tmp_path):
    # 61 days, as the long BurstGPT files span: 61 * 86,400 = 5,270,400 s.
    text = V1 + "5,m,1,1,2,x\n65,m,2,1,2,x\n5270405,m,3,1,2,x\n"
    path = write(tmp_path, text)
    error = refused(path)
    assert (error.row, error.field, error.value) == (2, "Timestamp", 5_270_400.0)
    assert "window_s=[0, 86400]" in str(error)
    assert read_trace(path, window_s=[0, 86_400]).prompt_tokens.tolist() == [1, 2]


# Documentation

DOCS = Path(__file__).parents[1] / "docs"


def test_every_format_and_option_is_documented():
    text = (DOCS / "trace-formats.md").read_text("utf-8")
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert list(rows) == list(FORMATS)
    for name, row in FORMATS.items():
        options = re.findall(r"`(\w+)`", rows[name].split("|")[-2])
        assert options == list(row.options), name
    assert all(f"`{unit}`" in text for unit in TIME_UNITS)
    assert all(f"`{column}`" in text for column in CONVERTERS)


def test_every_process_and_distribution_is_documented():
    text = (DOCS / "workloads.md").read_text("utf-8")
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert list(rows) == [*ARRIVALS, *LENGTHS]
    for name, cls in {**ARRIVALS, **LENGTHS}.items():
        assert all(f"`{field.name}`" in rows[name] for field in fields(cls)), name


def test_the_examples_of_the_documentation_work():
    text = (DOCS / "workloads.md").read_text("utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    for example in examples:
        section = yaml.safe_load(example)["trace"]
        workload = section["synthetic"] | {"requests": section["requests"]}
        assert len(generate(SyntheticSpec.from_mapping(workload))) == 20_000
    assert len(examples) == 3
