"""A file of requests: what it is, and its rows as columns or as JSON documents.

Readers see every file through a `Source`, so that CSV, JSONL and Parquet (and their compressed
forms) need no code of their own in a reader. Parsing is pyarrow's, one batch of rows after another:
a CSV or Parquet file larger than memory costs the columns that are kept, and no more.
"""

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from sweeps.workloads.convert import Cells
from sweeps.workloads.csv_batches import Header, csv_batches
from sweeps.workloads.documents import documents
from sweeps.workloads.jsonl import read_jsonl
from sweeps.workloads.prefix import concatenate
from vecsched import Trace
from vecsched.errors import InputError, did_you_mean

_HEAD_BYTES = 1 << 20

# Row labels that pandas writes beside the data; they are passed over.
ROW_LABELS = ("", "__index_level_0__")

# To an array with a row a request, or to rows of prefix ids (`Ragged`).
Converter = Callable[[pa.Array, Cells], Any]


class Window(NamedTuple):
    """The part of a trace that is wanted, in seconds after its first arrival: from, and before."""

    start_s: float
    stop_s: float


@dataclass(frozen=True)
class Source:
    """A file or folder whose head has been looked at.

    Attributes:
        path: as given by the user, for messages.
        kind: "csv", "jsonl", "parquet", "json" (documents over several lines, or an array) or
            "folder".
        head_columns: names in the header, or the keys of a JSONL file's first object.
        text: the first MiB, decoded; "" for Parquet and folders.
        record: the first object of a JSONL file.
        metadata: Parquet's key-value metadata.
        files: names of the files in a folder, sorted.
        window: what to keep of it; None: all.
    """

    path: str
    kind: str
    head_columns: tuple[str, ...] = ()
    text: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[bytes, bytes] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    window: Window | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns; those of a JSONL file are the keys of all its objects."""
        return tuple(self._jsonl.column_names) if self.kind == "jsonl" else self.head_columns

    @cached_property
    def _jsonl(self) -> pa.Table:
        return read_jsonl(self.path)

    @property
    def is_json(self) -> bool:
        """Whether it holds JSON documents, on one line each or not."""
        return self.kind in ("json", "jsonl")

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of a file in order; if it is an array, its elements.

        Raises:
            InputError: it is no JSON file, or a value is no object; rows count the values.
        """
        if not self.is_json:
            raise InputError(f"a {self.kind} is not JSON", source=self.path)
        for row, value in enumerate(documents(self.path)):
            if not isinstance(value, dict):
                raise InputError("is not a JSON object", source=self.path, row=row, value=value)
            yield value

    def read(self, converters: Mapping[str, Converter]) -> dict[str, Any]:
        """Read the columns named, each with its converter.

        Returns:
            Arrays of shape (rows,), or `Ragged` of prefix ids, by column name.

        Raises:
            InputError: a column is missing or there twice, there are no rows, a row has too many or
                too few cells, or a converter rejects a value.
        """
        self._require(converters)
        parts: dict[str, list[Any]] = {name: [] for name in converters}
        rows = 0
        try:
            for batch in self._batches(list(converters)):
                for name, convert in converters.items():
                    column = batch.column(name)
                    if pa.types.is_dictionary(column.type):
                        column = column.dictionary_decode()
                    values = convert(column, Cells(self.path, name, rows))
                    # A copy, or the batch would stay in memory as long as the column does.
                    parts[name].append(values.copy() if isinstance(values, np.ndarray) else values)
                rows += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"cannot be read as {self.kind}: {error}", source=self.path) from None
        if rows == 0:
            raise InputError("there are column names but no rows", source=self.path)
        return {name: concatenate(parts.pop(name)) for name in converters}

    def check_table(self) -> None:
        """Raise InputError if there are no rows and columns in it."""
        if self.kind in ("json", "folder"):
            what = "a JSON document" if self.kind == "json" else "a folder"
            raise InputError(f"{what} is not a table of requests", source=self.path)

    def _require(self, names: Iterable[str]) -> None:
        self.check_table()
        count = Counter(self.columns)
        for name in names:
            if name not in count:
                hint = did_you_mean(name, filter(None, self.columns))
                raise InputError(f"there is no such column; {hint}", source=self.path, field=name)
            if count[name] > 1:
                raise InputError(
                    f"{count[name]} columns have this name: keep one", source=self.path, field=name
                )

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        if self.kind == "csv":
            lines, header = _first_line(self.text)
            if header.endswith("\n"):  # something follows
                yield from csv_batches(Header(self.path, self.head_columns, lines), names)
        elif self.kind == "jsonl":
            yield from self._jsonl.select(names).to_batches()
        else:
            yield from pa_parquet.ParquetFile(self.path).iter_batches(columns=names)


class Format(NamedTuple):
    """One row of the table of formats.

    Attributes:
        description: one line for people.
        recognises: tells from a file's head whether it is of this format.
        read: makes a `Trace` of a source; takes the options below as keyword arguments.
        options: names of the keyword arguments that `read` takes.
    """

    description: str
    recognises: Callable[[Source], bool]
    read: Callable[..., Trace]
    options: tuple[str, ...] = ()


def inspect(path: str) -> Source:
    """Look at the head of a file, or into a folder.

    Raises:
        InputError: the file is missing, cannot be opened, or is empty.
    """
    try:
        if os.path.isdir(path):
            return Source(path, "folder", files=tuple(sorted(os.listdir(path))))
        with pa.input_stream(path) as stream:
            head = stream.read(_HEAD_BYTES)
    except FileNotFoundError:
        raise InputError("there is no such file", source=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=path) from None
    if head.startswith(b"PAR1"):
        return _inspect_parquet(path)
    text = head.decode("utf-8-sig", errors="replace")
    _, first_line = _first_line(text)
    if not first_line:
        raise InputError("the file is empty", source=path)
    if first_line.lstrip().startswith(("{", "[")):
        record = _object(first_line)
        if record is None:
            return Source(path, "json", text=text)
        return Source(path, "jsonl", tuple(record), text, record)
    names = next(csv.reader([first_line]))
    return Source(path, "csv", tuple(name.strip() for name in names), text)


def _inspect_parquet(path: str) -> Source:
    try:
        schema = pa_parquet.read_schema(path)
    except pa.ArrowException as error:
        raise InputError(f"is not a complete Parquet file: {error}", source=path) from None
    return Source(path, "parquet", tuple(schema.names), metadata=schema.metadata or {})


def _first_line(text: str) -> tuple[int, str]:
    """Return the first line that is not blank, its end included, and its number from 1."""
    lines = enumerate(io.StringIO(text, newline=None), 1)
    return next(((number, line) for number, line in lines if line.strip()), (0, ""))


def _object(line: str) -> dict[str, Any] | None:
    """Return the JSON object that fills the line; None if it is no such thing."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
