"""Ids of prompt blocks that requests may share (`hash_ids`), out of files into rows of numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sweeps.workloads.convert import Cells
from vecsched.ragged import Ragged

_NOT_IDS = "is not a list of whole numbers"


def id_lists(array: pa.Array, cells: Cells) -> Ragged:
    """Convert lists of ids; no list is an empty one.

    Ids are whole numbers of up to 64 bits, signed or not. Those from 2^63 up, which are hashes,
    become the negative number of the same bits: still one for each.
    """
    if pa.types.is_null(array.type):
        return Ragged.empty(len(array))
    if not _is_list(array.type) or not _holds_ids(array.type.value_type):
        values = array.to_pylist()
        row = next(row for row, ids in enumerate(values) if not _are_whole(ids))
        raise cells.error(_NOT_IDS, row, values[row])
    lengths = array.value_lengths().fill_null(0).to_numpy()
    ids = array.flatten()
    if ids.null_count:
        gap = np.argmax(ids.is_null().to_numpy(zero_copy_only=False))
        row = int(np.searchsorted(np.cumsum(lengths), gap, side="right"))
        raise cells.error("has a gap: an id is missing", row, array[row].as_py())
    kind = pa.uint64() if pa.types.is_uint64(ids.type) else pa.int64()
    # A copy, or the batch would stay in memory as long as the ids do.
    return Ragged.of_lengths(ids.cast(kind).to_numpy().view(np.int64).copy(), lengths)


def listed_ids(values: Sequence[Any], cells: Cells) -> Ragged:
    """Convert lists out of a JSON document, as `id_lists` does; None is an empty one."""
    rows = [[] if ids is None else ids for ids in values]
    for row, ids in enumerate(rows):
        if not isinstance(ids, list) or not all(map(_is_id, ids)):
            raise cells.error(_NOT_IDS, row, ids)
    flat = [value - 2**64 if value >= 2**63 else value for ids in rows for value in ids]
    return Ragged.of_lengths(np.array(flat, np.int64), np.array([*map(len, rows)], np.int64))


def concatenate(parts: Sequence[Any]) -> Any:
    """Join columns end to end: arrays, or rows of ids."""
    return Ragged.joined(parts) if isinstance(parts[0], Ragged) else np.concatenate(parts)


def apart(ids: Ragged, group: np.ndarray) -> Ragged:
    """Renumber ids from 0 up, so that rows of different groups have none in common.

    Args:
        ids: n rows.
        group: int64 (n,), >= 0.
    """
    known, place = np.unique(ids.values, return_inverse=True)
    pair = np.repeat(group, ids.lengths) * len(known) + place
    return Ragged(np.unique(pair, return_inverse=True)[1].astype(np.int64), ids.begin)


def to_arrow(ids: Ragged) -> pa.Array:
    """Return a column of lists of int64."""
    return pa.ListArray.from_arrays(pa.array(ids.begin, pa.int32()), pa.array(ids.values))


def _is_id(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**64


def _are_whole(ids: object) -> bool:
    """Tell whether ids are whole, though pyarrow reads all as fractions if one of them is."""
    whole = isinstance(ids, list) and all(
        isinstance(each, int | float) and float(each).is_integer() for each in ids
    )
    return whole or ids is None


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _holds_ids(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_null(kind)
