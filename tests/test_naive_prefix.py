"""Prefix caching in the oracle: hand-worked, and what must hold of every pool and every run."""

import math

import naive
import pytest
from hypothesis import given, settings
from naive.blocks import BlockPool
from naive.examples import UNIT_COST, affine_cost, column, request, small_config, table
from naive.prefix_metrics import prefix_hit_rate_by_tenant
from naive.simulation import DEFAULT_CONFIG, engine_of
from prefix_cases import cases, run_oracle
from test_engine_equals_oracle import EXAMPLES

# Weighed at a number of their own, whatever the number of the comparison with the engine.
WEIGHED = settings(EXAMPLES, max_examples=300)
SOME = settings(EXAMPLES, max_examples=120)


def config_of(**changes):
    return small_config(
        **{"discipline": "vllm", "enable_prefix_caching": True, "kv_blocks": 12, **changes}
    )


def run(requests, prefix_block_tokens=None, **changes):
    config = config_of(**changes)
    result = naive.simulate(requests, config, UNIT_COST, prefix_block_tokens=prefix_block_tokens)
    naive.check_invariants(requests, config, result)
    return result


def cached(result):
    return [it["num_cached_tokens"] for it in result["iterations"] if it["num_cached_tokens"]]


# Which blocks are the same.


@pytest.mark.parametrize(
    ("prompt", "ids", "hit"),
    [
        # Ids of 4 tokens, blocks of 3. Row 0: prompt of 10 is id 7 (tokens 0-3), id 8 (4-7) and id
        # 9 for the piece that is left (8, 9): blocks 0-2, 3-5 and 6-8 are full, token 9 is not.
        (10, [7, 8, 9], 9),
        (10, [7, 8, 5], 6),  # block 2 has tokens 6 and 7 of id 8, but token 8 is another
        (10, [7, 8], 6),  # and here it is the request's own
        (10, [7, 5, 9], 3),  # block 1 has token 3 of id 7, but 4 and 5 are others
        (10, [5, 8, 9], 0),  # all blocks behind another prefix are others
        (10, [], 0),
        (9, [7, 8, 9], 6),  # the third block is known, but the last token is to be computed
        (8, [7, 8], 6),
        (30, [7, 8, 9, 1], 9),  # id 9 is whole here: of it, block 2 takes token 8, and row 0 too
        (2, [7], 0),
    ],
)
def test_tokens_make_the_blocks(prompt, ids, hit):
    first = request(0, 10, 1, prefix_ids=[7, 8, 9])
    second = request(5, prompt, 1, prefix_ids=ids)
    result = run([first, second], 4, block_size=3, max_num_batched_tokens=40)
    assert cached(result) == ([[(1, hit)]] if hit else [])
    assert column(result, "cached_tokens") == [0, hit]
    # The scheduler counts what is left to compute.
    assert result["iterations"][1]["scheduled"] == [(1, prompt - hit)]


def test_ids_of_several_blocks_each():
    # Ids of 8 tokens, blocks of 4, prompts of 20: five full blocks, the last of them within the
    # third id's piece of 4. Row 1 shares all, but only four blocks leave a token to compute; row 2
    # shares the first id, two blocks.
    requests = [
        request(0, 20, 1, prefix_ids=[1, 2, 3]),
        request(5, 20, 1, prefix_ids=[1, 2, 3]),
        request(9, 20, 1, prefix_ids=[1, 4, 3]),
    ]
    result = run(requests, 8, max_num_batched_tokens=40)
    assert cached(result) == [[(1, 16)], [(2, 8)]]
    # 24 of 60 tokens looked up.
    assert result["summary"]["prefix_hit_rate"] == 24 / 60
    assert result["summary"]["evicted_blocks"] == 0


def test_too_many_ids_are_refused():
    with pytest.raises(AssertionError, match="prefix_ids"):
        run([request(0, 8, 1, prefix_ids=[1, 2, 3])], 4)
    with pytest.raises(AssertionError, match="prefix_ids"):
        run([request(0, 8, 1, prefix_ids=[1])])


