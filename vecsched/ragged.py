"""Rows of different lengths in two flat arrays, such as the prefix ids of a trace."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self, overload

import numpy as np

from vecsched._numbers import MAX_TOKENS, is_whole_number
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
        return cls.of_lengths(flat, lengths)

    @classmethod
    def of_lengths(cls, values: np.ndarray, lengths: np.ndarray) -> Self:
        """Cut `values`, int64, into rows of these lengths."""
        return cls(values, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))

    @classmethod
    def empty(cls, rows: int) -> Self:
        """Return rows with nothing in them."""
        return cls(np.empty(0, np.int64), np.zeros(rows + 1, np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one part after another."""
        values = np.concatenate([part.values for part in parts])
        return cls.of_lengths(values, np.concatenate([part.lengths for part in parts]))

    def __len__(self) -> int:
        return len(self.begin) - 1

    @overload
    def __getitem__(self, row: int | np.integer) -> np.ndarray: ...
    @overload
    def __getitem__(self, row: np.ndarray | slice) -> Self: ...
    def __getitem__(self, row: int | np.integer | np.ndarray | slice) -> Any:
        """Return one row, or the rows chosen as NumPy chooses them, in that order."""
        if isinstance(row, int | np.integer):
            return self.values[self.begin[row] : self.begin[row + 1]]
        chosen = np.arange(len(self))[row]
        lengths = self.lengths[chosen]
        source = np.repeat(self.begin[chosen], lengths) + places_in_rows(lengths)
        return type(self).of_lengths(self.values[source], lengths)

    @property
    def lengths(self) -> np.ndarray:
        """How many numbers each row has: int64 (n,)."""
        return np.diff(self.begin)


def places_in_rows(lengths: np.ndarray) -> np.ndarray:
    """Return 0, 1, ... length - 1 for each length, one row after another: int64."""
    begin = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(begin, lengths)


def prefix_rows(
    given: Ragged | Iterable[Sequence[int]] | None, tokens: int, prompt: np.ndarray
) -> Ragged | None:
    """Return the prefix ids of a trace, checked and read-only.

    Args:
        given: a row of ids for each request, or None.
        tokens: what an id stands for.
        prompt: int64 (n,), the prompts' tokens.

    Raises:
        InputError: `tokens` is out of range, a row is missing, or has more ids than its prompt has
            room for, or something that is no whole number.
    """
    if given is None:
        return None
    if not is_whole_number(tokens) or not 1 <= tokens <= MAX_TOKENS:
        problem = f"must be a whole number from 1 to {MAX_TOKENS}: the tokens of one prefix id"
        raise InputError(problem, source="Trace", field="prefix_block_tokens", value=tokens)
    ids = given if isinstance(given, Ragged) else Ragged.of(given, "prefix_ids")
    if len(ids) != len(prompt):
        problem = f"has {len(ids)} rows, but arrival_s has {len(prompt)}"
        raise InputError(problem, source="Trace", field="prefix_ids")
    too_many = ids.lengths > -(-prompt // int(tokens))
    if too_many.any():
        row = int(np.argmax(too_many))
        problem = f"more ids of {tokens} tokens than a prompt of {prompt[row]} tokens has room for"
        raise InputError(problem, source="Trace", row=row, field="prefix_ids", value=len(ids[row]))
    ids.values.flags.writeable = False
    ids.begin.flags.writeable = False
    return ids


def _is_list_of_int64(values: Any) -> bool:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        return False
    return all(is_whole_number(value) and -(2**63) <= value < 2**63 for value in values)
