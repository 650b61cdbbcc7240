"""The output of a sweep: rows that are kept as they come, and one tidy table in the end.

While a sweep runs, its rows go into *parts*: Parquet files in a folder, each complete or not there,
so that what is done survives whatever ends the process. If the output is a file, `out.parquet`, the
folder is `out.parquet.parts`; in the end the parts become that file, a row a point in the order of
the points, and the folder goes. If the output is a folder, its parts are the result.

A point's *key* is a digest of all that determines its result. So resuming asks only which keys are
on disk, be it in parts or in a finished file, and neither their order nor who wrote them matters.

The file holds nothing about when, where or on how many cores it was made, nor whether the sweep was
interrupted: same sweep, same engine, same bytes.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sweeps.errors import StoreError
from sweeps.files import TEMPORARY, atomic_file, exclusive_folder, reporting
from sweeps.parts import Parts
from sweeps.rows import Rows, array_of, identity, record_batch
from sweeps.space import Point

FORMAT = "vecsched-sweep/1"

# Rows in a row group of the finished file, and at most in a part: a fixed number, so that the
# file's bytes do not depend on how results came in.
_ROWS = 4096
# Rows that wait longer are written as a part, however few they are: what a power cut can cost.
_SECONDS_BETWEEN_PARTS = 5.0
_METADATA_KEY = "vecsched"

Keyed = Iterable[tuple[Point, str]]


class Store:
    """A sweep's output while it is written; made by `open_store`, then `begin` it.

    Attributes:
        done: keys of the points whose rows earlier runs have left, each with its error, if any.
    """

    def __init__(self, output: Path) -> None:
        self.done: dict[str, str | None] = {}
        self._output = output
        self._folder = parts_folder(output)
        self._parts = Parts()
        self._waiting: list[Rows] = []
        self._last_part = time.monotonic()

    def begin(self, schema: pa.Schema, describe: Callable[[], Mapping[str, Any]]) -> None:
        """Say what the rows will be.

        Args:
            schema: their columns and types.
            describe: returns what is known by now for the metadata.
        """
        self._schema, self._describe = schema, describe

    def load(self, note: Callable[[str], None]) -> None:
        """Take in what earlier runs have left; parts that are torn are set aside.

        Raises:
            StoreError: the finished file is no sweep's.
        """
        for part in sorted(self._folder.glob(_part_name("*"))):
            try:
                self.done |= self._parts.add(part, verify=True)
            except (pa.ArrowException, OSError):
                note(f"{part}: is torn; its points are simulated again")
                part.rename(part.with_name(f".torn-{part.name}"))
        if self._output.is_file():
            read_metadata(self._output)
            self.done |= self._parts.add(self._output)

    def append(self, rows: Rows) -> None:
        """Add some points' rows.

        Raises:
            StoreError: the disk is full, or otherwise fails.
        """
        self._waiting.append(rows)
        late = time.monotonic() - self._last_part >= _SECONDS_BETWEEN_PARTS
        if late or sum(len(each.keys) for each in self._waiting) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait as a part.

        Raises:
            StoreError: the disk is full, or otherwise fails; the rows stay waiting.
        """
        if not self._waiting:
            return
        rows = list(self._waiting)
        path = self._folder / _part_name(f"{self._next_number():06d}")
        table = pa.Table.from_batches([record_batch(rows, self._schema)])
        table = table.replace_schema_metadata({_METADATA_KEY: self._metadata()})
        with atomic_file(path) as file, reporting(path):
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        del self._waiting[: len(rows)]
        self._parts.add(path)
        self._last_part = time.monotonic()

    def rows(self, keys: Sequence[str]) -> pa.Table:
        """Return the rows of some points that are done; they are on disk then.

        Raises:
            StoreError: the disk is full, or otherwise fails.
        """
        self.flush()
        return self._parts.finder().take(keys, self._schema)

    def finish(self, keyed: Keyed) -> None:
        """Write what waits and, if the output is a file, make the parts that file.

        Args:
            keyed: all points of the sweep with their keys, in order.

        Raises:
            StoreError: the disk is full, or otherwise fails; all parts are still there.
        """
        self.flush()
        if self._folder == self._output:
            return
        with (
            atomic_file(self._output) as file,
            reporting(self._output),
            pq.ParquetWriter(file, self._schema, compression="zstd") as writer,
        ):
            for table in self._in_order(iter(keyed)):
                writer.write_table(table)
            writer.add_key_value_metadata({_METADATA_KEY: self._metadata()})
        for path in [*self._folder.glob(_part_name("*")), *self._folder.glob(".torn-*")]:
            path.unlink()

    def _in_order(self, keyed: Iterator[tuple[Point, str]]) -> Iterator[pa.Table]:
        """Yield the rows of all points, in their order, some thousands at a time."""
        finder, schema = self._parts.finder(), self._schema
        while chunk := list(islice(keyed, _ROWS)):
            points, keys = zip(*chunk, strict=True)
            table = finder.take(keys, schema)
            # A row from another sweep may have had another number, and other names.
            for name, values in identity(points, keys).items():
                place = schema.get_field_index(name)
                field = schema.field(place)
                table = table.set_column(place, field, array_of(values, field))
            yield table.combine_chunks()

    def _metadata(self) -> str:
        return json.dumps({"format": FORMAT, **self._describe()})

    def _next_number(self) -> int:
        names = [path.stem for path in self._folder.glob(f"*{_part_name('*')}")]
        return 1 + max((int(name.rpartition("-")[2]) for name in names), default=-1)


