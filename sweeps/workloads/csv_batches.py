"""CSV to batches of text columns, one block of the file after another."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv as pa_csv

from vecsched.errors import InputError

# pyarrow reads ahead by 32 of them.
_BLOCK_BYTES = 1 << 20


class Header(NamedTuple):
    """What is known of a CSV file before it is read: its path, column names, and head's length."""

    path: str
    names: Sequence[str]
    lines: int


def csv_batches(header: Header, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns as text, to be converted with the row at hand if something is wrong.

    Raises:
        InputError: a row has too many or too few cells.
        ArrowException, OSError: the file cannot be read.
    """
    ragged: list[pa_csv.InvalidRow] = []

    def stop_at(row: pa_csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    try:
        yield from pa_csv.open_csv(
            header.path,
            # One thread, because only then does pyarrow know the number of an invalid row.
            read_options=pa_csv.ReadOptions(
                use_threads=False,
                block_size=_BLOCK_BYTES,
                column_names=header.names,
                skip_rows=header.lines,
            ),
            parse_options=pa_csv.ParseOptions(invalid_row_handler=stop_at),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=columns,
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
            source=header.path,
            row=row.number - header.lines - 1,  # pyarrow counts from 1, what is skipped included
            value=row.text,
        ) from None
