"""A run followed through its log: who is a member, what is computed, which blocks are held.

Made from the input and the log alone, with an assertion wherever the rules leave no choice.
"""

from collections import Counter

from naive.disciplines import PAGED
from naive.requests import cut_output


class Replay:
    """Takes one iteration's record after another; rows stand for requests."""

    may_be_empty = False  # an iteration without tokens and without a preemption

    def __init__(self, requests, config, rows):
        self.requests, self.config, self.rows = requests, config, rows
        self.prompt = [record["prompt_tokens"] for record in requests]
        self.output = [cut_output(record, config["max_model_len"]) for record in requests]
        self.members = []  # in order of latest admission
        self.gone = set()  # ended, though perhaps still in a static batch
        self.admitted, self.completed = set(), set()
        self.computed, self.generated, self.scheduled = Counter(), Counter(), Counter()
        self.preemptions, self.recomputed, self.lost_in_all = Counter(), Counter(), Counter()
        self.pending, self.cached = Counter(), Counter()
        self.lost = Counter()  # by a preemption, of those not resumed since

    def take(self, it):
        self.release(it)
        self.preempt(it)
        self.admit(it)
        self.check_scheduled(it)
        self.check_bounds(it)
        self.check_shape(it)
        finished = self.advance(it)
        assert it["finished"] == finished, (it, finished)
        self.check_blocks(it)
        self.gone.update(finished)
        self.completed.update(finished)

    def known(self, row):
        return self.prompt[row] + self.generated[row]

    def wanted(self, row):
        return self.known(row) + self.pending[row] - self.computed[row]

    def in_prefill(self, row):
        return self.generated[row] + self.pending[row] == 0 or self.wanted(row) != 1

    # Members.

    def ends_early(self, row):
        return self.rows[row]["status"] in ("cancelled", "timed_out")

    def release(self, it):
        """Who has ended is gone, in a static batch with its last member."""
        self.gone |= {
            row
            for row in self.members
            if self.ends_early(row) and self.rows[row]["finished_ps"] <= it["start_ps"]
        }
        if self.config["discipline"] != "static" or self.gone.issuperset(self.members):
            self.members = [row for row in self.members if row not in self.gone]

    def preempt(self, it):
        """Only for want of blocks, and then nobody is admitted."""
        for row in it["preempted"]:
            assert row in self.members, (it, row)
            self.members.remove(row)
            self.preemptions[row] += 1
            self.lost[row] = self.computed[row]
            self.lost_in_all[row] += self.computed[row]
            self.computed[row] = self.pending[row] = 0
        if it["preempted"]:
            assert self.config["discipline"] in PAGED, it
            assert self.config["kv_reserve"] == "on_demand", it
            assert self.config["kv_blocks"] is not None, it
            assert not it["admitted"], it
            assert it["blocked_reason"] == "kv_blocks", it

    def admit(self, it):
        cached = dict(it.get("num_cached_tokens", ()))
        assert cached.keys() <= set(it["admitted"]), it
        for row in it["admitted"]:
            self.take_from_cache(it, row, cached.get(row, 0))
            assert row not in self.members, (it, row)
            assert row not in self.gone, (it, row)
            if row in self.admitted:
                assert self.preemptions[row] > 0, (it, row)
            else:
                assert self.rows[row]["admitted_ps"] == it["start_ps"], (it, row)
            self.admitted.add(row)
            self.members.append(row)
        assert len(self.members) <= self.config["max_batch_size"], it

    def take_from_cache(self, it, row, tokens):
        """Whole blocks, not the last known token, and at first none but shared ones."""
        assert tokens == 0 or self.config["enable_prefix_caching"], (it, row)
        assert tokens % self.config["block_size"] == 0, (it, row)
        assert tokens <= self.known(row) - 1, (it, row)
        if row not in self.admitted:
            assert tokens == 0 or self.requests[row].get("prefix_ids"), (it, row)
        self.cached[row] += tokens
        self.recomputed[row] += max(self.lost[row] - tokens, 0)
        self.computed[row], self.lost[row] = tokens, 0

    # Tokens.

    def check_scheduled(self, it):
        """Members in order, none that has ended, and never nothing without a preemption."""
        scheduled = [row for row, _ in it["scheduled"]]
        assert scheduled or it["preempted"] or self.may_be_empty, it
        assert scheduled == [row for row in self.members if row in scheduled], it
        assert self.gone.isdisjoint(scheduled), it
        for row in scheduled:
            assert it["end_ps"] <= self.rows[row]["finished_ps"], (it, row)

    def check_bounds(self, it):
        """Nothing is computed twice; budgets and chunk sizes are kept."""
        config, prefill_tokens = self.config, 0
        for row, tokens in it["scheduled"]:
            assert 0 <= tokens <= self.wanted(row), (it, row)
            if tokens == 0:  # the kept quirk
                assert config["discipline"] == "strict", (it, row)
                assert self.generated[row] == self.output[row], (it, row)
            if self.in_prefill(row):
                prefill_tokens += tokens
                assert tokens <= self.largest_chunk(row), (it, row)
        assert sum(tokens for _, tokens in it["scheduled"]) <= config["max_num_batched_tokens"], it
        assert prefill_tokens <= (config["max_prefill_tokens"] or prefill_tokens), it

    def largest_chunk(self, row):
        config = self.config
        if config["discipline"] in ("strict", "static"):
            return config["prefill_chunk_size"]
        threshold = config["long_prefill_token_threshold"]
        cuts_all = config["vllm_version"] == "0.19"  # later a lone request is not cut
        if config["discipline"] == "vllm" and threshold and cuts_all:
            return threshold
        return self.wanted(row)

    def check_shape(self, it):
        """What an iteration of `orca` and `prefill_first` looks like, whole prompts in both."""
        discipline = self.config["discipline"]
        if discipline not in ("orca", "prefill_first"):
            return
        assert all(tokens == self.wanted(row) for row, tokens in it["scheduled"]), it
        scheduled = [row for row, _ in it["scheduled"]]
        if discipline == "orca" or not it["admitted"]:
            assert scheduled == self.members, it
        else:
            assert scheduled == it["admitted"], it

    def advance(self, it):
        """Book the tokens; returns the rows that have all their output now, in order."""
        finished = []
        for row, tokens in it["scheduled"]:
            was_in_prefill = self.in_prefill(row)
            self.scheduled[row] += tokens
            self.computed[row] += tokens
            if self.wanted(row) == 0:
                self.generated[row] += 1
                if self.generated[row] == 1:
                    assert self.rows[row]["first_token_ps"] == it["end_ps"], (it, row)
            stays_for_the_quirk = self.config["discipline"] == "strict" and was_in_prefill
            if self.generated[row] == self.output[row] and not stays_for_the_quirk:
                finished.append(row)
                assert self.rows[row]["finished_ps"] == it["end_ps"], (it, row)
        return finished

    # Blocks.

    def check_blocks(self, it):
        """Blocks held and free add up to the capacity."""
        capacity = self.config["kv_blocks"]
        if capacity is None:
            assert it["free_kv_blocks"] is None, it
        else:
            held = [self.held_by(row) for row in self.members]
            if any(record.get("prefix_ids") for record in self.requests):  # they may share some
                free = range(capacity - sum(held), capacity - max(held, default=0) + 1)
                assert it["free_kv_blocks"] in free, (it, held)
            else:
                assert it["free_kv_blocks"] == capacity - sum(held), (it, held)
            assert it["free_kv_blocks"] >= 0, it
            self.check_tables(it)

    def check_tables(self, it):
        """Every block is either held or free, and members have the blocks that they need."""
        if "block_tables" not in it:
            return
        tables = dict(it["block_tables"])
        assert list(tables) == self.members, it
        for row, blocks in tables.items():
            assert len(set(blocks)) == len(blocks) == self.held_by(row), (it, row)
        free = [abs(block) for block in it["free_queue"]]
        held = {block for blocks in tables.values() for block in blocks}
        assert len(free) == it["free_kv_blocks"], it
        assert sorted([*free, *held]) == list(range(1, self.config["kv_blocks"] + 1)), it

    def held_by(self, row):
        config = self.config
        if config["discipline"] in PAGED and config["kv_reserve"] == "on_demand":
            return self.blocks(self.computed[row])
        if config["discipline"] == "orca" and config["max_model_len"] is not None:
            return self.blocks(config["max_model_len"])
        if self.requests[row].get("kv_blocks") is not None:
            return self.requests[row]["kv_blocks"]
        return self.blocks(self.prompt[row] + (config["max_tokens"] or self.output[row]))

    def blocks(self, tokens):
        return (tokens + self.config["block_size"] - 1) // self.config["block_size"]

    # The end.

    def check_end(self):
        """Tokens in = tokens out: the last output token is the only one not computed.

        What the cache gives need not be computed, nor what was lost by one that is completed while
        it waits.
        """
        rows = self.rows
        assert self.completed == {i for i, r in enumerate(rows) if r["status"] == "completed"}
        assert self.admitted == {i for i, r in enumerate(rows) if r["admitted_ps"] is not None}
        for i, row in enumerate(rows):
            assert row["preemptions"] == self.preemptions[i], row
            assert row["recomputed_tokens"] == self.recomputed[i], row
            assert (row["first_token_ps"] is None) == (self.generated[i] == 0), row
            if self.config["enable_prefix_caching"]:
                assert row["cached_tokens"] == self.cached[i], row
            needed = self.prompt[i] + self.output[i] - 1 + self.lost_in_all[i]
            if row["status"] == "completed":
                without = self.cached[i] + self.lost[i]
                assert self.scheduled[i] == needed - without, (row, self.scheduled[i])
            elif row["status"] == "failed":
                assert i not in self.members, row
