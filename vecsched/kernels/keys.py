"""Numbers for KV blocks: the same for two blocks if they hold the same tokens behind the same."""

from typing import NamedTuple

import numpy as np

from vecsched._jit import entry_point


class Prompts(NamedTuple):
    """What is known of the requests' blocks, in the trace's row order.

    Attributes:
        begin: int64 (n,), where the keys of each request begin.
        blocks: int64 (n,), its blocks.
        shared: int64 (n,), how many of them, from the first on, lie under prefix ids.
        nodes: int64, the node of each prefix id in the tree of prefixes.
        node_begin: int64 (n + 1,), where those of each request begin.
    """

    begin: np.ndarray
    blocks: np.ndarray
    shared: np.ndarray
    nodes: np.ndarray
    node_begin: np.ndarray


@entry_point
def fill_block_keys(prompts, block_size, id_tokens, own, keys):
    """Number the blocks of all requests.

    A block's last token lies under some prefix id, and the node of that stands for all before it.
    Several blocks may end under one id: they are told apart by their place among those.

    Args:
        prompts: the requests.
        block_size: tokens of a block.
        id_tokens: tokens of a prefix id.
        own: the first number for blocks that a request shares with nobody.
        keys: int32, filled.
    """
    parts = (id_tokens + block_size - 1) // block_size
    for row in range(len(prompts.begin)):
        place = prompts.begin[row]
        for block in range(prompts.shared[row]):
            last_id = ((block + 1) * block_size - 1) // id_tokens
            first = (last_id * id_tokens + block_size) // block_size - 1
            node = prompts.nodes[prompts.node_begin[row] + last_id]
            keys[place + block] = node * parts + block - first
        for block in range(prompts.shared[row], prompts.blocks[row]):
            keys[place + block] = own
            own += 1
