"""JSON lines to a pyarrow table; if that fails, find the line to blame."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json

from vecsched.errors import InputError

# A line may be no longer: prompts of a million tokens with their ids fit.
_BLOCK_BYTES = 1 << 25


def read_jsonl(path: str) -> pa.Table:
    """Read a file with one JSON object a line; blank lines are skipped, absent keys are null.

    Raises:
        InputError: a line is no JSON object, names a key twice, or a key's values are of different
            types.
    """
    try:
        table = _read(path, {})
        exact = {field.name: _exact_type(field.type) for field in table.schema}
        exact = {name: kind for name, kind in exact.items() if kind is not None}
        return _read_exactly(path, exact) if exact else table
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, pa.ArrowInvalid):
            _blame_line(path)
        raise InputError(f"cannot be read as JSON lines: {error}", source=path) from None


def _exact_type(kind: pa.DataType) -> pa.DataType | None:
    """Return what to read instead, where pyarrow's guess loses digits; None: nothing is lost."""
    if pa.types.is_timestamp(kind):  # text that looks like a time
        return pa.string()
    if kind == pa.list_(pa.float64()):  # perhaps ids from 2^63 up
        return pa.list_(pa.uint64())
    return None


def _read_exactly(path: str, types: dict[str, pa.DataType]) -> pa.Table:
    try:
        return _read(path, types)
    except pa.ArrowInvalid:  # the lists are of fractions after all
        return _read(path, {name: kind for name, kind in types.items() if kind == pa.string()})


def _read(path: str, types: dict[str, pa.DataType]) -> pa.Table:
    """Read with the types given and all others inferred."""
    return pa_json.read_json(
        pa.input_stream(path),
        read_options=pa_json.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pa_json.ParseOptions(explicit_schema=pa.schema(types)),
    )


def _blame_line(path: str) -> None:
    """Read line by line, slowly, and raise about the first that pyarrow could not take."""
    first_types: dict[str, str] = {}
    for row, line in enumerate(_lines(path)):
        try:
            record = json.loads(line, object_pairs_hook=_unique_keys)
        except ValueError as error:
            raise InputError(
                f"is not JSON: {error}", source=path, row=row, value=line[:80].rstrip()
            ) from None
        if not isinstance(record, dict):
            raise InputError("is not a JSON object", source=path, row=row, value=record)
        for key, value in record.items():
            kind = _json_type(value)
            if kind is not None and first_types.setdefault(key, kind) != kind:
                raise InputError(
                    f"is a {kind}, but the rows above have a {first_types[key]}",
                    source=path,
                    row=row,
                    field=key,
                    value=value,
                )


def _lines(path: str) -> Iterator[str]:
    with io.TextIOWrapper(pa.input_stream(path), "utf-8-sig", errors="replace") as text:
        yield from (line for line in text if line.strip())


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return record


def _json_type(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "list" if isinstance(value, list) else "object"