@contextmanager
def open_store(output: Path, *, resume: bool, note: Callable[[str], None]) -> Iterator[Store]:
    """Open a sweep's output for this process alone; what came in is kept, however the block ends.

    Args:
        output: a file, `*.parquet`, or a folder.
        resume: keep and use what is on disk. Without it, a finished file is replaced when the new
            one is complete, and parts are not touched: they are an error.
        note: is told of torn parts.

    Raises:
        StoreError: the output cannot be written, is being written by another process, holds parts,
            or is something else.
    """
    folder = parts_folder(output)
    is_file, should_be_file = output.is_file(), folder != output
    if output.exists() and is_file != should_be_file:
        hint = "a folder's name must not" if is_file else "a file's name must"
        raise StoreError(
            f"{output}: is a {'file' if is_file else 'folder'}; {hint} end in .parquet"
        )
    with exclusive_folder(folder, output):
        for left in [
            *folder.glob(f".*{TEMPORARY}"),
            *output.parent.glob(f".{output.name}.*{TEMPORARY}"),
        ]:
            left.unlink()
        store = Store(output)
        if resume:
            store.load(note)
        elif parts := len([*folder.glob(_part_name("*"))]):
            raise StoreError(
                f"{folder}: holds {parts} parts of a sweep; "
                "resume it, or remove the folder to start afresh"
            )
        try:
            yield store
        finally:
            store.flush()


def parts_folder(output: Path) -> Path:
    """Return where the parts are: beside a file, in a folder itself."""
    return output.with_name(f"{output.name}.parts") if output.suffix == ".parquet" else output


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Return what a sweep's output says about itself.

    Returns:
        `format`; `spec`, the sweep file's content; `costs`, the cost models; `traces`, a list of
        `trace`, `seed` (null for a file) and `fingerprint`; `engine_version`.

    Raises:
        StoreError: the output cannot be read, or no sweep wrote it.
    """
    path = Path(path)
    parts = sorted(path.glob(_part_name("*"))) if path.is_dir() else []
    try:
        metadata = pq.read_metadata(parts[-1] if parts else path).metadata or {}
        values = json.loads(metadata[_METADATA_KEY.encode()])
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (pa.ArrowException, KeyError):
        raise StoreError(f"{path}: is not the output of a sweep") from None
    if values.get("format") != FORMAT:
        raise StoreError(
            f"{path}: has format {values.get('format')!r}, but this version reads {FORMAT!r}"
        )
    return values


def _part_name(number: str) -> str:
    return f"part-{number}.parquet"
