"""What prompts have in common, as numbers for their KV blocks.

A block's *key* stands for its tokens and all before them, as vLLM's chained block hashes do: two
blocks have the same key exactly if two requests begin alike up to their ends.
"""

import numpy as np

from vecsched.columns import once_per_trace
from vecsched.errors import InputError
from vecsched.ragged import Ragged
from vecsched.trace import Trace

_MOST_BLOCKS = 2**31 - 1


def has_common_prefixes(trace: Trace) -> bool:
    """Tell whether any two requests of a trace begin alike."""
    if trace.prefix_ids is None:
        return False
    nodes, count = _nodes(trace)
    return count < len(nodes.values)


def block_keys(
    trace: Trace, prompt: np.ndarray, output: np.ndarray, block_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Number the blocks of all requests.

    Args:
        trace: the requests.
        prompt: int64 (n,), tokens, in arrival order.
        output: int64 (n,), tokens as cut to the model's length, in arrival order.
        block_size: tokens of a block.

    Returns:
        (keys, begin): int32, the keys of each request's blocks, one request after another in
        arrival order; int64 (n + 1,), where each begins.

    Raises:
        InputError: there are too many blocks to number.
    """
    # The last token's KV is never computed, and a prompt alone has no more blocks than this.
    blocks = -(-np.maximum(prompt + output - 1, prompt) // block_size)
    begin = np.concatenate([[0], np.cumsum(blocks)])
    total = int(begin[-1])
    if total > _MOST_BLOCKS:
        raise InputError(
            f"{total} KV blocks of {block_size} tokens are too many to keep apart; "
            "set enable_prefix_caching to false",
            field="block_size",
        )
    if trace.prefix_ids is None:
        return np.arange(total, dtype=np.int32), begin
    nodes, count = _nodes(trace)
    shared, node, part, parts = _shared_blocks(trace, nodes, prompt, block_size)
    if count * parts + total > _MOST_BLOCKS:
        raise InputError("too many different prefixes to keep apart", field="prefix_ids")
    # What is a request's own is numbered behind all that can be shared.
    keys = np.arange(total, dtype=np.int64) + count * parts
    lengths = np.minimum(shared, blocks)
    place = np.repeat(begin[:-1], lengths) + _within(lengths)
    keys[place] = node * parts + part
    return _dense(keys), begin


def _shared_blocks(
    trace: Trace, nodes: Ragged, prompt: np.ndarray, block_size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """(shareable blocks of each request; node and part of each of them; parts of a node at most).

    A block is shareable if it lies in the prompt and under the ids. Its node is that of the id that
    its last token belongs to, its part the block's place among those that end under that id.
    """
    tokens = trace.prefix_block_tokens
    covered = np.minimum(nodes.lengths * tokens, prompt)
    shared = covered // block_size
    block = _within(shared)
    last_id = ((block + 1) * block_size - 1) // tokens
    first_block = -(-(last_id * tokens + 1) // block_size) - 1
    node = nodes.values[np.repeat(nodes.begin[:-1], shared) + last_id]
    return shared, node, block - first_block, -(-tokens // block_size)


def _nodes(trace: Trace) -> tuple[Ragged, int]:
    """Number the nodes of the tree of prefixes: (node of each id, in arrival order; how many)."""
    return once_per_trace(trace, "prefix_nodes", lambda: _number_nodes(trace))


def _number_nodes(trace: Trace) -> tuple[Ragged, int]:
    assert trace.prefix_ids is not None
    ids = trace.prefix_ids.take(trace.order)
    code = np.unique(ids.values, return_inverse=True)[1].astype(np.int64)
    lengths = ids.lengths
    nodes = np.empty(len(code), np.int64)
    codes, count = int(code.max(initial=-1)) + 1, 0
    rows = np.flatnonzero(lengths > 0)
    parent = np.zeros(len(rows), np.int64)
    # All requests level by level: an id behind the same node is the same node.
    for level in range(int(lengths.max(initial=0))):
        still = lengths[rows] > level
        rows, parent = rows[still], parent[still]
        place = ids.begin[:-1][rows] + level
        found, inverse = np.unique(parent * codes + code[place], return_inverse=True)
        parent = count + inverse
        nodes[place] = parent
        count += len(found)
    return Ragged(nodes, ids.begin), count


def _within(lengths: np.ndarray) -> np.ndarray:
    """Return 0..length-1 for each length, one after another."""
    begin = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(begin, lengths)


def _dense(keys: np.ndarray) -> np.ndarray:
    """Renumber keys without gaps, in int32."""
    used = np.zeros(int(keys.max(initial=-1)) + 1, bool)
    used[keys] = True
    return (np.cumsum(used) - 1)[keys].astype(np.int32)
