"""What prompts have in common, as numbers for their KV blocks.

A block's *key* stands for its tokens and all before them, as vLLM's chained block hashes do: two
blocks have the same key exactly if two requests begin alike up to their ends.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vecsched.columns import cut_outputs
from vecsched.errors import InputError
from vecsched.kernels.keys import Prompts, fill_block_keys
from vecsched.ragged import Ragged
from vecsched.trace import Trace

_MOST_KEYS = 2**31 - 1


class BlockKeys(NamedTuple):
    """Keys of the blocks of all requests, in the trace's row order.

    Attributes:
        keys: int32, one request's after another's.
        begin: int64 (n,), where each request's begin.
        different: keys there are.
    """

    keys: np.ndarray
    begin: np.ndarray
    different: int


def has_common_prefixes(trace: Trace) -> bool:
    """Tell whether any two requests of a trace begin alike."""
    if trace.prefix_ids is None:
        return False
    nodes, count = _nodes(trace)
    return count < len(nodes.values)


def block_keys(trace: Trace, block_size: int, max_model_len: int | None) -> BlockKeys:
    """Number the blocks of all requests.

    Args:
        trace: the requests.
        block_size: tokens of a block.
        max_model_len: what their outputs are cut to.

    Raises:
        InputError: there are too many blocks to number.
    """
    return _once(
        trace,
        ("block_keys", block_size, max_model_len),
        lambda: _number_blocks(trace, block_size, cut_outputs(trace, max_model_len)),
    )


def _number_blocks(trace: Trace, block_size: int, output: np.ndarray) -> BlockKeys:
    prompt = trace.prompt_tokens
    # The last token's KV is never computed.
    blocks = -(-np.maximum(prompt + output - 1, prompt) // block_size)
    ends = np.cumsum(blocks)
    shared, count, id_tokens = np.zeros_like(blocks), 0, 1
    nodes = Ragged.empty(len(trace))
    if trace.prefix_ids is not None:
        (nodes, count), id_tokens = _nodes(trace), trace.prefix_block_tokens
        # Only full blocks of the prompt can be found by others.
        shared = np.minimum(nodes.lengths * id_tokens, prompt) // block_size
    first_own = count * -(-id_tokens // block_size)
    different = first_own + int((blocks - shared).sum())
    if max(different, int(ends[-1])) > _MOST_KEYS:
        raise InputError(
            f"{ends[-1]} KV blocks of {block_size} tokens are too many to keep apart; set "
            "enable_prefix_caching to false, or block_size to more",
            field="block_size",
            value=block_size,
        )
    keys = np.empty(int(ends[-1]), np.int32)
    prompts = Prompts(ends - blocks, blocks, shared, nodes.values, nodes.begin)
    fill_block_keys(prompts, block_size, id_tokens, first_own, keys)
    return BlockKeys(keys, prompts.begin, different)


def _nodes(trace: Trace) -> tuple[Ragged, int]:
    """Number the nodes of the tree of prefixes: (node of each id, how many)."""
    ids = trace.prefix_ids
    assert ids is not None
    return _once(trace, "prefix_nodes", lambda: _number_nodes(ids))


def _number_nodes(ids: Ragged) -> tuple[Ragged, int]:
    code = np.unique(ids.values, return_inverse=True)[1].astype(np.int64)
    nodes = np.empty(len(code), np.int64)
    codes, count = int(code.max(initial=-1)) + 1, 0
    rows = np.flatnonzero(ids.lengths > 0)
    parent = np.zeros(len(rows), np.int64)
    # All requests level by level: an id behind the same node is the same node.
    for level in range(int(ids.lengths.max())):
        still = ids.lengths[rows] > level
        rows, parent = rows[still], parent[still]
        place = ids.begin[:-1][rows] + level
        found, inverse = np.unique(parent * codes + code[place], return_inverse=True)
        parent = count + inverse
        nodes[place] = parent
        count += len(found)
    return Ragged(nodes, ids.begin.copy()), count


def _once(trace: Trace, key: Any, compute: Callable[[], Any]) -> Any:
    """Return what `compute` returned for this trace first, or for one scaled to another load."""
    if key not in trace.timeless_memo:
        trace.timeless_memo[key] = compute()
    return trace.timeless_memo[key]