# A run by hand.


def test_a_preempted_request_finds_its_blocks():
    # Blocks of 4, five of them; a budget of 16.
    # Iteration 0: row 0 (prompt 8) has blocks 1 and 2, row 1 (prompt 8) 3 and 4, all registered.
    # 1: row 0 takes 5 for its 9th token; row 1 needs one for its own: it preempts itself. 4 goes
    # to the tail of the free queue first, then 3.
    # 2 to 4: row 0 has 10 to 12 tokens computed. In 5 it takes block 4 for its 13th: an eviction.
    # It has prompt 8 and 6 of output, the last of which 13 computed tokens give: it ends with 5.
    # Its block 4 (not full) goes to the head of the queue; then 5, 2, 1 to the tail, behind 3.
    # 6: row 1 knows 8 + 1 tokens. It looks up two blocks and finds the first, block 3. It takes 4
    # and 5, the latter an eviction, and computes 5 tokens; then its last one, which has room.
    requests = [request(0, 8, 6), request(0, 8, 3)]
    result = run(requests, kv_blocks=5, max_num_batched_tokens=16)
    queues = [it["free_queue"] for it in result["iterations"]]
    assert queues[:2] == [[5], [-4, -3]]
    assert queues[4:7] == [[-4, -3], [-3], [-2, -1]]
    assert result["iterations"][6]["block_tables"] == [(1, [3, 4, 5])]
    assert [it["scheduled"] for it in result["iterations"]] == [
        [(0, 8), (1, 8)],
        *([[(0, 1)]] * 5),
        [(1, 5)],
        [(1, 1)],
    ]
    assert cached(result) == [[(1, 4)]]
    assert column(result, "cached_own_tokens") == [0, 4]
    assert column(result, "recomputed_tokens") == [0, 4]  # 8 lost, 4 of them found again
    assert result["summary"]["evicted_blocks"] == 2
    # Looked up: 8 + 8 at first, 9 in iteration 6.
    assert result["summary"]["prefix_hit_rate"] == 4 / 25
    assert result["events"]["resumed_hit_partial"] == 1


def test_a_cached_chunk_is_context():
    # The second of two equal prompts computes its last block only, behind 8 tokens of context: with
    # 1 s for a token of context that a chunk reads, 8 s.
    cost = {"decode": {"fixed_s": 0.0}, "mixed": {"fixed_s": 1.0}, "prefill_context_s": 1.0}
    requests = [request(at, 12, 1, prefix_ids=[1, 2, 3]) for at in (0, 5)]
    config = config_of(max_num_batched_tokens=16)
    result = naive.simulate(requests, config, cost, prefix_block_tokens=4)
    assert column(result, "e2e_s") == [1.0, 9.0]
    # Alone, on an idle engine, nothing is cached.
    assert column(result, "slowdown") == [1.0, 9.0]


def test_a_resumed_request_with_one_token_to_compute_decodes():
    # Five blocks of 4; 1 s an iteration and 1 s for each token that a decode reads.
    # Iteration 0 (0 to 1 s): both prompts of 8. 1: row 0 decodes its last token and reads 9 (to 11
    # s); row 1 preempts itself. 2: row 1 knows 9 tokens and finds 8, so it wants 1 behind them: a
    # decode that reads 9 (to 21 s). 3: its last one, which reads 10 (to 32 s).
    requests = [request(0, 8, 2), request(0, 8, 3)]
    config = config_of(kv_blocks=5, max_num_batched_tokens=16)
    result = naive.simulate(requests, config, affine_cost(1.0, 0.0, 0.0, 1.0))
    assert table(result)[1:] == [(1, 11, [(0, 1)]), (11, 21, [(1, 1)]), (21, 32, [(1, 1)])]
    assert result["iterations"][2]["num_cached_tokens"] == [(1, 8)]


