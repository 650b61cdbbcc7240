"""How much of their prompts requests have in common, as their prefix ids tell."""

import numpy as np

from vecsched import Trace


def shared_blocks(trace: Trace) -> np.ndarray:
    """Return how many leading blocks of each prompt an earlier request began with, int64 (n,).

    That is what a prefix cache would find that never forgets and learns a prompt at its arrival;
    requests of one instant are in the order of their rows. All are 0 in a trace without ids.

    Prompts are followed block by block as in a tree: two are at the same place if they have been at
    the same one before, and go on with the same id.
    """
    found = np.zeros(len(trace), np.int64)
    ids = trace.prefix_ids
    if ids is None:
        return found
    known, dense = np.unique(ids.values, return_inverse=True)
    place = np.zeros(len(trace), np.int64)
    rows = trace.order
    depth = 0
    while len(rows := rows[ids.lengths[rows] > depth]):
        step = place[rows] * len(known) + dense[ids.begin[rows] + depth]
        _, first, at = np.unique(step, return_index=True, return_inverse=True)
        found[rows[first[at] != np.arange(len(rows))]] += 1
        place[rows] = at
        depth += 1
    return found


def describe_sharing(trace: Trace) -> dict[str, float | int]:
    """Return what a prefix cache that never forgets would find; nothing for a trace without ids.

    Returns:
        `prefix_block_tokens`; `prefix_blocks`, ids in all; `prefix_blocks_distinct`, those no
        earlier request began with; `prefix_hit_rate_blocks`, the share of the others; and
        `prefix_hit_rate`, their share of all prompt tokens. Both are NaN where there is nothing to
        share.
    """
    if trace.prefix_ids is None:
        return {}
    size = trace.prefix_block_tokens
    hits = shared_blocks(trace)
    blocks, found = int(trace.prefix_ids.begin[-1]), int(hits.sum())
    tokens = int(trace.prompt_tokens.sum())
    # The last block of a prompt may not be full.
    cached = int(np.minimum(hits * size, trace.prompt_tokens).sum())
    return {
        "prefix_block_tokens": size,
        "prefix_blocks": blocks,
        "prefix_blocks_distinct": blocks - found,
        "prefix_hit_rate_blocks": found / blocks if blocks else np.nan,
        "prefix_hit_rate": cached / tokens if tokens else np.nan,
    }
