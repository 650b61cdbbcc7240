"""The output: its columns and types, what is kept of a sweep that did not end, and resuming."""

import errno
import json
import math
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeps import files, store
from sweeps.errors import StoreError
from sweeps.rows import Rows, outcomes_of, row_schema
from sweeps.space import Choice, Point
from sweeps.store import open_store, read_metadata
from vecsched import SchedulerConfig, engine_version

SAMPLE = {"requests": 3, "ttft_p99_s": 0.5}


def point(index: int, variant=None) -> Point:
    fields = {"kv_blocks": index or None}
    choice = Choice("c", variant, fields, SchedulerConfig(**fields))
    return Point(index, choice, "t", None, 1.5)


def key(number: int) -> str:
    return f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}"  # not in order


def rows(*numbers: int, summary=SAMPLE, error=None) -> Rows:
    outcomes = outcomes_of([summary] * len(numbers), [error] * len(numbers), list(SAMPLE))
    return Rows([point(n) for n in numbers], [key(n) for n in numbers], outcomes)


def keyed(*numbers: int):
    return ((point(number), key(number)) for number in numbers)


class Opened:
    """Opens a store and begins it; notes are kept."""

    def __init__(self, path: Path) -> None:
        self.path, self.notes = path, []

    def __call__(self, resume: bool = False, sample=SAMPLE):
        self._sample = sample
        self._context = open_store(self.path, resume=resume, note=self.notes.append)
        return self

    def __enter__(self):
        opened = self._context.__enter__()
        opened.begin(row_schema(self._sample), lambda: {"spec": {"name": "x"}})
        return opened

    def __exit__(self, *raised):
        return self._context.__exit__(*raised)


@pytest.fixture
def opened(tmp_path):
    return Opened(tmp_path / "out.parquet")


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(store, "_ROWS", 4)


def leave(opened: Opened, *given: Rows) -> None:
    """Add some rows and be interrupted."""

    def run() -> None:
        with opened() as out:
            for each in given:
                out.append(each)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()


def refusal(opened: Opened, **how) -> str:
    """Return why an output is refused before anything runs."""

    def run() -> None:
        with opened(**how):
            pytest.fail("nothing may run before this is known")

    with pytest.raises(StoreError) as caught:
        run()
    return str(caught.value)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_columns_and_types(opened):
    with opened() as out:
        out.append(rows(0))
        out.append(rows(1, summary={"requests": 4, "ttft_p99_s": math.nan}))
        out.append(rows(2, summary=None, error="SimulationError: no"))
        out.finish(keyed(0, 1, 2))
    table = pq.read_table(opened.path)
    arrow = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    fields = SchedulerConfig().to_dict()
    kinds = {name: arrow[type(default)] for name, default in fields.items() if default is not None}
    limits = ["kv_blocks", "max_tokens", "max_prefill_tokens", "max_model_len"]
    kinds |= dict.fromkeys(["point", "seed", "requests", *limits], pa.int64())
    kinds |= dict.fromkeys(["max_wait_s", "timeout_s", "load", "ttft_p99_s"], pa.float64())
    assert {field.name: field.type for field in table.schema} == {
        name: kinds.get(name, pa.string()) for name in table.schema.names
    }
    assert table.schema.names == [
        *("point", "key", *fields, "load", "seed", "variant", "trace", "cost"),
        *("requests", "ttft_p99_s", "status", "error", "engine_version"),
    ]
    columns = table.to_pydict()
    assert columns["key"] == [key(0), key(1), key(2)]
    assert columns["kv_blocks"] == [None, 1, 2]
    assert columns["seed"] == [None, None, None]
    assert (columns["trace"], columns["cost"]) == (["t"] * 3, ["c"] * 3)
    assert columns["requests"] == [3, 4, None]
    assert columns["ttft_p99_s"] == [0.5, None, None]  # NaN and missing are both null
    assert columns["status"] == ["ok", "ok", "error"]
    assert columns["error"] == [None, None, "SimulationError: no"]
    assert columns["engine_version"] == [engine_version()] * 3
    assert read_metadata(opened.path) == {"format": "vecsched-sweep/1", "spec": {"name": "x"}}
    assert names(opened.path.parent) == ["out.parquet"]


def test_a_metric_without_a_column_is_a_bug():
    with pytest.raises(KeyError, match="new_s"):
        outcomes_of([{"new_s": 1.0}], [None], ["requests"])