def test_without_a_capacity_nothing_is_evicted():
    requests = [request(at, 8, 4, prefix_ids=[at % 3, 1]) for at in range(0, 30, 5)]
    result = run(requests, 4, kv_blocks=None)
    # The first three are new; the others know 8 tokens, of which one block may be cached.
    assert column(result, "cached_tokens") == [0, 0, 0, 4, 4, 4]
    assert result["summary"]["evicted_blocks"] == 0
    assert all(it["free_kv_blocks"] is None for it in result["iterations"])


def test_nothing_is_measured_without_a_cache():
    result = run([request(0, 8, 2)], enable_prefix_caching=False)
    assert math.isnan(result["summary"]["prefix_hit_rate"])
    assert math.isnan(result["summary"]["evicted_blocks"])
    assert all(math.isnan(value) for value in column(result, "cached_tokens"))
    assert all(math.isnan(value) for value in column(result, "cached_own_tokens"))


def test_tenants_have_hit_rates_of_their_own():
    # "a" finds 4 of the 8 tokens of its second prompt, of 16 in all; "b" nothing.
    requests = [
        request(at, 8, 1, prefix_ids=ids, tenant=tenant)
        for at, ids, tenant in [(0, [1, 2], "a"), (5, [1, 2], "a"), (9, [3], "b")]
    ]
    rates = prefix_hit_rate_by_tenant(run(requests, 4)["requests"])
    assert rates == {"a": 4 / 16, "b": 0.0}


@pytest.mark.parametrize("changes", [{"discipline": "strict"}, {"kv_reserve": "full"}])
def test_where_there_is_no_cache(changes):
    with pytest.raises(AssertionError):
        run([request(0, 8, 2)], **changes)


# Every pool, every run.


@pytest.mark.parametrize(
    ("number", "name", "value"),
    [
        (6, "num_cached_tokens", []),
        (6, "num_cached_tokens", [(1, 8)]),
        (6, "num_cached_tokens", [(1, 3)]),
        (6, "num_cached_tokens", [(0, 4)]),
        (6, "scheduled", [(1, 4)]),
        (0, "num_cached_tokens", [(1, 4)]),
        (1, "free_queue", [-4, -4]),
        (1, "free_queue", [-4]),
        (1, "block_tables", [(0, [1, 2, 3])]),
        (1, "block_tables", [(0, [1, 2])]),
        (1, "free_kv_blocks", 1),
    ],
)
def test_invariants_notice(number, name, value):
    requests, config = (
        [request(0, 8, 6), request(0, 8, 3)],
        config_of(kv_blocks=5, max_num_batched_tokens=16),
    )
    result = naive.simulate(requests, config, UNIT_COST)
    naive.check_invariants(requests, config, result)
    result["iterations"][number][name] = value
    with pytest.raises(AssertionError):
        naive.check_invariants(requests, config, result)


class CheckedPool(BlockPool):
    """Checks itself whenever a step has been decided."""

    def record(self, running):
        held = [block for member in running for block in member.blocks]
        for block in range(1, self.last_block + 1):
            assert self.references[block] == held.count(block)
            assert (block in self.free_queue) == (self.references[block] == 0) or not self.capacity
        for contents, carriers in self.carriers.items():
            assert all(self.contents[block] == contents for block in carriers)
        assert sum(map(len, self.carriers.values())) == len(self.contents)
        for member in running:
            # Registered are its first blocks, all full, and what they hold is what it knows.
            assert member.registered <= len(member.blocks)
            for index in range(member.registered):
                own = tuple(member.tokens[: (index + 1) * self.block_size])
                assert self.contents[member.blocks[index]] == own
        return super().record(running)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_invariants_hold(shared, asynchronous):
    seen = []

    @WEIGHED
    @given(cases(shared=shared, asynchronous=asynchronous))
    def check(case):
        config = DEFAULT_CONFIG | case.config.to_dict() | case.switches
        piece = case.prefix_block_tokens
        engine = engine_of(case.records, config, case.cost.to_dict(), prefix_block_tokens=piece)
        engine.kv = CheckedPool(config)
        engine.run()
        result = run_oracle(case)
        naive.check_invariants(case.records, config, result)
        seen.append(what_happened(result))

    check()
    # The cases are worth their name.
    for name, share in EXPECTED[shared, asynchronous].items():
        assert sum(name in those for those in seen) >= share * len(seen), name


