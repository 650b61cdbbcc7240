"""KV blocks: `Counted`, where only their number matters, and `BlockPool`, which knows each of them.

The pool is vLLM's with prefix caching, the obvious way: a list of block numbers for the free queue,
and for a block's hash the tuple of all tokens up to its end, so that two blocks hold the same only
if everything before them is the same too. A cached block that nobody holds is a free block like
any other; its contents last until it is taken.
"""

from collections import Counter


def kv_of(config):
    return (BlockPool if config["enable_prefix_caching"] else Counted)(config)


class Counted:
    """Blocks without contents."""

    def __init__(self, config):
        self.capacity = config["kv_blocks"]
        self.held = 0
        self.events = Counter()

    @property
    def free(self):
        """Free blocks; None where the capacity never binds."""
        return None if self.capacity is None else self.capacity - self.held

    def grow(self, request, blocks):
        """Let a request hold so many blocks."""
        self.held += blocks - request.kv_blocks
        request.kv_blocks = blocks

    def give_back(self, request):
        """Let a request hold none."""
        self.grow(request, 0)

    def look_up(self, request):
        """Blocks that hold the first known tokens of a waiting request."""
        return []

    def in_use(self, hits):
        """How many of the blocks are held by others."""
        return 0

    def touch(self, request, hits):
        """Let an admitted request, which holds nothing yet, hold blocks that were looked up."""

    def register(self, request, tokens):
        """Tell what the blocks that so many first tokens fill will hold."""

    def record(self, running):
        """What an iteration's record tells of the blocks."""
        return {}

    def state(self, running):
        """All that decides about the future, besides what requests tell."""
        return ()


class BlockPool(Counted):
    """Numbered blocks with contents, reference counts and a free queue.

    Without a capacity every block taken is a new one, and nothing is ever evicted.
    """

    def __init__(self, config):
        self.capacity = config["kv_blocks"]
        self.block_size = config["block_size"]
        self.appends_all = config["vllm_version"] == "0.19"
        self.last_block = self.capacity or 0  # the first is 1: block 0 stands for none
        self.free_queue = list(range(1, self.last_block + 1))
        self.references = Counter()
        self.contents = {}  # block: its tokens and all before them; no entry: not registered
        self.carriers = {}  # contents: the blocks that hold them, first registered first
        self.events = Counter()

    @property
    def free(self):
        return None if self.capacity is None else len(self.free_queue)

    @property
    def held(self):
        return sum(count > 0 for count in self.references.values())

    def grow(self, request, blocks):
        while len(request.blocks) < blocks:
            request.blocks.append(self.take())
        request.kv_blocks = len(request.blocks)

    def take(self):
        """The block at the head of the free queue, which loses its contents."""
        if self.capacity is None:
            self.last_block += 1
            block = self.last_block
        else:
            block = self.free_queue.pop(0)
        if block in self.contents:
            self.events["evicted_blocks"] += 1
            contents = self.contents.pop(block)
            self.carriers[contents].remove(block)
        self.references[block] = 1
        return block

    def register(self, request, tokens):
        for index in range(request.registered, tokens // self.block_size):
            contents = self.contents_of(request, index)
            block = request.blocks[index]
            carriers = self.carriers.setdefault(contents, [])
            self.events["duplicate_blocks"] += bool(carriers)
            carriers.append(block)
            self.contents[block] = contents
            request.registered = index + 1

    def contents_of(self, request, index):
        return tuple(request.tokens[: (index + 1) * self.block_size])

    def give_back(self, request):
        """From the last block to the first, so that a chain loses its end before its beginning."""
        for block in reversed(request.blocks):
            self.references[block] -= 1
            if self.references[block] > 0:
                continue
            if block in self.contents or self.appends_all:
                self.free_queue.append(block)
            else:
                self.free_queue.insert(0, block)
        request.blocks, request.registered, request.kv_blocks = [], 0, 0

    def look_up(self, request):
        """Whole blocks from the first on, and never all tokens: one at least is to compute."""
        hits = []
        for index in range((request.known - 1) // self.block_size):
            carriers = self.carriers.get(self.contents_of(request, index))
            if not carriers:
                break
            hits.append(carriers[0])
        return hits

    def in_use(self, hits):
        return sum(self.references[block] > 0 for block in hits)

    def touch(self, request, hits):
        self.count_hits(request, hits)
        request.looked_up_tokens += request.known
        request.cached_tokens += len(hits) * self.block_size
        if request.preemptions > 0:
            request.cached_own_tokens += len(hits) * self.block_size
        for block in hits:
            if self.references[block] == 0:
                self.free_queue.remove(block)
            self.references[block] += 1
        request.blocks, request.registered, request.kv_blocks = list(hits), len(hits), len(hits)

    def count_hits(self, request, hits):
        """Events, by the names of vLLM's step logs."""
        possible = (request.known - 1) // self.block_size
        is_resumed = request.preemptions > 0
        self.events["hit_in_use"] += self.in_use(hits)
        self.events["hit_freed"] += len(hits) - self.in_use(hits)
        self.events["resumed_with_hit"] += is_resumed and len(hits) > 0
        self.events["resumed_hit_partial"] += is_resumed and 0 < len(hits) < possible
        ends_with_block = request.known % self.block_size == 0
        if ends_with_block and len(hits) == possible:
            self.events["hit_capped"] += bool(
                self.carriers.get(self.contents_of(request, possible))
            )

    def record(self, running):
        """The free queue, head first, registered ones negative, and the blocks of each member."""
        return {
            "free_queue": [
                -block if block in self.contents else block for block in self.free_queue
            ],
            "block_tables": [(request.row, list(request.blocks)) for request in running],
        }

    def state(self, running):
        """With the blocks numbered anew, for it does not matter which number a block has."""
        order = self.free_queue + [block for request in running for block in request.blocks]
        number = {block: at for at, block in enumerate(dict.fromkeys(order))}
        return (
            len(self.free_queue),
            tuple(tuple(number[block] for block in request.blocks) for request in running),
            tuple(self.contents.get(block) for block in number),
            frozenset(
                tuple(number[block] for block in carriers) for carriers in self.carriers.values()
            ),
        )
