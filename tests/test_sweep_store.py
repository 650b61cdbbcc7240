"""The output file: its columns and types, and that it is complete or not there."""

import errno
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeps import store
from sweeps.errors import StoreError
from sweeps.grid import Choice, Point
from sweeps.store import Labels, Outcome, SweepTable, atomic_file, read_metadata
from vecsched import SchedulerConfig

LABELS = Labels("t", "c", "1.0+abc")
SAMPLE = {"requests": 3, "ttft_p99_s": 0.5}


def point(index: int, **fields) -> Point:
    return Point(index, Choice(None, fields, SchedulerConfig(**fields)), 1.5, None)


def write(path: Path, outcomes: list[Outcome], through=lambda file: file) -> None:
    with atomic_file(path) as file, SweepTable(through(file), path, LABELS, SAMPLE) as table:
        for index, outcome in enumerate(outcomes):
            table.append(point(index, kv_blocks=index or None), f"key{index}", outcome)
        table.finish({"spec": {"name": "x"}})


def test_columns_and_types(tmp_path):
    path = tmp_path / "out.parquet"
    write(
        path,
        [
            Outcome({"requests": 3, "ttft_p99_s": 0.5}),
            Outcome({"requests": 4, "ttft_p99_s": math.nan}),
            Outcome(None, "SimulationError: no"),
        ],
    )
    table = pq.read_table(path)
    whole = ["point", "max_batch_size", "max_num_batched_tokens", "prefill_chunk_size", "kv_blocks"]
    whole += ["block_size", "max_tokens", "max_prefill_tokens", "lookahead", "seed", "requests"]
    real = ["max_wait_s", "timeout_s", "load", "ttft_p99_s"]
    types = {field.name: field.type for field in table.schema}
    assert types == {
        name: pa.int64() if name in whole else pa.float64() if name in real else pa.string()
        for name in table.schema.names
    }
    fields = list(SchedulerConfig().to_dict())
    assert table.schema.names == [
        *("point", "key", *fields, "load", "seed", "variant", "trace", "cost"),
        *("requests", "ttft_p99_s", "status", "error", "engine_version"),
    ]
    columns = table.to_pydict()
    assert columns["key"] == ["key0", "key1", "key2"]
    assert columns["kv_blocks"] == [None, 1, 2]
    assert columns["seed"] == [None, None, None]
    assert columns["requests"] == [3, 4, None]
    assert columns["ttft_p99_s"] == [0.5, None, None]  # NaN and missing are both null
    assert columns["status"] == ["ok", "ok", "error"]
    assert columns["error"] == [None, None, "SimulationError: no"]
    assert columns["engine_version"] == ["1.0+abc"] * 3
    assert read_metadata(path) == {"format": "vecsched-sweep/1", "spec": {"name": "x"}}


def test_the_types_do_not_depend_on_the_results(tmp_path):
    write(tmp_path / "good.parquet", [Outcome(SAMPLE)])
    write(tmp_path / "bad.parquet", [Outcome(None, "no")])
    assert pq.read_schema(tmp_path / "good.parquet") == pq.read_schema(tmp_path / "bad.parquet")


def test_rows_are_written_in_groups_of_one_size(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_ROWS", 4)
    path = tmp_path / "out.parquet"
    write(path, [Outcome(SAMPLE)] * 10)
    file = pq.ParquetFile(path).metadata
    assert [file.row_group(group).num_rows for group in range(file.num_row_groups)] == [4, 4, 2]
    assert pq.read_table(path)["point"].to_pylist() == list(range(10))


def test_an_existing_file_is_replaced_only_at_the_end(tmp_path):
    path = tmp_path / "out.parquet"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_file(path) as file:
        file.write(b"new" * (1 // 0))
    assert path.read_text() == "old"
    with atomic_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_has_the_rights_of_any_other(tmp_path):
    (tmp_path / "other").write_text("")
    with atomic_file(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/out.parquet", "cannot be written: No such file or directory"),
        ("file/out.parquet", "cannot be written: Not a directory"),
        ("", "is a folder; name a file in it, such as "),
    ],
)
def test_places_that_cannot_be_written(tmp_path, name, reason):
    (tmp_path / "file").write_text("")
    path = tmp_path / name
    with pytest.raises(StoreError) as caught, atomic_file(path):
        pytest.fail("nothing may run before this is known")
    assert str(caught.value).startswith(f"{path}: {reason}")
    assert isinstance(caught.value, OSError)


class FullDisk:
    """A file whose disk is full after so many bytes."""

    def __init__(self, file, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data):
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_full_disk(tmp_path, monkeypatch, share):
    """Full at the first bytes, among the rows, and in the footer."""
    monkeypatch.setattr(store, "_ROWS", 4)
    path = tmp_path / "out.parquet"
    write(path, [Outcome(SAMPLE)] * 20)
    room = int(path.stat().st_size * share)
    path.unlink()
    with pytest.raises(StoreError, match=r"cannot be written: .*No space left on device"):
        write(path, [Outcome(SAMPLE)] * 20, through=lambda file: FullDisk(file, room))
    assert list(tmp_path.iterdir()) == []


def test_files_that_no_sweep_wrote(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(StoreError, match=r"x\.parquet: cannot be read: "):
        read_metadata(path)
    path.write_text("not a Parquet file, but long enough to be one")
    with pytest.raises(StoreError, match="is not the output of a sweep"):
        read_metadata(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(StoreError, match="is not the output of a sweep"):
        read_metadata(path)
    pq.write_table(
        pa.table({"a": [1]}, metadata={"vecsched": '{"format": "vecsched-sweep/9"}'}), path
    )
    with pytest.raises(StoreError, match="has format 'vecsched-sweep/9', but this version reads"):
        read_metadata(path)