def test_the_types_do_not_depend_on_the_results(opened):
    schemas = []
    for outcome in ({"summary": SAMPLE}, {"summary": None, "error": "no"}):
        with opened() as out:
            out.append(rows(0, **outcome))
            out.finish(keyed(0))
        schemas.append(pq.read_schema(opened.path))
    assert schemas[0] == schemas[1]


def test_rows_are_written_in_groups_of_one_size(opened, small_parts):
    with opened() as out:
        for number in range(10):
            out.append(rows(number))
            assert len(names(out._folder)) == (number + 1) // 4
        out.finish(keyed(*range(10)))
    file = pq.ParquetFile(opened.path).metadata
    assert [file.row_group(group).num_rows for group in range(file.num_row_groups)] == [4, 4, 2]
    assert pq.read_table(opened.path)["point"].to_pylist() == list(range(10))


def test_rows_do_not_wait_for_long(opened, monkeypatch):
    now = 100.0
    monkeypatch.setattr(store.time, "monotonic", lambda: now)
    with opened() as out:
        now = 104.9
        out.append(rows(0))
        assert names(out._folder) == []
        now = 105.0
        out.append(rows(1))
        assert names(out._folder) == ["part-000000.parquet"]
        now = 109.9
        out.append(rows(2))
        assert names(out._folder) == ["part-000000.parquet"]


def test_resuming_is_a_subtraction(opened, small_parts):
    with opened() as out:
        out.append(rows(*range(10)))
        out.finish(keyed(*range(10)))
    undisturbed = opened.path.read_bytes()
    opened.path.unlink()
    leave(opened, rows(0, 1, 2, 3, 4), rows(5))
    assert names(opened.path.parent) == ["out.parquet.parts"]
    with opened(resume=True) as out:
        assert out.done == {key(number): None for number in range(6)}
        out.append(rows(6, 7, 8, 9))
        out.finish(keyed(*range(10)))
    assert opened.path.read_bytes() == undisturbed
    assert names(opened.path.parent) == ["out.parquet"]


def test_parts_are_not_overwritten_without_resuming(opened):
    leave(opened, rows(0))
    assert "out.parquet.parts: holds 1 parts of a sweep; resume it" in refusal(opened)
    assert names(opened.path.parent / "out.parquet.parts") == ["part-000000.parquet"]


def test_a_finished_file_is_replaced_only_at_the_end(opened):
    opened.path.write_text("old")
    with opened() as out:
        out.append(rows(0))
        out.flush()
        assert opened.path.read_text() == "old"
        out.finish(keyed(0))
    assert pq.read_table(opened.path).num_rows == 1


def test_a_finished_file_can_be_extended(opened):
    """Rows are found by key: their order, number and names are those of the new sweep."""
    with opened() as out:
        out.append(rows(4, 2, error="no", summary=None))
        out.append(rows(3))
        out.finish(keyed(4, 2, 3))
    with opened(resume=True) as out:
        assert out.done == {key(4): "no", key(2): "no", key(3): None}
        out.append(rows(7))
        renamed = [(Point(n, *_rest(point(k, "v"))), key(k)) for n, k in enumerate([2, 7, 3])]
        out.finish(iter(renamed))
    table = pq.read_table(opened.path).to_pydict()
    assert table["point"] == [0, 1, 2]
    assert table["kv_blocks"] == [2, 7, 3]
    assert table["key"] == [key(2), key(7), key(3)]
    assert table["variant"] == ["v"] * 3
    assert table["error"] == ["no", None, None]


def _rest(point: Point):
    return point.choice, point.trace, point.seed, point.load


def test_metrics_that_an_old_row_lacks_are_null(opened):
    with opened() as out:
        out.append(rows(0))
        out.finish(keyed(0))
    with opened(resume=True, sample=SAMPLE | {"tenant_a_s": 1.0}) as out:
        out.finish(keyed(0))
    assert pq.read_table(opened.path)["tenant_a_s"].to_pylist() == [None]


