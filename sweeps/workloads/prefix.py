"""Ids of prompt blocks that requests share (`hash_ids`): checked, and not kept.

A `Trace` has no column for them yet. Every reader whose format has ids sends them through here, so
that keeping them will be one change: return the ids instead of their number.
"""

import numpy as np
import pyarrow as pa

from sweeps.workloads.convert import Cells
from sweeps.workloads.source import Source

_NOT_IDS = "is not a list of whole numbers"


def id_counts(array: pa.Array, cells: Cells) -> np.ndarray:
    """Convert lists of ids to their lengths, int64; no list is an empty one.

    Ids are whole numbers of up to 64 bits, signed or not.
    """
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    if not _is_list(array.type) or not _holds_ids(array.type.value_type):
        values = array.to_pylist()
        row = next(row for row, ids in enumerate(values) if not _are_whole(ids))
        raise cells.error(_NOT_IDS, row, values[row])
    lengths = array.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    gaps = array.flatten().is_null().to_numpy(zero_copy_only=False)
    if gaps.any():
        row = int(np.searchsorted(np.cumsum(lengths), np.argmax(gaps), side="right"))
        raise cells.error("has a gap: an id is missing", row, array[row].as_py())
    return lengths


def check_blocks(source: Source, field: str, prompt_tokens: np.ndarray, block_size: int) -> None:
    """Check a column of ids, if the file has it: no more of them than the prompt has blocks.

    Fewer are in order: some formats leave out the last block if it is not full.

    Args:
        source: the file.
        field: the column's name in it.
        prompt_tokens: shape (rows,).
        block_size: tokens an id stands for.

    Raises:
        InputError: naming the row.
    """
    if field in source.columns:
        counts = source.read({field: id_counts})[field]
        check_counts(Cells(source.path, field, 0), counts, prompt_tokens, block_size)


def check_counts(
    cells: Cells, counts: np.ndarray, prompt_tokens: np.ndarray, block_size: int
) -> None:
    """Raise about the first row with more ids than the prompt has blocks."""
    excess = counts * block_size >= prompt_tokens + block_size  # counts > ceil(prompt / block)
    if excess.any():
        row = int(np.argmax(excess))
        raise cells.error(
            f"are more ids than {prompt_tokens[row]:g} tokens have blocks of {block_size}",
            row,
            int(counts[row]),
        )


def count_ids(ids: object, cells: Cells, row: int) -> int:
    """Return how many ids a list from a JSON document has; None has none."""
    if ids is None:
        return 0
    if not isinstance(ids, list) or any(type(each) is not int for each in ids):
        raise cells.error(_NOT_IDS, row, ids)
    return len(ids)


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
