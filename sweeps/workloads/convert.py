"""One batch of one column to a NumPy array, exactly, or an error that names the cell."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vecsched.errors import InputError

NS_PER_S = 1_000_000_000

_NOT_A_NUMBER = "is not a number"
_NOT_A_TIME = "is not a time such as 2023-11-16 18:17:03.9799600"
# A time of day with a UTC offset behind it.
_ZONE = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$"


class Cells(NamedTuple):
    """Where a batch of values stands: the file, the column, and the data row of its first value."""

    source: str
    field: str
    first_row: int

    def error(self, problem: str, row: int, value: object) -> InputError:
        """Return a complaint about the batch's value number `row`."""
        return InputError(
            problem, source=self.source, row=self.first_row + row, field=self.field, value=value
        )

    def missing(self, wanted: str, row: int) -> InputError:
        """Return a complaint about the absence of the batch's value number `row`."""
        return InputError(
            f"is missing: every row needs {wanted}",
            source=self.source,
            row=self.first_row + row,
            field=self.field,
        )


def numbers(array: pa.Array, cells: Cells) -> np.ndarray:
    """Convert numbers, or text that holds numbers; a blank is NaN.

    Returns:
        int64 if every value is a whole number written as such, else float64, the nearest to the
        decimal in the file.
    """
    return _numbers(_clean(array), cells)


def required_numbers(array: pa.Array, cells: Cells) -> np.ndarray:
    """Convert as `numbers` does, where a blank is an error."""
    return _numbers(_filled(_clean(array), cells, "a number"), cells)


def listed_numbers(values: Sequence[Any], cells: Cells) -> np.ndarray:
    """Convert numbers out of a JSON document: int64 if all are whole, else float64.

    No number may be missing.
    """
    for row, value in enumerate(values):
        if value is None:
            raise cells.missing("a number", row)
        if type(value) not in (int, float):
            raise cells.error(_NOT_A_NUMBER, row, value)
    column = np.array(values)
    return column if column.dtype.kind in "if" else np.array(values, np.float64)


def labels(array: pa.Array, cells: Cells) -> np.ndarray:
    """Convert names or numbers to an object array; a blank is None. CSV labels are always text."""
    if pa.types.is_nested(array.type):
        raise cells.error("is not a name or a number", *_first(array))
    column = np.empty(len(array), object)
    column[:] = array.to_pylist()
    return column


def nanoseconds(array: pa.Array, cells: Cells) -> np.ndarray:
    """Convert ISO 8601 times, up to 9 digits of a second, to int64 nanoseconds since 1970.

    A time without a UTC offset is taken as UTC. A blank is an error.
    """
    return _nanoseconds(_filled(_clean(array), cells, "a time"), cells)


def optional_nanoseconds(array: pa.Array, cells: Cells) -> np.ndarray:
    """Convert as `nanoseconds` does, with NaN for a blank; float64 then, good to a microsecond."""
    return _nanoseconds(_clean(array), cells)


def _nanoseconds(array: pa.Array, cells: Cells) -> np.ndarray:
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if not (_is_text(array) or pa.types.is_timestamp(array.type)):
        raise cells.error(_NOT_A_TIME, *_first(array))
    zoned = array
    if _is_text(array):
        has_zone = pc.match_substring_regex(array, _ZONE)
        zoned = pc.if_else(has_zone, array, pc.binary_join_element_wise(array, "Z", ""))
    try:
        instants = zoned.cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid:
        row = _first_failure(zoned, pa.timestamp("ns", "UTC"))
        raise cells.error(_NOT_A_TIME, row, array[row].as_py()) from None
    return instants.cast(pa.int64()).to_numpy(zero_copy_only=False)


def _clean(array: pa.Array) -> pa.Array:
    """Strip white space from text, and make blanks null."""
    if not _is_text(array):
        return array
    text = pc.utf8_trim_whitespace(array)
    return pc.if_else(pc.equal(text, ""), None, text)


def _is_text(array: pa.Array) -> bool:
    return pa.types.is_string(array.type) or pa.types.is_large_string(array.type)


def _filled(array: pa.Array, cells: Cells, wanted: str) -> pa.Array:
    if array.null_count:
        raise cells.missing(wanted, array.is_null().index(True).as_py())
    return array


def _first(array: pa.Array) -> tuple[int, object]:
    """Return row and value of the first entry that is not null, or of the first."""
    row = max(array.is_valid().index(True).as_py(), 0)
    return row, array[row].as_py() if len(array) else None


def _numbers(array: pa.Array, cells: Cells) -> np.ndarray:
    kind = array.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (numeric or _is_text(array) or pa.types.is_null(kind)):
        raise cells.error(_NOT_A_NUMBER, *_first(array))
    if pa.types.is_integer(kind) and not array.null_count:
        return _cast(array, pa.int64(), cells, "is too large").to_numpy()
    # Floats first: to an integer, pyarrow would also convert "0x10".
    floats = _cast(array, pa.float64(), cells, _NOT_A_NUMBER)
    if _is_text(array) and not array.null_count:
        try:
            return array.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            pass  # not all of them whole numbers
    return floats.to_numpy(zero_copy_only=False)


def _cast(array: pa.Array, to: pa.DataType, cells: Cells, problem: str) -> pa.Array:
    try:
        return array.cast(to)
    except pa.ArrowInvalid:
        row = _first_failure(array, to)
        raise cells.error(problem, row, array[row].as_py()) from None


def _first_failure(array: pa.Array, to: pa.DataType) -> int:
    """Return the row of the first value that cannot be cast, by bisection: one is there."""

    def fails(last: int) -> bool:
        try:
            array[: last + 1].cast(to)
        except pa.ArrowInvalid:
            return True
        return False

    return bisect_left(range(len(array)), True, key=fails)