def test_a_torn_part_is_set_aside_and_run_again(opened, small_parts):
    leave(opened, *map(rows, range(12)))
    folder = opened.path.with_name("out.parquet.parts")
    first, second, third = sorted(folder.glob("part-*"))
    first.write_bytes(first.read_bytes()[:-10])  # the end was never written
    content = bytearray(second.read_bytes())
    column = pq.read_metadata(second).row_group(0).column(0)
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1  # one bit of a row
    second.write_bytes(content)
    (folder / ".part-000003.parquet.0123abcd.tmp").write_text("killed while writing")
    (opened.path.parent / ".out.parquet.0123abcd.tmp").write_text("killed while finishing")
    with opened(resume=True) as out:
        assert list(out.done) == [key(n) for n in range(8, 12)]
        assert opened.notes == [
            f"{torn}: is torn; its points are simulated again" for torn in (first, second)
        ]
        assert names(folder) == [f".torn-{first.name}", f".torn-{second.name}", third.name]
        out.append(rows(*range(8)))
        out.finish(keyed(*range(12)))
    assert pq.read_table(opened.path)["point"].to_pylist() == list(range(12))
    assert names(opened.path.parent) == ["out.parquet"]


def test_a_part_that_goes_bad_is_named(opened, small_parts):
    with opened() as out:
        out.append(rows(0, 1, 2, 3))
        (part,) = out._folder.glob("part-*")
        part.write_bytes(b"nothing")
        with pytest.raises(StoreError, match=f"{part.name}: cannot be read: .*; remove it and res"):
            out.finish(keyed(0, 1, 2, 3))
        assert not opened.path.exists()


class FullDisk:
    """A file whose disk is full after so many bytes."""

    room = 0

    def __init__(self, *arguments) -> None:
        self._file = open(*arguments)  # noqa: SIM115 (the code under test closes it)

    def write(self, data):
        FullDisk.room -= len(data)
        if FullDisk.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize("share", [0, 0.3, 0.7, 0.99])
def test_full_disk(opened, small_parts, monkeypatch, share):
    """Full at the first part, among the parts, and in the finished file: nothing is lost."""
    written = []
    with opened() as out:
        out.append(rows(*range(10)))
        written += [part.stat().st_size for part in out._folder.glob("part-*")]
        out.finish(keyed(*range(10)))
    undisturbed = opened.path.read_bytes()
    opened.path.unlink()

    def run() -> None:
        with opened() as out:
            out.append(rows(0, 1, 2, 3))
            out.append(rows(4, 5, 6, 7))
            out.append(rows(8, 9))
            out.finish(keyed(*range(10)))

    FullDisk.room = int(share * (sum(written) + len(undisturbed)))
    with monkeypatch.context() as patch:
        patch.setattr(files, "open", FullDisk, raising=False)
        with pytest.raises(StoreError, match=r"cannot be written: .*No space left on device"):
            run()
    assert not opened.path.exists()
    with opened(resume=True) as out:
        missing = [number for number in range(10) if key(number) not in out.done]
        assert bool(missing) == (share < 0.9)
        if missing:
            out.append(rows(*missing))
        out.finish(keyed(*range(10)))
    assert opened.path.read_bytes() == undisturbed


def test_a_folder_of_parts_is_a_dataset(tmp_path, small_parts):
    opened = Opened(tmp_path / "out")
    with opened() as out:
        for number in range(10):
            out.append(rows(number))
        out.finish(keyed(*range(10)))
    assert names(opened.path) == [f"part-{number:06d}.parquet" for number in range(3)]
    assert pd.read_parquet(opened.path)["point"].tolist() == list(range(10))
    assert read_metadata(opened.path)["spec"] == {"name": "x"}
    assert "holds 3 parts of a sweep" in refusal(opened)
    with opened(resume=True) as out:
        assert len(out.done) == 10


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder.parquet", "is a folder; a file's name must end in .parquet"),
        ("file", "is a file; a folder's name must not end in .parquet"),
        ("missing/out.parquet", "cannot be written: No such file or directory"),
    ],
)
def test_outputs_that_cannot_be(tmp_path, name, message):
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "file").write_text("")
    assert refusal(Opened(tmp_path / name)) == f"{tmp_path / name}: {message}"


def test_files_that_no_sweep_wrote(tmp_path, opened):
    path = opened.path
    with pytest.raises(StoreError, match=r"out\.parquet: cannot be read: "):
        read_metadata(path)
    path.write_text("not a Parquet file, but long enough to be one")
    with pytest.raises(StoreError, match="is not the output of a sweep"):
        read_metadata(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(StoreError, match="is not the output of a sweep"):
        read_metadata(path)
    assert "is not the output of a sweep" in refusal(opened, resume=True)
    metadata = {"vecsched": json.dumps({"format": "vecsched-sweep/9"})}
    pq.write_table(pa.table({"a": [1]}, metadata=metadata), path)
    with pytest.raises(StoreError, match="has format 'vecsched-sweep/9', but this version reads"):
        read_metadata(path)
