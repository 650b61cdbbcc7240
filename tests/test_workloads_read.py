"""Reading traces: every rule on a small made-up file, and the public files as a whole."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from sweeps.workloads import FORMATS, csv_batches, read_trace, source
from vecsched import Trace
from vecsched.clock import to_ps
from vecsched.errors import InputError

HEADER = "arrival_s,prompt_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"


@pytest.fixture
def write(tmp_path):
    """Write a small file and return its path."""

    def to_file(content: str | bytes, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return to_file


@pytest.fixture
def refused(write):
    """Write a file, read it, and return the error, whose source must be the file."""

    def error_of(content, name="trace.csv", format="auto", **options) -> InputError:
        path = write(content, name)
        with pytest.raises(InputError) as caught:
            read_trace(path, format, **options)
        assert caught.value.source == str(path)
        return caught.value

    return error_of


def jsonl(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# Columns: the general table


def test_csv_with_our_names_in_any_order(write):
    trace = read_trace(write("output_tokens,arrival_s,prompt_tokens\n5,0.0,100\n6,0.25,200\n"))
    assert trace.arrival_s.tolist() == [0.0, 0.25]
    assert trace.prompt_tokens.tolist() == [100, 200]
    assert trace.output_tokens.tolist() == [5, 6]
    assert trace.tenant is None


def test_trace_read_finds_the_readers(write):
    assert Trace.read(write(HEADER + "0,1,2\n")).prompt_tokens.tolist() == [1]


def test_text_quirks(write):
    # Byte-order mark, CRLF, blank lines, blanks in header and cells, quotes, no newline at the end.
    text = '\ufeff\r\narrival_s, "prompt_tokens" , output_tokens\r\n\r\n 0 , 1,2\r\n\r\n1.5,"3", 4'
    trace = read_trace(write(text.replace(' "prompt_tokens" ', "prompt_tokens")))
    assert trace.arrival_s.tolist() == [0.0, 1.5]
    assert trace.prompt_tokens.tolist() == [1, 3]
    assert trace.output_tokens.tolist() == [2, 4]


def test_compressed(write):
    path = write(gzip.compress((HEADER + "0,1,2\n").encode()), "trace.csv.gz")
    assert read_trace(path).output_tokens.tolist() == [2]


def test_optional_columns(write):
    trace = read_trace(
        write(
            "id,tenant,arrival_s,prompt_tokens,output_tokens,priority,kv_blocks,deadline_s,cancel_at_s\n"
            "007,a,10,1,1,-3,2,12,\n"
            "b,,11,1,1,0,4,,NaN\n"
        )
    )
    assert trace.id.tolist() == ["007", "b"]
    assert trace.tenant.tolist() == ["a", None]
    assert trace.priority.tolist() == [-3, 0]
    assert trace.kv_blocks.tolist() == [2, 4]
    # Everything is counted from the first arrival: 12 - 10 = 2.
    assert trace.arrival_s.tolist() == [0.0, 1.0]
    assert trace.deadline_s[0] == 2.0
    assert np.isnan(trace.deadline_s[1])
    assert np.isnan(trace.cancel_at_s).all()


def test_whole_floats_are_counts(write):
    assert read_trace(write(HEADER + "0,21073.0,3e1\n")).prompt_tokens.tolist() == [21073]


def test_zero_lengths_are_kept(write):
    trace = read_trace(write(HEADER + "0,0,5\n1,5,0\n"))
    assert trace.prompt_tokens.tolist() == [0, 5]
    assert trace.output_tokens.tolist() == [5, 0]


def test_rows_out_of_order_stay_where_they_are(write):
    # The earliest is 3, so 5, 3, 4 become 2, 0, 1; one step goes back.
    trace = read_trace(write(HEADER + "5,1,1\n3,2,1\n4,3,1\n"))
    assert trace.arrival_s.tolist() == [2.0, 0.0, 1.0]
    assert trace.prompt_tokens.tolist() == [1, 2, 3]
    assert trace.backward_steps == 1


def test_row_labels_of_pandas_are_passed_over(tmp_path):
    table = pd.DataFrame({"arrival_s": [0.0, 1.0], "prompt_tokens": [1, 2], "output_tokens": 3})
    table[1:].to_csv(tmp_path / "t.csv")
    table[1:].to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert read_trace(tmp_path / name).prompt_tokens.tolist() == [2]


def test_mapping_and_time_unit(write):
    path = write("when,in,out,user,note\n1000,7,8,x,?\n1500,9,8,y,?\n")
    trace = read_trace(
        path,
        columns={
            "arrival_s": "when",
            "prompt_tokens": "in",
            "output_tokens": "out",
            "tenant": "user",
        },
        time_unit="ms",
    )
    assert trace.arrival_s.tolist() == [0.0, 0.5]
    assert trace.prompt_tokens.tolist() == [7, 9]
    assert trace.tenant.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]
)
def test_time_units(write, unit, per_second):
    path = write(HEADER + f"0,1,1\n{3 * per_second},1,1\n")
    assert read_trace(path, time_unit=unit).arrival_s.tolist() == [0.0, 3.0]


def test_epoch_nanoseconds_are_exact(write):
    # 1.7e18 needs more bits than a double has; the gap of 1 ns must come out all the same.
    path = write(HEADER + "1700000000000000001,1,1\n1700000000000000002,1,1\n")
    assert read_trace(path, time_unit="ns").arrival_s.tolist() == [0.0, 1e-9]


def test_jsonl(write):
    trace = read_trace(
        write(
            "\n"
            + jsonl(
                {"arrival_s": 0, "prompt_tokens": 3, "output_tokens": 4.0, "tenant": "2024-05-10"},
                {"arrival_s": 0.1, "prompt_tokens": 5, "output_tokens": 6, "deadline_s": 2},
            )
            + "\n\n",
            "trace.jsonl",
        )
    )
    assert trace.arrival_s.tolist() == [0.0, 0.1]
    assert trace.output_tokens.tolist() == [4, 6]
    assert trace.tenant.tolist() == ["2024-05-10", None]  # text, although it looks like a date
    assert np.isnan(trace.deadline_s[0])
    assert trace.deadline_s[1] == 2.0


def test_jsonl_with_mark_and_numbers_as_text(write):
    text = '\ufeff{"arrival_s": "82", "prompt_tokens": "3", "output_tokens": "4"}'
    assert read_trace(write(text, "t.jsonl")).prompt_tokens.tolist() == [3]


def test_parquet_with_other_types(tmp_path):
    table = pd.DataFrame(
        {
            "arrival_s": np.array([0, 2], np.uint8),
            "prompt_tokens": np.array([3, 4], np.float32),
            "output_tokens": np.array([5, 6], np.int16),
            "kv_blocks": pd.Categorical([7, 8]),
            "tenant": pd.Categorical(["b", "a"]),
        }
    )
    table.to_parquet(tmp_path / "t.parquet")
    trace = read_trace(tmp_path / "t.parquet")
    assert trace.arrival_s.tolist() == [0.0, 2.0]
    assert trace.prompt_tokens.tolist() == [3, 4]
    assert trace.kv_blocks.tolist() == [7, 8]
    assert trace.tenant.tolist() == ["b", "a"]


# Azure


def test_azure_2023_is_exact_to_the_digit(write):
    trace = read_trace(
        write(
            AZURE
            + "2023-11-16 18:17:03.9799600,4808,10\r\n"
            + "2023-11-16 18:17:04.0319601,3180,8\r\n"
            + "2023-11-17 00:00:00.0000000,1,2"
        )
    )
    # 4.0319601 - 3.9799600 = 0.0520001. From 18:17:03.97996 to 24:00 it is 5:42:56.02004,
    # 5 * 3600 + 42 * 60 + 56.02004 = 20576.02004 s.
    assert trace.arrival_s.tolist() == [0.0, 0.0520001, 20576.02004]
    assert trace.prompt_tokens.tolist() == [4808, 3180, 1]
    assert trace.output_tokens.tolist() == [10, 8, 2]


def test_azure_2024_has_offsets_and_may_lack_the_fraction(write):
    trace = read_trace(
        write(
            AZURE
            + "2024-05-10 00:00:00.009930+00:00,2162,5\r\n"
            + "2024-05-10 00:00:01+00:00,1,1\r\n"
            + "2024-05-10 02:00:02.5+02:00,1,1\r\n"  # 00:00:02.5 UTC
            + "2024-05-10 00:00:03Z,1,1\r\n"
            + "2024-05-10 00:00:04,1,1\r\n"  # no offset: UTC
        )
    )
    assert trace.arrival_s.tolist() == [0.0, 0.99007, 2.49007, 2.99007, 3.99007]


def test_azure_order_columns_and_parquet(write, tmp_path):
    path = write(
        "GeneratedTokens,Extra,TIMESTAMP,ContextTokens\n"
        "1,x,2023-11-16 18:00:01,10\n2,y,2023-11-16 18:00:00,20\n"
    )
    trace = read_trace(path)
    assert trace.arrival_s.tolist() == [1.0, 0.0]
    assert trace.backward_steps == 1
    assert trace.prompt_tokens.tolist() == [10, 20]
    pd.read_csv(path, parse_dates=["TIMESTAMP"]).to_parquet(tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet").arrival_s.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("row", "field", "value", "words"),
    [
        ("2023-11-16 18:17,x,1", "ContextTokens", "x", "not a number"),
        ("16/11/2023 18:17,1,1", "TIMESTAMP", "16/11/2023 18:17", "2023-11-16 18:17:03.9799600"),
        ("2023-11-16 18:17:03,-4,1", "ContextTokens", -4, "negative"),
        ("2023-11-16 18:17:03,1,0.5", "GeneratedTokens", 0.5, "whole number"),
        (",1,1", "TIMESTAMP", None, "missing"),
    ],
)
def test_azure_errors_name_the_files_columns(refused, row, field, value, words):
    error = refused(AZURE + "2023-11-16 18:17:03,1,1\r\n" + row)
    assert (error.row, error.field, error.value) == (1, field, value)
    assert words in str(error)


def test_azure_times_must_be_times(refused):
    row = {"TIMESTAMP": 1700158623, "ContextTokens": 1, "GeneratedTokens": 1}
    error = refused(jsonl(row), "t.jsonl")
    assert (error.row, error.field, error.value) == (0, "TIMESTAMP", 1700158623)


def test_azure_missing_column(refused):
    error = refused("TIMESTAMP,ContextTokens,GeneratedToken\n2023-11-16 18:17:03,1,1\n")
    assert error.field == "GeneratedTokens"
    assert "did you mean 'GeneratedToken'?" in str(error)


# Bad input


@pytest.mark.parametrize(
    ("cells", "field", "value", "words"),
    [
        ("1,-5,1", "prompt_tokens", -5, "negative"),
        ("1,1,2.5", "output_tokens", 2.5, "whole number"),
        ("1,,1", "prompt_tokens", None, "missing"),
        ("1,  ,1", "prompt_tokens", None, "missing"),
        ("x,1,1", "arrival_s", "x", "not a number"),
        ("1,0x10,1", "prompt_tokens", "0x10", "not a number"),
        ("1,1_000,1", "prompt_tokens", "1_000", "not a number"),
        ("1,99999999999,1", "prompt_tokens", 99999999999, "must not exceed"),
        ("inf,1,1", "arrival_s", np.inf, "finite"),
        ("1e9,1,1", "arrival_s", 1e9, "beyond the clock"),
    ],
)
def test_bad_cells(refused, cells, field, value, words):
    # The blank line does not count: the row is the second of the data.
    error = refused(HEADER + "0,1,1\n\n" + cells + "\n2,1,1\n")
    assert (error.row, error.field, error.value) == (1, field, value)
    assert words in str(error)


@pytest.mark.parametrize("column", ["arrival_s", "prompt_tokens", "output_tokens"])
def test_nan_is_refused_wherever_a_number_is_needed(refused, column):
    cells = ",".join("NaN" if name == column else "1" for name in HEADER.strip().split(","))
    error = refused(HEADER + "0,1,1\n" + cells)
    assert (error.row, error.field) == (1, column)
    assert np.isnan(error.value)


def test_rows_are_counted_over_blocks(refused, monkeypatch):
    monkeypatch.setattr(csv_batches, "_BLOCK_BYTES", 64)
    rows = [f"{i},1,1\n" for i in range(100)]
    assert refused(HEADER + "".join([*rows, "100,-1,1\n"])).row == 100
    assert refused(HEADER + "".join([*rows, "100,x,1\n", *rows])).row == 100
    assert refused(HEADER + "".join([*rows, "100,1\n", *rows])).row == 100


def test_counts_that_turn_to_floats_in_a_later_block(write, monkeypatch):
    monkeypatch.setattr(csv_batches, "_BLOCK_BYTES", 64)
    text = HEADER + "".join(f"{i},{i},1\n" for i in range(50)) + "50,50.0,1\n"
    assert read_trace(write(text)).prompt_tokens.tolist() == list(range(51))


@pytest.mark.parametrize(("cells", "count"), [("1,2", 2), ("1,2,3,4", 4)])
def test_ragged_rows(refused, cells, count):
    error = refused(HEADER + "\n0,1,1\n\n" + cells + "\n")
    assert (error.row, error.value) == (1, cells)
    assert f"has {count} cells where the header has 3" in str(error)


def test_missing_column(refused):
    error = refused("arrival_s,prompt_tokens\n0,1\n")
    assert error.field == "output_tokens"
    assert "no such column" in str(error)


def test_unknown_column(refused):
    error = refused("arrival_s,prompt_tokens,output_tokens,tennant\n0,1,1,a\n")
    assert error.field == "tennant"
    assert "did you mean 'tenant'?" in str(error)


def test_misspelled_column_is_named_without_a_format(refused):
    error = refused("arrival_s,prompt_token,output_tokens\n0,1,1\n")
    assert error.field == "prompt_token"
    assert "did you mean 'prompt_tokens'?" in str(error)


def test_duplicate_column(refused):
    error = refused("arrival_s,prompt_tokens,prompt_tokens,output_tokens\n0,1,1,1\n")
    assert error.field == "prompt_tokens"
    assert "2 columns have this name" in str(error)


@pytest.mark.parametrize("text", ["", "\n\r\n", "\ufeff"])
def test_empty_file(refused, text):
    assert "empty" in str(refused(text))


@pytest.mark.parametrize("text", [HEADER, HEADER.strip(), HEADER + "\n\n", AZURE])
def test_header_only(refused, text):
    assert "no rows" in str(refused(text))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.csv: there is no such file"):
        read_trace(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="a folder with no files"):
        read_trace(tmp_path)
    with pytest.raises(InputError, match="a folder is not a table"):
        read_trace(tmp_path, "azure")


def test_not_utf8(refused):
    error = refused(b"tenant," + HEADER.encode() + b"\xff\xfe,0,1,1\n")
    assert "UTF8" in str(error)


def test_broken_compression(refused, monkeypatch):
    assert "cannot be read" in str(refused(b"no gzip", "trace.csv.gz"))
    lines = HEADER + "".join(f"{i},{i * i},1\n" for i in range(2000))
    half = gzip.compress(lines.encode())[:-20]
    assert "cannot be read: Truncated" in str(refused(half, "trace.csv.gz"))
    monkeypatch.setattr(source, "_HEAD_BYTES", 100)  # the damage is behind the head
    assert "cannot be read as csv: Truncated" in str(refused(half, "trace.csv.gz"))
    half = gzip.compress(jsonl(*[GOOD] * 2000).encode())[:-20]
    assert "cannot be read as JSON lines: Truncated" in str(refused(half, "trace.jsonl.gz"))


def test_unknown_format(refused):
    error = refused(HEADER + "0,1,1\n", format="azur")
    assert (error.field, error.value) == ("format", "azur")
    assert "did you mean 'azure'?" in str(error)


def test_unrecognised_file_lists_what_was_found_and_what_is_known(refused):
    text = str(refused("a,b,c\n1,2,3\n"))
    assert "a csv file with the columns a, b, c" in text
    assert all(name in text for name in FORMATS)


@pytest.mark.parametrize("text", ["[\n{}\n]", '{\n "a": 1\n}\n'])
def test_json_documents_are_not_tables(refused, text):
    assert "json" in str(refused(text, "t.json"))
    assert "JSON document" in str(refused(text, "t.json", columns={"tenant": "a"}))


def test_options(refused):
    text = HEADER + "0,1,1\n"
    error = refused(text, format="azure", time_unit="ms")
    assert "'azure' does not take this option; it takes: window_s" in str(error)
    error = refused(text, timeunit="ms")
    assert "it takes: columns, time_unit, prefix_block_tokens, rate_per_s, " in str(error)
    error = refused(text, time_unit="sec")
    assert (error.field, error.value) == ("time_unit", "sec")
    error = refused(text, columns={"tenant": "user"})
    assert error.field == "user"
    error = refused(text, columns={"prompt": "prompt_tokens"})
    assert (error.field, error.value) == ("columns", "prompt")
    assert "did you mean 'prompt_tokens'?" in str(error)


GOOD = {"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        (json.dumps(GOOD | {"prompt_tokens": -2}), "prompt_tokens", "-2: must not be negative"),
        (json.dumps(GOOD | {"prompt_tokens": None}), "prompt_tokens", "missing"),
        (json.dumps(GOOD | {"prompt_tokens": float("nan")}), "prompt_tokens", "nan"),
        (json.dumps(GOOD | {"prompt_tokens": "7"}), "prompt_tokens", "rows above have a number"),
        (json.dumps(GOOD | {"prompt_tokens": True}), "prompt_tokens", "is a boolean"),
        (json.dumps(GOOD | {"prompt_tokens": [1]}), "prompt_tokens", "is a list"),
        ('{"arrival_s": 0, "prompt_tokens": 1}', "output_tokens", "missing"),
        ('{"arrival_s": 0, "arrival_s": 1}', None, "'arrival_s' occurs twice"),
        ('{"arrival_s": 0, ', None, "is not JSON"),
        ("[1, 2]", None, "not a JSON object"),
    ],
)
def test_bad_json_lines(refused, line, field, words):
    error = refused(jsonl(GOOD) + "\n" + line + "\n" + jsonl(GOOD), "t.jsonl")
    assert error.row == 1
    assert error.field == field
    assert words in str(error)


def test_unknown_key_in_a_later_json_line(refused):
    error = refused(jsonl(GOOD, GOOD | {"deadline": 3}), "t.jsonl")
    assert error.field == "deadline"
    assert "did you mean 'deadline_s'?" in str(error)


def test_timestamps_in_a_general_table_are_not_seconds(tmp_path):
    times = pd.to_datetime(["2024-05-10", "2024-05-11"])
    pd.DataFrame({"arrival_s": times, "prompt_tokens": 1, "output_tokens": 1}).to_parquet(
        tmp_path / "t.parquet"
    )
    with pytest.raises(InputError, match=r"row 0, field 'arrival_s': .* is not a number"):
        read_trace(tmp_path / "t.parquet")


def test_json_values_that_are_no_numbers(refused):
    error = refused(jsonl(GOOD | {"output_tokens": {"n": 3}}), "t.jsonl")
    assert (error.row, error.field, error.value) == (0, "output_tokens", {"n": 3})
    error = refused(jsonl(GOOD | {"tenant": [1]}), "t.jsonl")
    assert (error.row, error.field, error.value) == (0, "tenant", [1])


def test_bad_parquet(refused, tmp_path):
    path = tmp_path / "good.parquet"
    table = pa.table({"arrival_s": [0.0, 1.0], "prompt_tokens": [1, 2], "output_tokens": [1, None]})
    pa_parquet.write_table(table, path)
    error = refused(path.read_bytes(), "t.parquet")
    assert (error.row, error.field) == (1, "output_tokens")
    assert "Parquet" in str(refused(path.read_bytes()[:-20], "t.parquet"))
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)  # the first page's header
    assert "cannot be read as parquet" in str(refused(bytes(content), "t.parquet"))
    pa_parquet.write_table(table[:0], path)
    assert "no rows" in str(refused(path.read_bytes(), "t.parquet"))


def test_a_newer_schema_is_refused(refused, tmp_path):
    table = pa.table(
        {"arrival_s": [0.0], "prompt_tokens": [1], "output_tokens": [1]},
        metadata={"vecsched.trace": "3"},
    )
    pa_parquet.write_table(table, tmp_path / "new.parquet")
    error = refused((tmp_path / "new.parquet").read_bytes(), "t.parquet")
    assert (error.field, error.value) == ("vecsched.trace", "3")
    error = refused(HEADER + "0,1,1\n", format="vecsched")
    assert "no trace schema" in str(error)


def test_an_older_schema_is_read(tmp_path):
    columns = {"arrival_s": [5.0], "prompt_tokens": [1], "output_tokens": [1]}
    pa_parquet.write_table(pa.table(columns, metadata={"vecsched.trace": "1"}), tmp_path / "t.pq")
    trace = read_trace(tmp_path / "t.pq")
    assert (trace.arrival_s.tolist(), trace.prefix_ids) == ([5.0], None)


def test_what_an_id_stands_for_must_be_said(refused, tmp_path):
    columns = {"arrival_s": [5.0], "prompt_tokens": [40], "output_tokens": [1]}
    table = pa.table(columns | {"prefix_ids": [[1, 2]]})
    pa_parquet.write_table(table, tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    error = refused(content, "t.parquet")
    assert "give prefix_block_tokens" in str(error)
    trace = read_trace(tmp_path / "t.parquet", prefix_block_tokens=20)
    assert (trace.prefix_ids[0].tolist(), trace.prefix_block_tokens) == ([1, 2], 20)
    error = refused(HEADER + "0,1,1\n", prefix_block_tokens=20)
    assert "there are no prefix_ids" in str(error)
    for value in (b"many", b""):
        metadata = {b"vecsched.trace": b"2", b"vecsched.prefix_block_tokens": value}
        pa_parquet.write_table(table.replace_schema_metadata(metadata), tmp_path / "t.parquet")
        error = refused((tmp_path / "t.parquet").read_bytes(), "t.parquet")
        assert error.field == "vecsched.prefix_block_tokens"


# The public files


@pytest.mark.parametrize(("name", "rows"), [("code", 8_819), ("conv", 19_366)])
def test_azure_files_equal_their_processed_copies(shared, name, rows):
    folder = shared / "data/traces"
    azure = read_trace(folder / f"azure2023/AzureLLMInferenceTrace_{name}.csv")
    vidur = read_trace(folder / f"vidur/splitwise_{name}.csv")
    assert len(azure) == len(vidur) == rows
    assert azure.prompt_tokens.tolist() == vidur.prompt_tokens.tolist()
    assert azure.output_tokens.tolist() == vidur.output_tokens.tolist()
    # The copies were made in float arithmetic, which is off by up to one unit in the last place:
    # 2^-42 s = 0.23 ps just below 3,600 s, or 1 ps after rounding. Ours are exact: whole 100 ns.
    assert abs(to_ps(azure.arrival_s) - to_ps(vidur.arrival_s)).max() <= 1
    assert (to_ps(azure.arrival_s) % 100_000 == 0).all()


def test_azure_2024_quoted_row(shared):
    trace = read_trace(shared / "data/formats/azure_2024.quoted-row.csv")
    assert trace.prompt_tokens.tolist() == [2162]
    assert trace.output_tokens.tolist() == [5]
