"""Writing traces: what is read back is equal to the bit."""

import numpy as np
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweeps.errors import StoreError
from sweeps.workloads import PRESETS, as_records, generate, read_trace, write_trace
from vecsched import Trace
from vecsched.errors import InputError

SUFFIXES = (".parquet", ".csv", ".jsonl")
COLUMNS = (
    "arrival_s",
    "prompt_tokens",
    "output_tokens",
    "kv_blocks",
    "priority",
    "tenant",
    "deadline_s",
    "cancel_at_s",
    "engine_time_s",
    "id",
)


def assert_same(trace: Trace, other: Trace) -> None:
    for name in COLUMNS:
        ours, theirs = getattr(trace, name), getattr(other, name)
        assert (ours is None) == (theirs is None), name
        if ours is not None:
            assert ours.dtype == theirs.dtype, name
            same = ours.tolist() if ours.dtype == object else ours.tobytes()
            assert same == (theirs.tolist() if ours.dtype == object else theirs.tobytes()), name


def with_ids(*ids, tokens=16):
    n = len(ids)
    return Trace(range(n), [40] * n, [1] * n, prefix_ids=ids, prefix_block_tokens=tokens)


def test_prefix_ids_are_kept(tmp_path):
    trace = with_ids([1, 2, 3], [], [-(2**63), 2**63 - 1])
    write_trace(trace, tmp_path / "t.parquet")
    back = read_trace(tmp_path / "t.parquet")
    assert back.prefix_block_tokens == 16
    assert [back.prefix_ids[row].tolist() for row in range(3)] == [
        [1, 2, 3],
        [],
        [-(2**63), 2**63 - 1],
    ]
    assert pa_parquet.read_schema(tmp_path / "t.parquet").metadata == {
        b"vecsched.trace": b"2",
        b"vecsched.prefix_block_tokens": b"16",
    }
    column = pa_parquet.read_schema(tmp_path / "t.parquet").field("prefix_ids")
    assert str(column.type) in ("list<item: int64>", "list<element: int64>")
    part = read_trace(tmp_path / "t.parquet", window_s=[1, 3])
    assert [part.prefix_ids[row].tolist() for row in range(2)] == [[], [-(2**63), 2**63 - 1]]


