"""Every format: told by itself, and the same read under its name."""

import json

import pytest
from workload_files import jsonl, write

from sweeps.workloads import FORMATS, read_trace, write_trace
from sweeps.workloads.source import inspect
from vecsched import Trace

SESSION = {"hash_id_scope": "local", "requests": [{"t": 0, "type": "n", "in": 64, "out": 2}]}
HEAD = "arrival_s,prompt_tokens,output_tokens\n"
MOONCAKE = {"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [0, 1]}
BENCH = {"num_prompts": 1, "completed": 1, "input_lens": [5], "output_lens": [1]}
QA = "prompt_tokens,generation_tokens,ttft,generation_time,user_id,question_id,launch_time,"
DRAWN = {"rate_per_s": 2}
# Name of the format, of the file, what is in it, and the options that it needs.
FILES = [
    ("azure", "2023.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n"
     "2023-11-16 18:17:03.9799600,5,2\n", {}),
    ("azure", "2024.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n"
     "2024-05-10 00:00:00.009930+00:00,5,2\n", {}),
    ("burstgpt", "1.csv", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
     "5,ChatGPT,472,18,490,Conversation log\n", {}),
    ("burstgpt", "3.csv", "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,"
     "Total tokens,Log Type\n19440110.0,,,GPT-4,472,18,490,API log\n", {}),
    ("bailian", "b.jsonl", jsonl({"chat_id": 0, "parent_chat_id": -1} | MOONCAKE), {}),
    ("ragpulse", "r.jsonl", jsonl(MOONCAKE | {"timestamp": "8", "hash_ids": {"history": [1]}}), {}),
    ("mooncake", "m.jsonl", jsonl(MOONCAKE), {}),
    ("vidur", "v.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,5,2\n", {}),
    ("vidur", "lengths.csv", "num_prefill_tokens,num_decode_tokens\n5,2\n", DRAWN),
    ("splitwise_sim", "s.csv", "request_id,request_type,application_id,arrival_timestamp,"
     "batch_size,prompt_size,token_size\n0,2,0,0.5,1,5,2\n", {}),
    ("llmservingsim", "l.jsonl",
     jsonl({"input_toks": 5, "output_toks": 2, "arrival_time_ns": 7}), {}),
    ("vllm_bench", "v.json", json.dumps(BENCH | {"start_times": [9.5]}), {}),
    ("vllm_bench", "old.json", json.dumps(BENCH), DRAWN),
    ("vllm_tap", "t.jsonl", jsonl({"meta": {}}, {"prompt_tokens": 5, "output_tokens": 2,
     "arrival_ms": 5, "itl_ms": [1.0]}), {}),
    ("multi_round_qa", "q.csv", f"{QA}finish_time\n5.0,2.0,0.5,1.0,0,0,1747434782.2,1747434783.7\n",
     {}),
    ("weka", "w.json", json.dumps(SESSION | {"id": "a"}), {}),
    ("weka", "w.jsonl", jsonl(SESSION | {"id": "a"}, SESSION | {"id": "b"}), DRAWN),
    ("sharegpt", "s.json", json.dumps([{"id": "x", "conversations": [
        {"from": "human", "value": "hello"}, {"from": "gpt", "value": "hi"}]}]), DRAWN),
    ("columns", "c.csv", f"{HEAD}0,5,2\n", {}),
    ("columns", "c.jsonl", jsonl({"arrival_s": 0, "prompt_tokens": 5, "output_tokens": 2}), {}),
    ("columns", "lengths.csv", "prompt_tokens,output_tokens\n5,2\n", DRAWN),
]  # fmt: skip


def assert_same_by_name(path, name, options):
    itself, named = read_trace(path, **options), read_trace(path, name, **options)
    assert len(itself) >= 1
    for column in ("arrival_s", "prompt_tokens", "output_tokens", "id"):
        assert getattr(itself, column).tolist() == getattr(named, column).tolist()
    assert itself.prefix_block_tokens == named.prefix_block_tokens
    source = inspect(str(path))
    assert next(other for other in FORMATS if FORMATS[other].recognises(source)) == name


@pytest.mark.parametrize(("name", "file", "text", "options"), FILES)
def test_a_file_is_told_by_itself_and_read_by_name(tmp_path, name, file, text, options):
    assert_same_by_name(write(tmp_path, text, file), name, options)


def test_our_own_files_are_told_by_themselves(tmp_path):
    write_trace(Trace([0.0], [5], [2]), tmp_path / "t.parquet")
    assert_same_by_name(tmp_path / "t.parquet", "vecsched", {})


def test_a_pool_of_clients_is_told_by_itself(tmp_path):
    lengths = {"0": {"input_tokens": "{5: 1}", "output_tokens": "{6: 1}"}}
    write(tmp_path, json.dumps(lengths), "chunk-0-dataset.json")
    trace = write(tmp_path, "0,0.01,1,Gamma,1,3\n", "chunk-0-trace.csv")
    for path in (trace, tmp_path):
        assert_same_by_name(path, "servegen", {})


def test_no_format_is_left_out():
    assert {name for name, *_ in FILES} | {"vecsched", "servegen"} == set(FORMATS)
