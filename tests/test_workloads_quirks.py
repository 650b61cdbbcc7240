"""What a reader must survive, as met in public traces: one test, with a made-up file, for each."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from workload_files import jsonl, refused, write

from sweeps.workloads import describe, read_trace

TABLE = "arrival_s,prompt_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
MOONCAKE = {"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [0, 1]}


def arrivals(path, **options) -> list[float]:
    return read_trace(path, **options).arrival_s.tolist()


def table(*times) -> str:
    return TABLE + "".join(f"{time},1,1\n" for time in times)


# 1. Time


@pytest.mark.parametrize(
    ("unit", "times", "expected"),
    [
        ("ms", (27000, 27001, 30500), [0, 0.001, 3.5]),
        ("us", (5, 1000005), [0, 1]),
        ("ns", (46926808, 347938952), [0, 0.301012144]),  # 347,938,952 - 46,926,808
        ("s", (0.25, 1.75), [0, 1.5]),
        ("s", (82, 93, 125), [0, 11, 43]),  # does not start at 0
        ("s", (19440110.0, 19440161.0), [0, 51]),  # 225 days after its origin
        ("s", (1747434782.25, 1747434784.5), [0, 2.25]),  # epoch
        ("ns", (1700000000000000001, 1700000000000000003), [0, 2e-9]),  # epoch, to the last digit
        ("s", (479748.5, 479749.0), [0, 0.5]),  # monotonic
        ("s", ('"82"', '"93"'), [0, 11]),  # quoted
    ],
)
def test_time_units_and_origins(tmp_path, unit, times, expected):
    assert arrivals(write(tmp_path, table(*times)), time_unit=unit) == expected


def test_time_as_strings_of_integers_in_json(tmp_path):
    rows = [{"arrival_s": t, "prompt_tokens": "3", "output_tokens": "1"} for t in ("82", "93")]
    assert arrivals(write(tmp_path, jsonl(*rows), "t.jsonl")) == [0.0, 11.0]


@pytest.mark.parametrize(
    ("first", "second", "gap"),
    [
        ("2023-11-16 18:17:03.9799600", "2023-11-16 18:17:03.9799601", 1e-7),  # 7 digits
        ("2024-05-10 00:00:00.009930+00:00", "2024-05-10 00:00:00.009931+00:00", 1e-6),  # 6, offset
        ("2024-05-10 00:00:00+00:00", "2024-05-10 00:00:01.5+00:00", 1.5),  # no fraction
        ("2024-05-10T00:00:00Z", "2024-05-10T02:00:02+02:00", 2.0),  # other ways to write it
    ],
)
def test_time_in_iso_8601(tmp_path, first, second, gap):
    azure = f"{AZURE}{first},1,1\n{second},1,1\n"
    assert arrivals(write(tmp_path, azure)) == [0.0, gap]
    assert arrivals(write(tmp_path, table(first, second)), time_unit="iso") == [0.0, gap]


def test_time_in_iso_8601_with_deadlines(tmp_path):
    text = "arrival_s,prompt_tokens,output_tokens,deadline_s,cancel_at_s\n" + (
        "2024-05-10 00:00:00,1,1,2024-05-10 00:00:05,\n2024-05-10 00:00:01,1,1,,\n"
    )
    trace = read_trace(write(tmp_path, text), time_unit="iso")
    assert trace.deadline_s[0] == pytest.approx(5, abs=1e-6)
    assert np.isnan(trace.deadline_s[1])
    assert np.isnan(trace.cancel_at_s).all()
    row = {"arrival_s": "2024-05-10 00:00:00", "prompt_tokens": 1, "output_tokens": 1}
    path = write(tmp_path, jsonl(row | {"deadline_s": None}), "t.jsonl")
    assert np.isnan(read_trace(path, time_unit="iso").deadline_s).all()


# 2. Order


def test_ties_keep_the_order_of_the_file(tmp_path):
    rows = [MOONCAKE | {"timestamp": t, "output_length": n} for n, t in enumerate([0, 0, 3000] * 9)]
    trace = read_trace(write(tmp_path, jsonl(*rows), "t.jsonl"))
    early = [n for n in range(27) if n % 3 < 2]
    late = [n for n in range(27) if n % 3 == 2]
    assert trace.output_tokens[trace.order].tolist() == early + late
    assert describe(trace)["ties"] == 25  # 18 at 0 and 9 at 3 s, less one of each


def test_a_backward_jump_is_counted_and_the_pieces_interleave(tmp_path):
    trace = read_trace(write(tmp_path, table(82, 604453, 0, 100)))
    assert trace.arrival_s.tolist() == [82.0, 604453.0, 0.0, 100.0]
    assert trace.order.tolist() == [2, 0, 3, 1]
    assert trace.backward_steps == 1


def test_order_of_completion_is_sorted_not_clipped(tmp_path):
    trace = read_trace(write(tmp_path, table(5, 3, 4, 1)))
    assert trace.arrival_s.tolist() == [4.0, 2.0, 3.0, 0.0]
    assert trace.backward_steps == 2  # 5 -> 3 and 4 -> 1
    gaps = np.diff(trace.arrival_s[trace.order])
    assert gaps.tolist() == [2.0, 1.0, 1.0]


# 3. Text


def test_crlf_and_a_missing_last_newline(tmp_path):
    text = AZURE.replace("\n", "\r\n") + "2023-11-16 18:17:03,5,2\r\n2023-11-16 18:17:04,6,3"
    trace = read_trace(write(tmp_path, text))
    assert trace.output_tokens.tolist() == [2, 3]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_blank_lines_and_a_byte_order_mark(tmp_path, mark):
    assert arrivals(write(tmp_path, f"{mark}\n{TABLE}\n0,1,1\n\n2,1,1\n\n")) == [0.0, 2.0]
    text = f"{mark}\n{jsonl(MOONCAKE)}\n{jsonl(MOONCAKE)}\n"
    assert arrivals(write(tmp_path, text, "t.jsonl")) == [0.0, 0.0]
    document = {"id": 1, "conversations": []}
    assert arrivals(write(tmp_path, f"{mark}\n[{json.dumps(document)}]\n"), rate_per_s=1) == [0.0]


def test_csv_without_a_header_is_a_servegen_client(tmp_path):
    write(
        tmp_path,
        json.dumps({"0": {"input_tokens": "{5: 1}", "output_tokens": "{6: 1}"}}),
        "chunk-1-dataset.json",
    )
    path = write(tmp_path, "0,0.005,1,Gamma,1,3\n600,0,0,,0,0", "chunk-1-trace.csv")
    assert read_trace(path).prompt_tokens.tolist() == [5, 5, 5]  # 0.005 * 600
    error = refused(write(tmp_path, "0,0.005,1,Gamma,1,3\n600,0,0,,0,0", "other.csv"))
    assert "unknown kind of trace" in str(error)


def test_an_unnamed_index_column(tmp_path):
    text = "," + TABLE + "0,0,5,1\n1,2,6,1\n"
    assert read_trace(write(tmp_path, text)).prompt_tokens.tolist() == [5, 6]


def test_blanks_and_parentheses_in_names(tmp_path):
    text = "Time (ms),Request tokens, output (tokens)\n1000,5,2\n3000,6,3\n"
    names = {"arrival_s": "Time (ms)", "prompt_tokens": "Request tokens"}
    names["output_tokens"] = "output (tokens)"
    path = write(tmp_path, text)
    trace = read_trace(path, columns=names, time_unit="ms")
    assert trace.arrival_s.tolist() == [0.0, 2.0]
    assert trace.output_tokens.tolist() == [2, 3]


def test_columns_inserted_in_the_middle_are_found_by_name(tmp_path):
    v1 = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    v3 = v1.replace("Model", "Session ID,Elapsed time,Model")
    one = read_trace(write(tmp_path, v1 + "5,m,472,18,490,x\n", "1.csv"))
    three = read_trace(write(tmp_path, v3 + "5.0,,,m,472,18,490,x\n", "3.csv"))
    for trace in (one, three):
        assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([472], [18])


# 4. Lengths


def test_output_0_input_0_and_output_1_are_kept(tmp_path):
    trace = read_trace(write(tmp_path, TABLE + "0,5,0\n1,0,5\n2,0,0\n3,5,1\n"))
    assert trace.prompt_tokens.tolist() == [5, 0, 0, 5]
    assert trace.output_tokens.tolist() == [0, 5, 0, 1]


def test_floats_for_integers(tmp_path):
    trace = read_trace(write(tmp_path, TABLE + "0,21073.0,34.0\n"))
    assert trace.prompt_tokens.dtype == np.int64
    assert trace.prompt_tokens.tolist() == [21073]


def test_prompts_over_any_limit_are_kept(tmp_path):
    row = MOONCAKE | {"input_length": 191_378, "hash_ids": list(range(374))}  # 374 * 512 = 191,488
    trace = read_trace(write(tmp_path, jsonl(row), "t.jsonl"))
    assert trace.prompt_tokens.tolist() == [191_378]


# 5. What is missing


def test_no_arrivals_need_a_process(tmp_path):
    path = write(tmp_path, "prompt_tokens,output_tokens\n5,1\n6,2\n")
    assert "no arrival times: give rate_per_s" in str(refused(path))
    assert read_trace(path, rate_per_s=1).output_tokens.tolist() == [1, 2]


def test_optional_columns_blank_in_most_rows(tmp_path):
    text = "arrival_s,prompt_tokens,output_tokens,deadline_s,tenant\n"
    trace = read_trace(write(tmp_path, text + "0,1,1,,\n" * 5 + "1,1,1,4,x\n"))
    assert np.isnan(trace.deadline_s[:5]).all()
    assert trace.tenant.tolist() == [None] * 5 + ["x"]


@pytest.mark.parametrize("value", ["", "NaN", "inf"])
def test_missing_lengths_and_times_are_errors(tmp_path, value):
    for column, name in enumerate(("arrival_s", "prompt_tokens", "output_tokens")):
        cells = ["1", "1", "1"]
        cells[column] = value
        error = refused(write(tmp_path, TABLE + "0,1,1\n" + ",".join(cells) + "\n"))
        assert (error.row, error.field) == (1, name)


def test_null_and_nan_in_json(tmp_path):
    for text in ("null", "NaN"):
        line = '{"arrival_s": 0, "prompt_tokens": %s, "output_tokens": 1}\n'
        error = refused(write(tmp_path, line % 1 + line % text, "t.jsonl"))
        assert (error.row, error.field) == (1, "prompt_tokens")


@pytest.mark.parametrize("rate", ["inf", 8.5, None])
def test_request_rate_inf_is_no_number(tmp_path, rate):
    result = {"num_prompts": 1, "completed": 1, "request_rate": rate, "max_concurrency": None}
    result |= {"input_lens": [5], "output_lens": [1], "start_times": [81234.5]}
    assert arrivals(write(tmp_path, json.dumps(result))) == [0.0]


def test_an_empty_family_with_zeros_is_an_idle_window(tmp_path):
    write(
        tmp_path,
        json.dumps({"0": {"input_tokens": "{5: 1}", "output_tokens": "{6: 1}"}}),
        "chunk-1-dataset.json",
    )
    path = write(tmp_path, "0,0,0,,0,0\n600,0.01,1,Weibull,1,0\n", "chunk-1-trace.csv")
    assert len(read_trace(path)) == 6


# 6. Prefix ids


def ids_of(trace) -> list[list[int]]:
    return [trace.prefix_ids[row].tolist() for row in range(len(trace))]


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        (1024, [0, 1]),
        (1025, [0, 1, 2]),  # rounded up: the last block is not full
        (1025, [0, 1]),  # rounded down
        (1, [0]),
        (0, []),
        (1024, [1, 2]),  # from 1 on
        (1024, None),
    ],
)
def test_prefix_ids_rounded_up_or_down_from_0_or_1(tmp_path, prompt, ids):
    row = MOONCAKE | {"input_length": prompt, "hash_ids": ids}
    trace = read_trace(write(tmp_path, jsonl(MOONCAKE, row), "t.jsonl"))
    assert trace.prompt_tokens.tolist() == [600, prompt]
    assert ids_of(trace) == [[0, 1], ids or []]
    assert trace.prefix_block_tokens == 512


@pytest.mark.parametrize(
    ("row", "block"),
    [
        (MOONCAKE, 512),
        ({"chat_id": 1, "parent_chat_id": -1, **MOONCAKE}, 16),
        ({"id": "a", "hash_id_scope": "local", "block_size": 64}, 64),
    ],
)
def test_prefix_blocks_of_512_16_and_64(tmp_path, row, block):
    for count in (600 // block, -(-600 // block), -(-600 // block) + 1):
        request = {"hash_ids": list(range(count))}
        if block == 64:
            request = {"requests": [{"t": 0, "type": "n", "in": 600, "out": 2} | request]}
        path = write(tmp_path, jsonl(row | request), "t.jsonl")
        if count * block < 600 + block:
            trace = read_trace(path)
            assert trace.prompt_tokens.tolist() == [600]
            assert ids_of(trace) == [list(range(count))]
            assert trace.prefix_block_tokens == block
        else:
            error = refused(path)
            assert (error.field, error.row) == ("hash_ids", 0)
            assert f"more ids of {block} tokens than a prompt of 600 tokens" in str(error)


def sessions(*scopes, size=64):
    request = {"t": 0, "type": "n", "in": 192, "out": 2, "hash_ids": [1, 2]}
    later = request | {"t": 5, "hash_ids": [1, 2, 7]}
    return [
        {"id": str(n), "hash_id_scope": scope, "block_size": size, "requests": [request, later]}
        for n, scope in enumerate(scopes)
    ]


def test_prefix_ids_local_to_a_session_may_recur(tmp_path):
    path = write(tmp_path, jsonl(*sessions("local", "local")), "t.jsonl")
    trace = read_trace(path, rate_per_s=1)
    assert trace.tenant.tolist() == ["0", "0", "1", "1"]
    # 1, 2, 7 of the first session and of the second: six different things.
    assert ids_of(trace) == [[0, 1], [0, 1, 2], [3, 4], [3, 4, 5]]


def test_prefix_ids_of_all_sessions_together_are_not_those_of_one(tmp_path):
    path = write(tmp_path, jsonl(*sessions("global", "local", "global")), "t.jsonl")
    first, _, local, _, last, _ = ids_of(read_trace(path, rate_per_s=1))
    assert first == last
    assert not set(first) & set(local)
    alone = write(tmp_path, jsonl(*sessions("local")), "one.jsonl")
    assert ids_of(read_trace(alone)) == [[1, 2], [1, 2, 7]]  # as in the file


def test_prefix_ids_of_sessions_with_other_blocks(tmp_path):
    rows = sessions("local") + sessions("local", size=32)
    error = refused(write(tmp_path, jsonl(*rows), "t.jsonl"), rate_per_s=1)
    assert "different sizes (32, 64)" in str(error)
    error = refused(write(tmp_path, jsonl(*sessions("local", size="x")), "t.jsonl"))
    assert (error.field, error.value) == ("block_size", "x")


def test_prefix_ids_in_an_object(tmp_path):
    row = MOONCAKE | {"timestamp": "5", "hash_ids": {"sys_prompt": [1], "web_search": []}}
    assert arrivals(write(tmp_path, jsonl(row, row), "t.jsonl")) == [0.0, 0.0]
    # An id stands for any number of tokens, so a trace cannot keep them.
    assert read_trace(tmp_path / "t.jsonl").prefix_ids is None
    bad = MOONCAKE | {"timestamp": "5", "hash_ids": {"sys_prompt": [1.5], "web_search": []}}
    error = refused(write(tmp_path, jsonl(row, bad), "t.jsonl"))
    assert error.field == "hash_ids.sys_prompt"


LARGE = 2**64 - 1


def test_prefix_ids_above_2_to_the_53rd(tmp_path):
    # As doubles, the two would be one. Those from 2^63 up keep their bits: 2^64 - 1 is -1.
    path = write(tmp_path, jsonl(MOONCAKE, MOONCAKE | {"hash_ids": [LARGE, LARGE - 1]}), "t.jsonl")
    assert ids_of(read_trace(path)) == [[0, 1], [-1, -2]]
    tap = {"prompt_tokens": 64, "output_tokens": 1, "arrival_ms": 0, "itl_ms": []}
    hashes = [LARGE, 2**53 + 1, 2**63]
    rows = [{"meta": {"block_size": 32}}, tap | {"block_hashes": hashes[:2]}, tap]
    trace = read_trace(write(tmp_path, jsonl(*rows), "tap.jsonl"))
    assert ids_of(trace) == [[-1, 2**53 + 1], []]
    assert trace.prefix_block_tokens == 32
    rows = [{"meta": {}}, tap | {"block_hashes": hashes}]
    assert read_trace(write(tmp_path, jsonl(*rows), "tap.jsonl")).prefix_block_tokens == 16
    rows = [{"meta": {}}, tap | {"block_hashes": [2**64]}]
    error = refused(write(tmp_path, jsonl(*rows), "tap.jsonl"))
    assert "list of whole numbers" in str(error)


def test_prefix_ids_absent_in_all_rows(tmp_path):
    path = write(tmp_path, jsonl(MOONCAKE | {"hash_ids": None}), "t.jsonl")
    assert ids_of(read_trace(path)) == [[]]
    without = {"timestamp": 0, "input_length": 600, "output_length": 2}
    path = write(tmp_path, jsonl(without), "t.jsonl")
    assert read_trace(path, "mooncake").prefix_ids is None


@pytest.mark.parametrize("ids", ["7", [1.5, 2], [[1]], ["a"], [1, None]])
def test_prefix_ids_that_are_none(tmp_path, ids):
    rows = [MOONCAKE | {"hash_ids": []}, MOONCAKE | {"hash_ids": ids}]
    error = refused(write(tmp_path, jsonl(*rows), "t.jsonl"), "mooncake")
    assert error.field == "hash_ids"
    assert error.row == 1


def test_prefix_ids_of_a_part(tmp_path):
    rows = [
        MOONCAKE | {"timestamp": 1000 * n, "hash_ids": ids}
        for n, ids in enumerate([[1], [2, 3], [], [4]])
    ]
    path = write(tmp_path, jsonl(*rows), "t.jsonl")
    assert ids_of(read_trace(path, window_s=[1, 3])) == [[2, 3], []]
    rows[2]["hash_ids"] = [1, 2, 3]
    error = refused(write(tmp_path, jsonl(*rows), "t.jsonl"), window_s=[1, 3])
    assert error.row == 2  # of the file


# 7. Structure


def test_json_lines_with_a_header_record(tmp_path):
    row = {"prompt_tokens": 5, "output_tokens": 1, "itl_ms": [], "arrival_ms": 500}
    path = write(tmp_path, jsonl({"meta": {"gpu": "x"}}, row, row), "t.jsonl")
    assert read_trace(path).prompt_tokens.tolist() == [5, 5]


def test_one_document_a_session_with_nested_agents_whose_clock_restarts(tmp_path):
    request = {"type": "n", "in": 5, "out": 1, "hash_ids": []}
    agent = {"t": 7.5, "type": "subagent", "requests": [request | {"t": 0}, request | {"t": 2}]}
    requests = [request | {"t": 0}, agent, request | {"t": 20}]
    session = {"id": "s", "hash_id_scope": "local", "requests": requests}
    folder = tmp_path / "sessions"
    write(folder, json.dumps(session, indent=2), "s.json")
    assert arrivals(folder) == [0.0, 7.5, 9.5, 20.0]


@pytest.mark.parametrize("between", ["\n", "", "\n\n"])
def test_several_json_objects_in_a_file(tmp_path, between):
    result = {"num_prompts": 1, "completed": 1, "output_lens": [1], "start_times": [5.0]}
    texts = [json.dumps(result | {"input_lens": [n]}, indent=between and 1) for n in (8, 9)]
    path = write(tmp_path, between.join(texts))
    assert [read_trace(path, run=n).prompt_tokens.tolist() for n in (0, 1)] == [[8], [9]]


def test_a_dictionary_in_a_string_is_not_json_and_not_run(tmp_path):
    text = {"input_tokens": "{5: 0.5, 6: 0.5}", "output_tokens": "{1: 1.0}"}
    write(tmp_path, json.dumps({"0": text}), "chunk-1-dataset.json")
    path = write(tmp_path, "0,0.01,1,Gamma,1,0\n", "chunk-1-trace.csv")
    assert set(read_trace(path).prompt_tokens) <= {5, 6}
    harm = f"__import__('os').mkdir({str(tmp_path / 'harm')!r})"
    write(tmp_path, json.dumps({"0": text | {"input_tokens": harm}}), "chunk-1-dataset.json")
    with pytest.raises(ValueError, match="text of a dictionary"):
        read_trace(path)
    assert not (tmp_path / "harm").exists()


def test_documents_longer_than_what_is_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("sweeps.workloads.documents._CHUNK", 7)
    turns = [{"from": "human", "value": "x" * n} for n in range(5)]
    entries = [{"id": n, "conversations": turns[: n + 1]} for n in range(5)]
    for text in (json.dumps(entries), json.dumps(entries, indent=3), jsonl(*entries)):
        trace = read_trace(write(tmp_path, text), rate_per_s=1, characters_per_token=1)
        assert trace.prompt_tokens.tolist() == [0, 1, 3, 6, 10]  # sums of 0, 1, 2, 3, 4


@pytest.mark.parametrize(
    "text",
    [
        '[{"conversations": []}, {"conversations": [}]',
        '[{"conversations": []} {"conversations": []}]',
        '[{"conversations": []}, ',
        '[{"conversations": []}, ]',
        '{"conversations": []}\n{"conversations"',
    ],
)
def test_broken_documents(tmp_path, text):
    error = refused(write(tmp_path, text), "sharegpt", rate_per_s=1)
    assert "is not JSON" in str(error)
    assert error.row == 1


def test_documents_that_are_not_utf_8(tmp_path):
    error = refused(
        write(tmp_path, b'[{"conversations": [], "id": "\xff"}]'), "sharegpt", rate_per_s=1
    )
    assert "utf-8" in str(error)


def test_compressed_documents(tmp_path):
    content = gzip.compress(json.dumps([{"conversations": []}] * 3).encode())
    path = write(tmp_path, content, "t.json.gz")
    assert read_trace(path, rate_per_s=1).id.tolist() == [0, 1, 2]
    error = refused(write(tmp_path, content[:-9], "t.json.gz"), "sharegpt", rate_per_s=1)
    assert "cannot be read" in str(error)


def test_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"when": [10, 30], "in": [5, 6], "out": [1, 2]}).to_parquet(path)
    names = {"arrival_s": "when", "prompt_tokens": "in", "output_tokens": "out"}
    trace = read_trace(path, columns=names, time_unit="ms")
    assert trace.arrival_s.tolist() == [0.0, 0.02]
    assert trace.output_tokens.tolist() == [1, 2]


# Size


def test_a_million_rows_in_little_memory(tmp_path):
    # 56 MiB of CSV. pyarrow reads 32 blocks of 1 MiB ahead, and keeps nothing of what is done.
    path = tmp_path / "long.csv"
    note = "some text to make the rows as long as they are"
    block = "".join(f"{i}.5,{i},{i % 7},{note}\n" for i in range(1000))
    with path.open("w") as file:
        file.write(TABLE.replace("\n", ",note\n"))
        file.writelines([block] * 1000)
    names = {name: name for name in TABLE.strip().split(",")}
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    try:
        trace = read_trace(path, columns=names)
    finally:
        pa.set_memory_pool(usual)
    assert len(trace) == 1_000_000
    assert trace.backward_steps == 999
    assert counted.max_memory() < 48 << 20
