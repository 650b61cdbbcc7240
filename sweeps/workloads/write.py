"""Write a trace: our Parquet format, or plain CSV or JSON lines."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from sweeps.files import atomic_file, reporting
from sweeps.workloads.build import CONVERTERS
from sweeps.workloads.formats.native import BLOCK_KEY, SCHEMA_KEY, SCHEMA_VERSION
from sweeps.workloads.prefix import to_arrow
from vecsched import Trace
from vecsched.errors import InputError
from vecsched.ragged import Ragged

_JSON_ROWS = 65_536


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace so that `read_trace` gives it back, equal to the bit.

    A column that the trace does not have is not written, nor are ids that are just row numbers.
    Instants that do not exist are blank. CSV and JSONL have no place for metadata: read back, a
    trace that does not begin at 0 is shifted so that it does, and CSV labels come back as text. Of
    prefix ids JSONL does not say how many tokens they stand for, and CSV has no lists.

    Args:
        trace: what to write.
        path: ends in .parquet, .csv or .jsonl. The file appears only when it is complete.

    Raises:
        InputError: another suffix, labels of mixed types, or prefix ids in CSV.
        StoreError: the file cannot be written.
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix)
    if writer is None:
        raise InputError(
            f"cannot tell the format by the suffix; known: {', '.join(_WRITERS)}",
            source=path,
            field="suffix",
            value=path.suffix,
        )
    if path.suffix == ".csv" and trace.prefix_ids is not None:
        raise InputError(
            "CSV has no place for lists of prefix ids: write .parquet or .jsonl",
            source=path,
            field="prefix_ids",
        )
    table = _to_table(trace)
    with atomic_file(path) as file, reporting(path):
        writer(table, file)


def as_records(trace: Trace, count: int) -> list[dict[str, Any]]:
    """Return the first rows as `write_trace` writes them; None for an instant that does not exist.

    Raises:
        InputError: labels are of mixed types.
    """
    return _to_table(trace).slice(0, count).to_pylist()


def _to_table(trace: Trace) -> pa.Table:
    values = {name: getattr(trace, name) for name in CONVERTERS}
    if trace.id.tolist() == list(range(len(trace))):
        values["id"] = None
    arrays = {name: _to_arrow(name, x) for name, x in values.items() if x is not None}
    metadata = {SCHEMA_KEY: str(SCHEMA_VERSION).encode()}
    if trace.prefix_ids is not None:
        metadata[BLOCK_KEY] = str(trace.prefix_block_tokens).encode()
    return pa.table(arrays, metadata=metadata)


def _to_arrow(name: str, column: Any) -> pa.Array:
    if isinstance(column, Ragged):
        return to_arrow(column)
    try:
        return pa.array(column, from_pandas=True)  # NaN becomes null
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"labels must all be text or all be numbers: {error}", source="Trace", field=name
        ) from None


def _write_parquet(table: pa.Table, file: BinaryIO) -> None:
    pa_parquet.write_table(table, file)


def _write_csv(table: pa.Table, file: BinaryIO) -> None:
    file.write(",".join(table.column_names).encode() + b"\n")  # pyarrow would quote the names
    pa_csv.write_csv(table, file, pa_csv.WriteOptions(include_header=False))


def _write_jsonl(table: pa.Table, file: BinaryIO) -> None:
    for batch in table.to_batches(_JSON_ROWS):
        file.writelines(f"{json.dumps(row)}\n".encode() for row in batch.to_pylist())


_WRITERS: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
}