EXPECTED = {
    (False, False): {"preemption": 0.3, "resumed_with_hit": 0.25, "resumed_hit_partial": 0.2},
    (False, True): {"preemption": 0.3, "resumed_with_hit": 0.25, "finished_while_waiting": 0.03},
    (True, False): {"preemption": 0.3, "hit_in_use": 0.4, "hit_freed": 0.4},
    (True, True): {"preemption": 0.3, "hit_in_use": 0.4, "finished_while_waiting": 0.05},
}
for of_all in EXPECTED.values():
    of_all |= {"evicted_blocks": 0.5, "early end": 0.1, "admission_stopped_by_evictable": 0.15}
for of_shared in (EXPECTED[True, False], EXPECTED[True, True]):
    of_shared |= {"duplicate_blocks": 0.25, "hit_capped": 0.2, "resumed_hit_partial": 0.2}


def what_happened(result):
    summary = result["summary"]
    happened = {name for name, count in result["events"].items() if count}
    happened |= {"preemption"} if summary["preemptions"] else set()
    return happened | ({"early end"} if summary["cancelled"] + summary["timed_out"] else set())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_unique_prompts_and_nobody_preempted_is_as_without_a_cache(asynchronous):
    same = []

    @SOME
    @given(cases(shared=False, asynchronous=asynchronous))
    def compare(case):
        result = run_oracle(case)
        if result["summary"]["preemptions"] > 0:
            return
        without = run_oracle(case, enable_prefix_caching=False)
        for ours, theirs in zip(result["iterations"], without["iterations"], strict=True):
            assert {name: ours[name] for name in theirs} == theirs
        for ours, theirs in zip(result["requests"], without["requests"], strict=True):
            assert ours["finished_ps"] == theirs["finished_ps"]
            assert ours["cached_tokens"] == 0 or ours["status"] == "failed"
        same.append(case)

    compare()
    assert len(same) > 30


def test_without_a_threshold_sarathi_is_vllm():
    # As without a cache: a prompt that is not done has used up the budget, so the decodes get their
    # tokens in either order.
    resumed = []

    @SOME
    @given(cases(shared=True, asynchronous=False))
    def compare(case):
        common = {
            "enable_chunked_prefill": True,
            "long_prefill_token_threshold": 0,
            "vllm_version": "0.33",
            "watermark": 0.0,
        }
        ours = run_oracle(case, **common, discipline="sarathi")
        theirs = run_oracle(case, **common)
        assert ours["iterations"] == theirs["iterations"]
        resumed.append(ours["events"]["resumed_with_hit"] > 0)

    compare()
    assert sum(resumed) > len(resumed) / 4


def test_a_cached_run_computes_no_more_than_it_must():
    # Whatever is shared: computed and cached tokens are those of the prompts and outputs, but for
    # what preemption lost. With nobody preempted and all completed it is the sum of both.
    checked = []

    @SOME
    @given(cases(shared=True, asynchronous=False))
    def check(case):
        result = run_oracle(case)
        summary = result["summary"]
        if summary["preemptions"] > 0 or summary["completed"] < summary["requests"]:
            return
        rows = result["requests"]
        scheduled = sum(tokens for it in result["iterations"] for _, tokens in it["scheduled"])
        needed = sum(row["prompt_tokens"] + row["output_tokens"] - 1 for row in rows)
        assert scheduled + sum(row["cached_tokens"] for row in rows) == needed
        checked.append(case)

    check()
    assert len(checked) > 20
