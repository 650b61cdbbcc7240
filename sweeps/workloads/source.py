"""A file of requests as columns: what it is, which columns it has, and their values.

Readers see every file through a `Source`, so that CSV, JSONL and Parquet (and their compressed
forms) need no code of their own in a reader. Parsing is pyarrow's, one batch of rows after another:
a CSV or Parquet file larger than memory costs the columns that are kept, and no more.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from sweeps.workloads.convert import Cells
from sweeps.workloads.jsonl import read_jsonl
from vecsched import Trace
from vecsched.errors import InputError, did_you_mean

_HEAD_BYTES = 1 << 20
_CSV_BLOCK_BYTES = 1 << 22

# Row labels that pandas writes beside the data; they are passed over.
ROW_LABELS = ("", "__index_level_0__")

Converter = Callable[[pa.Array, Cells], np.ndarray]


@dataclass(frozen=True)
class Source:
    """A file whose head has been looked at.

    Attributes:
        path: as given by the user, for messages.
        kind: "csv", "jsonl", "parquet", or "json" (one document over several lines).
        head_columns: names in the header, or the keys of a JSONL file's first object.
        text: the first MiB, decoded; "" for Parquet.
        metadata: Parquet's key-value metadata.
    """

    path: str
    kind: str
    head_columns: tuple[str, ...]
    text: str
    metadata: Mapping[bytes, bytes]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns; those of a JSONL file are the keys of all its objects."""
        return tuple(self._jsonl.column_names) if self.kind == "jsonl" else self.head_columns

    @cached_property
    def _jsonl(self) -> pa.Table:
        return read_jsonl(self.path)

    def read(self, converters: Mapping[str, Converter]) -> dict[str, np.ndarray]:
        """Read the columns named, each with its converter.

        Returns:
            Arrays of shape (rows,) by column name.

        Raises:
            InputError: a column is missing or there twice, there are no rows, a row has too many or
                too few cells, or a converter rejects a value.
        """
        self._require(converters)
        parts: dict[str, list[np.ndarray]] = {name: [] for name in converters}
        rows = 0
        try:
            for batch in self._batches(list(converters)):
                for name, convert in converters.items():
                    column = batch.column(name)
                    if pa.types.is_dictionary(column.type):
                        column = column.dictionary_decode()
                    parts[name].append(convert(column, Cells(self.path, name, rows)))
                rows += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"cannot be read as {self.kind}: {error}", source=self.path) from None
        if rows == 0:
            raise InputError("there are column names but no rows", source=self.path)
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}

    def _require(self, names: Iterable[str]) -> None:
        if self.kind == "json":
            raise InputError("one JSON document is not a table of requests", source=self.path)
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
            yield from _csv_batches(self, names)
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
    """Look at the head of a file.

    Raises:
        InputError: the file is missing, cannot be opened, or is empty.
    """
    try:
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
        keys = _object_keys(first_line)
        return Source(path, "json" if keys is None else "jsonl", keys or (), text, {})
    names = next(csv.reader([first_line]))
    return Source(path, "csv", tuple(name.strip() for name in names), text, {})


def _inspect_parquet(path: str) -> Source:
    try:
        schema = pa_parquet.read_schema(path)
    except pa.ArrowException as error:
        raise InputError(f"is not a complete Parquet file: {error}", source=path) from None
    return Source(path, "parquet", tuple(schema.names), "", schema.metadata or {})


def _first_line(text: str) -> tuple[int, str]:
    """Return the first line that is not blank, its end included, and its number from 1."""
    lines = enumerate(io.StringIO(text, newline=None), 1)
    return next(((number, line) for number, line in lines if line.strip()), (0, ""))


def _object_keys(line: str) -> tuple[str, ...] | None:
    """Return the keys of a JSON object that fills the line; None if it is no such thing."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return tuple(record) if isinstance(record, dict) else None


def _csv_batches(source: Source, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns as text, to be converted with the row at hand if something is wrong."""
    header_lines, header = _first_line(source.text)
    if not header.endswith("\n"):
        return  # nothing follows
    ragged: list[pa_csv.InvalidRow] = []

    def stop_at(row: pa_csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    try:
        yield from pa_csv.open_csv(
            source.path,
            # One thread, because only then does pyarrow know the number of an invalid row.
            read_options=pa_csv.ReadOptions(
                use_threads=False,
                block_size=_CSV_BLOCK_BYTES,
                column_names=source.head_columns,
                skip_rows=header_lines,
            ),
            parse_options=pa_csv.ParseOptions(invalid_row_handler=stop_at),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        if not ragged:
            raise
        row = ragged[0]
        raise InputError(
            f"has {row.actual_columns} cells where the header has {row.expected_columns}",
            source=source.path,
            row=row.number - header_lines - 1,  # pyarrow counts from 1, what is skipped included
            value=row.text,
        ) from None
