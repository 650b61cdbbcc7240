"""Rows of different lengths in two flat arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np

from vecsched._numbers import is_whole_number
from vecsched.errors import InputError


@dataclass(frozen=True, eq=False)
class Ragged:
    """n rows of whole numbers.

    Attributes:
        values: int64, all rows one after another.
        begin: int64 (n + 1,), where each row begins in `values`; the last entry is where all end.
    """

    values: np.ndarray
    begin: np.ndarray

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]], name: str) -> Self:
        """Lay out rows; `name` is the field that errors speak of.

        Raises:
            InputError: a row is no sequence of whole numbers.
        """
        found = list(rows)
        for row, values in enumerate(found):
            if not _is_list_of_int64(values):
                problem = "must be a list of whole numbers of 64 bits"
                raise InputError(problem, source="Trace", row=row, field=name, value=values)
        lengths = np.array([len(values) for values in found], np.int64)
        flat = np.fromiter(chain.from_iterable(found), np.int64, int(lengths.sum()))
        return cls(flat, np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self.begin) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.begin[row] : self.begin[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """How many numbers each row has: int64 (n,)."""
        return np.diff(self.begin)

    def take(self, rows: np.ndarray) -> "Ragged":
        """Return the rows chosen, in that order."""
        lengths = self.lengths[rows]
        begin = np.concatenate([[0], np.cumsum(lengths)])
        source = np.repeat(self.begin[:-1][rows] - begin[:-1], lengths) + np.arange(begin[-1])
        return Ragged(self.values[source], begin)


def _is_list_of_int64(values: Any) -> bool:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        return False
    return all(is_whole_number(value) and -(2**63) <= value < 2**63 for value in values)
