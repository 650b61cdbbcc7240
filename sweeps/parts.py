"""Rows that are on disk, in Parquet files of any number and order, found by their keys."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sweeps.errors import StoreError


class _Group(NamedTuple):
    """A row group: what is read at once, whatever the size of its file."""

    path: Path
    number: int


class Parts:
    """Finds rows by key; holds the keys in memory, eight bytes each, and rows only while asked."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        self._keys: list[np.ndarray] = []

    def add(self, path: Path, *, verify: bool = False) -> dict[str, str | None]:
        """Take in a file of rows; return their keys, each with its error, if any.

        Args:
            path: the file.
            verify: read it whole, and compare the checksums that its writer left.

        Raises:
            pa.ArrowException, OSError: it is torn, or no Parquet file.
        """
        columns = None if verify else ["key", "error"]
        errors: dict[str, str | None] = {}
        keys = []
        with pq.ParquetFile(path, page_checksum_verification=verify) as file:
            for index in range(file.num_row_groups):
                table = file.read_row_group(index, columns)
                keys.append(table["key"].to_pylist())
                errors |= zip(keys[-1], table["error"].to_pylist(), strict=True)
        self._groups += [_Group(path, index) for index in range(len(keys))]
        self._keys += map(_numbers, keys)
        return errors

    def finder(self) -> "Finder":
        """Return what finds the rows taken in so far."""
        return Finder(self._groups, self._keys)


class Finder:
    """Finds rows by key among a fixed set of row groups."""

    def __init__(self, groups: Sequence[_Group], keys: Sequence[np.ndarray]) -> None:
        self._groups = groups
        self._starts = np.cumsum([0, *map(len, keys)])
        numbers = np.concatenate(keys)
        self._order = np.argsort(numbers, kind="stable")  # of equal keys the first row counts
        self._sorted = numbers[self._order]
        self._held: dict[int, pa.Table] = {}

    def take(self, keys: Sequence[str], schema: pa.Schema) -> pa.Table:
        """Return the rows of these keys, in their order; columns a file lacks are null.

        Raises:
            StoreError: a file cannot be read any more.
        """
        rows = self._rows(keys)
        groups = np.searchsorted(self._starts, rows, side="right") - 1
        wanted, group_of_row = np.unique(groups, return_inverse=True)
        # The groups of the last call stay at hand: neighbours in the sweep are neighbours on disk.
        self._held = {
            n: self._held[n] if n in self._held else self._read(n, schema) for n in wanted.tolist()
        }
        together = pa.concat_tables(self._held.values())
        offsets = np.cumsum([0, *(len(table) for table in self._held.values())])
        return together.take(offsets[group_of_row] + rows - self._starts[groups])

    def _rows(self, keys: Sequence[str]) -> np.ndarray:
        wanted = _numbers(keys)
        places = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        missing = self._sorted[places] != wanted
        if missing.any():
            raise KeyError(keys[int(np.argmax(missing))])
        return self._order[places]

    def _read(self, number: int, schema: pa.Schema) -> pa.Table:
        path, index = self._groups[number]
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read_row_group(index)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(
                f"{path}: cannot be read: {error}; remove it and resume the sweep: "
                "its points are simulated again"
            ) from error
        columns = [
            table[field.name].cast(field.type)
            if field.name in table.schema.names
            else pa.nulls(len(table), field.type)
            for field in schema
        ]
        return pa.table(columns, schema=schema)


def _numbers(keys: Sequence[str]) -> np.ndarray:
    """Return keys of 16 hex digits as whole numbers: uint64 (n,)."""
    return np.frombuffer(bytes.fromhex("".join(keys)), ">u8").astype(np.uint64)
