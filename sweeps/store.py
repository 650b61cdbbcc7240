"""The output of a sweep: one tidy Parquet file, a row a point, in the order of the points.

Columns, in this order: `point`, `key`, every field of the configuration, `load`, `seed`, `variant`,
`trace`, `cost`, every metric, `status` ("ok" or "error"), `error`, `engine_version`. A value that
does not exist is null: a metric with nothing to measure (NaN in the engine) as well as all metrics
of a point that failed. Whole numbers are int64, so they stay whole where nulls are among them.

The file holds nothing about when, where or on how many cores it was made: same sweep, same engine,
same bytes. It is written beside its final place, flushed to the disk and then renamed, so that a
file of the final name is complete.
"""

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, NamedTuple, Self, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from sweeps.errors import StoreError
from sweeps.grid import Point
from vecsched import SchedulerConfig

FORMAT = "vecsched-sweep/1"

# Rows that are kept as Python values before they become one row group: a fixed number, so that the
# bytes do not depend on how results came in.
_ROWS = 4096
_METADATA_KEY = "vecsched"
_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}

Summary = Mapping[str, int | float]


class Labels(NamedTuple):
    """What is the same in every row."""

    trace: str
    cost: str
    engine_version: str


class Outcome(NamedTuple):
    """What became of one point: its summary, or the error that stopped it."""

    summary: Summary | None
    error: str | None = None


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` complete and on disk, or not at all.

    Raises:
        StoreError: the place cannot be written to; on entry, before anything is computed, where
            that can be told.
    """
    if path.is_dir():
        raise StoreError(
            f"{path}: is a folder; name a file in it, such as {path / 'sweep.parquet'}"
        )
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with _reporting(path):
        file = open(temporary, "xb")  # noqa: SIM115 (closed below, where a full disk is expected)
    try:
        yield file
        with _reporting(path):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(temporary, path)
            _sync_folder(path.parent)
    finally:
        with suppress(OSError):  # a full disk, already reported, again when closing flushes
            file.close()
        temporary.unlink(missing_ok=True)


class SweepTable:
    """Writes rows to an open file; use it in a `with` statement and `finish` it."""

    def __init__(self, file: BinaryIO, path: Path, labels: Labels, sample: Summary) -> None:
        """Begin the file.

        Args:
            file: where the bytes go.
            path: what errors call it.
            labels: what all rows share.
            sample: any summary; it gives the names and types of the metrics.
        """
        self._path, self._labels, self._metrics = path, labels, tuple(sample)
        self._schema = _schema(sample)
        self._rows: list[Sequence[Any]] = []
        with _reporting(path):
            self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # after `finish` there is nothing left to do
            self._writer.close()

    def append(self, point: Point, key: str, outcome: Outcome) -> None:
        """Add one point's row.

        Raises:
            StoreError: the disk is full, or otherwise fails.
        """
        config = point.choice.config
        if outcome.summary is None:
            metrics: Sequence[Any] = (None,) * len(self._metrics)
        else:
            metrics = [outcome.summary[name] for name in self._metrics]
        self._rows.append(
            (
                *(point.index, key),
                *(getattr(config, name) for name in _CONFIG_TYPES),
                *(point.load, point.seed, point.choice.variant),
                *(self._labels.trace, self._labels.cost),
                *metrics,
                *("ok" if outcome.error is None else "error", outcome.error),
                self._labels.engine_version,
            )
        )
        if len(self._rows) == _ROWS:
            self._flush()

    def finish(self, metadata: Mapping[str, Any]) -> None:
        """Write what is left and the metadata, as JSON under the key "vecsched".

        Raises:
            StoreError: the disk is full, or otherwise fails.
        """
        if self._rows:
            self._flush()
        text = json.dumps({"format": FORMAT, **metadata})
        with _reporting(self._path):
            self._writer.add_key_value_metadata({_METADATA_KEY: text})
            self._writer.close()

    def _flush(self) -> None:
        arrays = [
            pa.array(column, field.type, from_pandas=True)  # from_pandas: NaN becomes null
            for column, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        with _reporting(self._path):
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._rows.clear()


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Return what a sweep's file says about itself.

    Returns:
        `format`; `spec`, the sweep file's content; `cost`, the cost model; `traces`, a list of
        `seed` (null for a file) and `fingerprint`; `engine_version`.

    Raises:
        StoreError: the file cannot be read, or no sweep wrote it.
    """
    try:
        metadata = pq.read_metadata(path).metadata or {}
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


def _config_types() -> dict[str, pa.DataType]:
    """Arrow types of the configuration's fields, from their annotations."""
    types = {}
    for name, hint in get_type_hints(SchedulerConfig).items():
        (kind,) = [arg for arg in get_args(hint) if arg is not NoneType] or [hint]
        types[name] = _TYPES[kind]
    return types


_CONFIG_TYPES = _config_types()


def _schema(sample: Summary) -> pa.Schema:
    text, integer, real = pa.string(), pa.int64(), pa.float64()
    columns = {"point": integer, "key": text, **_CONFIG_TYPES}
    columns |= {"load": real, "seed": integer, "variant": text, "trace": text, "cost": text}
    columns |= {name: integer if isinstance(n, int) else real for name, n in sample.items()}
    columns |= {"status": text, "error": text, "engine_version": text}
    required = ("point", "key", "load", "trace", "cost", "status", "engine_version")
    return pa.schema([pa.field(n, t, nullable=n not in required) for n, t in columns.items()])


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where the system lets folders be synced."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