def test_prefix_ids_in_text(tmp_path):
    trace = with_ids([1, 2, 3], [])
    write_trace(trace, tmp_path / "t.jsonl")
    back = read_trace(tmp_path / "t.jsonl", prefix_block_tokens=16)
    assert [back.prefix_ids[row].tolist() for row in range(2)] == [[1, 2, 3], []]
    assert as_records(trace, 1)[0]["prefix_ids"] == [1, 2, 3]
    with pytest.raises(InputError, match="CSV has no place for lists of prefix ids"):
        write_trace(trace, tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists()


def test_scaling_keeps_prefix_ids():
    scaled = with_ids([1], [1, 2]).scaled(2)
    assert (scaled.arrival_s.tolist(), scaled.prefix_block_tokens) == ([0.0, 0.5], 16)
    assert scaled.prefix_ids[1].tolist() == [1, 2]


@st.composite
def traces(draw) -> Trace:
    n = draw(st.integers(1, 8))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    def maybe(values):
        return column(values) if draw(st.booleans()) else None

    seconds = st.floats(0, 4e6)
    tokens = st.integers(0, 2**31 - 1)
    names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=5)
    arrival = np.array(column(seconds))
    return Trace(
        arrival - arrival.min(),
        column(tokens),
        column(tokens),
        kv_blocks=maybe(tokens),
        priority=maybe(st.integers(-(2**63), 2**63 - 1)),
        tenant=maybe(names),
        deadline_s=maybe(seconds | st.just(np.nan)),
        cancel_at_s=maybe(seconds | st.just(np.nan)),
        engine_time_s=maybe(seconds),
        id=maybe(names),
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(trace=traces())
def test_round_trip(tmp_path, suffix, trace):
    path = tmp_path / f"trace{suffix}"
    write_trace(trace, path)
    assert_same(trace, read_trace(path))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip_of_a_long_trace(tmp_path, suffix):
    trace = generate(PRESETS["azure-conv-like"].replace(requests=70_000))  # several batches
    write_trace(trace, tmp_path / f"trace{suffix}")
    assert_same(trace, read_trace(tmp_path / f"trace{suffix}"))


def test_our_parquet_keeps_the_clock_and_the_types_of_labels(tmp_path):
    trace = Trace([5.0, 7.0], [1, 2], [3, 4], id=[30, 10], tenant=[" a ", None])
    write_trace(trace, tmp_path / "t.parquet")
    assert_same(trace, read_trace(tmp_path / "t.parquet"))
    assert pa_parquet.read_schema(tmp_path / "t.parquet").metadata == {b"vecsched.trace": b"2"}


def test_csv_and_jsonl_start_at_zero(tmp_path):
    trace = Trace([5.0, 7.0], [1, 2], [3, 4], id=[30, 10], deadline_s=[6.0, np.nan])
    write_trace(trace, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == (
        "arrival_s,prompt_tokens,output_tokens,deadline_s,id\n5,1,3,6,30\n7,2,4,,10\n"
    )
    back = read_trace(tmp_path / "t.csv")
    assert back.arrival_s.tolist() == [0.0, 2.0]
    assert back.deadline_s[0] == 1.0
    assert back.id.tolist() == ["30", "10"]
    write_trace(trace, tmp_path / "t.jsonl")
    assert read_trace(tmp_path / "t.jsonl").id.tolist() == [30, 10]


def test_a_part_of_our_parquet_begins_at_zero(tmp_path):
    trace = Trace([5.0, 7.0, 9.0], [1, 2, 3], [3, 4, 5], deadline_s=[6.0, 8.0, 9.0])
    write_trace(trace, tmp_path / "t.parquet")
    part = read_trace(tmp_path / "t.parquet", window_s=[1, 5])
    assert part.arrival_s.tolist() == [0.0, 2.0]
    assert part.deadline_s.tolist() == [1.0, 2.0]


def test_first_rows_as_records():
    trace = Trace([5.0, 7.0], [1, 2], [3, 4], deadline_s=[6.0, np.nan])
    records = [
        {"arrival_s": 5.0, "prompt_tokens": 1, "output_tokens": 3, "deadline_s": 6.0},
        {"arrival_s": 7.0, "prompt_tokens": 2, "output_tokens": 4, "deadline_s": None},
    ]
    assert as_records(trace, 1) == records[:1]
    assert as_records(trace, 9) == records


def test_same_trace_same_bytes(tmp_path):
    trace = generate(PRESETS["azure-conv-like"].replace(requests=100))
    for suffix in SUFFIXES:
        for name in ("a", "b"):
            write_trace(trace, tmp_path / f"{name}{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_nothing_is_written_when_it_fails(tmp_path):
    trace = Trace([0.0, 1.0], [1, 2], [3, 4], tenant=np.array(["a", 1], object))
    with pytest.raises(InputError, match=r"field 'tenant': labels must all be text"):
        write_trace(trace, tmp_path / "t.parquet")
    trace = Trace([0.0], [1], [3])
    with pytest.raises(InputError, match=r"known: .parquet, .csv, .jsonl"):
        write_trace(trace, tmp_path / "t.xlsx")
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        write_trace(trace, tmp_path / "nowhere" / "t.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(StoreError, match=r"folder\.csv: is a folder; name a file in it"):
        write_trace(trace, tmp_path / "folder.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


def test_an_error_in_the_middle_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("old")

    def fail(table, file):
        file.write(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sweeps.workloads.write._WRITERS", {".csv": fail})
    with pytest.raises(StoreError, match="cannot be written: No space left on device"):
        write_trace(Trace([0.0], [1], [3]), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
