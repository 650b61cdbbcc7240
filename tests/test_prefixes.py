"""What prompts have in common: rows of ids, and the numbers of KV blocks that come of them."""

import numpy as np
import pytest

from vecsched import CostModel, SchedulerConfig, Trace, simulate
from vecsched.assembly import assemble
from vecsched.errors import InputError
from vecsched.kernels.cache import POOL, RUNS
from vecsched.kernels.engine import NEEDS_POOL
from vecsched.prefixes import block_keys, has_common_prefixes
from vecsched.ragged import Ragged


def trace_of(prompts, ids, tokens, outputs=None, **columns):
    outputs = outputs or [1] * len(prompts)
    arrivals = [0.0] * len(prompts)
    return Trace(arrivals, prompts, outputs, prefix_ids=ids, prefix_block_tokens=tokens, **columns)


def keys_of(trace, block_size, max_model_len=None):
    """The keys of each request's blocks, by its row."""
    found = block_keys(trace, block_size, max_model_len)
    ends = [*found.begin[1:].tolist(), len(found.keys)]
    return [found.keys[b:e].tolist() for b, e in zip(found.begin.tolist(), ends, strict=True)]


def alike(one, other):
    """How many of their first blocks two requests share; behind them no key may be in both."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    assert not set(one[count:]) & set(other)
    return count


# Rows of different lengths.


def test_ragged():
    rows = Ragged.of([[3, 1], [], np.array([2])], "prefix_ids")
    assert (rows.values.tolist(), rows.begin.tolist()) == ([3, 1, 2], [0, 2, 2, 3])
    assert [rows[row].tolist() for row in range(len(rows))] == [[3, 1], [], [2]]
    assert rows.lengths.tolist() == [2, 0, 1]
    chosen = rows[np.array([2, 0, 0])]
    assert [chosen[row].tolist() for row in range(3)] == [[2], [3, 1], [3, 1]]
    assert [row.tolist() for row in (rows[1:][0], rows[1:][1])] == [[], [2]]
    assert (len(rows[:0]), rows[np.array([False, False, True])][0].tolist()) == (0, [2])
    both = Ragged.joined([rows, Ragged.empty(1), chosen])
    assert both.lengths.tolist() == [2, 0, 1, 0, 1, 2, 2]
    assert both[4].tolist() == [2]


@pytest.mark.parametrize(
    ("ids", "tokens", "message"),
    [
        ([[1], [1.5]], 16, r"row 1, field 'prefix_ids': \[1\.5\]: must be a list of whole numbers"),
        ([[1], [True]], 16, "row 1, field 'prefix_ids'"),
        ([[1], "ab"], 16, "row 1, field 'prefix_ids': 'ab'"),
        ([[1], 7], 16, "row 1, field 'prefix_ids': 7"),
        ([[1], [2**63]], 16, "row 1, field 'prefix_ids'"),
        ([[1]], 16, "has 1 rows, but arrival_s has 2"),
        (
            [[1], [1, 2, 3]],
            16,
            "row 1, .*more ids of 16 tokens than a prompt of 20 tokens has room",
        ),
        ([[1], []], 0, "prefix_block_tokens.*: 0: must be a whole number from 1"),
        ([[1], []], 1.5, "prefix_block_tokens.*: 1.5: must be a whole number from 1"),
    ],
)
def test_bad_prefix_ids(ids, tokens, message):
    with pytest.raises(InputError, match=message):
        trace_of([20, 20], ids, tokens)


def test_a_trace_keeps_its_ids():
    trace = trace_of([20, 5], [[7, 8], []], 16)
    assert [row.tolist() for row in (trace.prefix_ids[0], trace.prefix_ids[1])] == [[7, 8], []]
    scaled = trace.scaled(2.0)
    assert scaled.prefix_ids is trace.prefix_ids
    assert block_keys(scaled, 4, None) is block_keys(trace, 4, None)
    assert Trace([0.0], [1], [1], prefix_block_tokens=16).prefix_block_tokens == 0


# Keys of blocks.


def test_ids_of_one_block_each():
    # A: 1 2 3; B: 1 2 4; C: 2 2 3. Blocks of 4 tokens, prompts of 12, so three blocks; with four
    # outputs a request has ceil((12 + 4 - 1) / 4) = 4.
    trace = trace_of([12] * 3, [[1, 2, 3], [1, 2, 4], [2, 2, 3]], 4, [4] * 3)
    a, b, c = keys_of(trace, 4)
    assert [len(a), len(b), len(c)] == [4, 4, 4]
    assert (alike(a, b), alike(a, c), alike(b, c)) == (2, 0, 0)


@pytest.mark.parametrize(
    ("block_size", "shared"),
    [
        # Both prompts have 12 tokens; the first two ids of 4, tokens 0..7, are the same.
        (1, 8),
        (2, 4),
        (3, 2),  # the third block, tokens 6..8, reaches into the third id
        (4, 2),
        (5, 1),  # tokens 5..9 do so, too
        (8, 1),
        (9, 0),
        (16, 0),
    ],
)
def test_blocks_of_any_size(block_size, shared):
    a, b = keys_of(trace_of([12, 12], [[1, 2, 3], [1, 2, 4]], 4), block_size)
    assert alike(a, b) == shared


def test_a_last_piece_counts_as_far_as_the_prompt():
    # The second id stands for tokens 4..5 of the prompt: block 2 of 2 tokens is full, and alike.
    # Outputs begin in block 3: 6 + 3 - 1 = 8 tokens.
    trace = trace_of([6, 6], [[1, 2], [1, 2]], 4, [3, 3])
    a, b = keys_of(trace, 2)
    assert (len(a), alike(a, b)) == (4, 3)
    # With blocks of 4, block 1 holds an output: nobody else's.
    assert alike(*keys_of(trace, 4)) == 1


def test_what_no_id_covers_is_ones_own():
    a, b, c = keys_of(trace_of([8, 8, 8], [[1], [1], []], 2), 2)
    assert (alike(a, b), alike(a, c)) == (1, 0)
    assert len(set(c)) == 4


def test_keys_have_no_gaps_to_speak_of():
    found = block_keys(trace_of([12, 12], [[1, 2, 3], [1, 2, 4]], 4), 2, None)
    # Nodes 1, 2, 3 and 4 of two blocks each.
    assert sorted(set(found.keys.tolist())) == list(range(found.different))
    assert found.different == 8


def test_outputs_are_cut():
    trace = trace_of([4, 4], [[1], [1]], 4, [100, 100])
    assert [len(keys) for keys in keys_of(trace, 2, max_model_len=8)] == [4, 4]  # 4 + 4 - 1 tokens


def test_common_prefixes():
    assert has_common_prefixes(trace_of([4, 4], [[1], [1]], 4))
    assert not has_common_prefixes(trace_of([8, 8], [[1, 2], [2, 1]], 4))
    assert not has_common_prefixes(Trace([0.0], [1], [1]))
    assert not has_common_prefixes(trace_of([4, 4], [[], []], 4))


# What comes of it.


def test_the_second_of_two_alike_computes_the_rest():
    # One second an iteration, one slot. Prompts of 12 tokens, the first 8 alike: two blocks of 4.
    trace = trace_of([12, 12], [[1, 2, 3], [1, 2, 4]], 4, [2, 2])
    config = SchedulerConfig(discipline="vllm", max_batch_size=1, block_size=4, kv_blocks=100)
    result = simulate(trace, config, CostModel.unit(), log_iterations=True)
    assert result.requests["cached_tokens"].tolist() == [0, 8]
    assert result.requests["looked_up_tokens"].tolist() == [12, 12]
    assert result.requests["cached_own_tokens"].tolist() == [0, 0]
    assert result.summary["prefix_hit_rate"] == 8 / 24
    assert [it for it in result.iterations["num_cached_tokens"] if it] == [[(1, 8)]]


@pytest.mark.parametrize(
    "change",
    [{"enable_prefix_caching": False}, {"kv_reserve": "full"}, {"discipline": "sarathi"}],
)
def test_where_nothing_is_kept(change):
    trace = trace_of([12, 12], [[1, 2, 3], [1, 2, 4]], 4)
    config = SchedulerConfig(discipline="vllm", block_size=4, kv_blocks=100).replace(**change)
    result = simulate(trace, config, CostModel.unit())
    assert np.isnan(result.summary["prefix_hit_rate"])
    assert np.isnan(result.summary["evicted_blocks"])
    assert result.requests["cached_tokens"].isna().all()


def test_unlimited_kv_evicts_nothing():
    trace = trace_of([12] * 6, [[1, 2, 3]] * 6, 4, [9] * 6)
    config = SchedulerConfig(discipline="vllm", max_batch_size=1, block_size=4)
    summary = simulate(trace, config, CostModel.unit()).summary
    assert summary["evicted_blocks"] == 0
    # The last block of 12 tokens holds the last token: two blocks are found at most.
    assert summary["prefix_hit_rate"] == 5 * 8 / (6 * 12)


def test_too_many_blocks_to_keep_apart():
    trace = trace_of([2**31 - 1] * 2, [[1], [1]], 2**31 - 1)
    config = SchedulerConfig(discipline="vllm", block_size=1, max_num_batched_tokens=2**31 - 1)
    with pytest.raises(InputError, match="KV blocks of 1 tokens are too many to keep apart; set"):
        block_keys(trace, config.block_size, None)


def crowd(block_size, seed, **columns):
    draw = np.random.default_rng(seed)
    prompts, outputs = draw.integers(1, 30, 60), draw.integers(1, 40, 60)
    trace = Trace(np.zeros(60), prompts, outputs, priority=draw.integers(0, 4, 60), **columns)
    config = SchedulerConfig(
        discipline="vllm",
        max_batch_size=16,
        max_num_batched_tokens=64,
        block_size=block_size,
        kv_blocks=120 // block_size,
    )
    return trace, config


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_both_forms_of_the_queue_give_the_same(policy, asynchronous):
    kinds = set()
    for seed in range(20):
        trace, config = crowd(2, seed)
        config = config.replace(policy=policy, async_scheduling=asynchronous)
        # All begin alike, but by less than a block: nothing is shared, and yet it might be.
        alike_by_a_token, _ = crowd(2, seed, prefix_ids=[[0]] * 60, prefix_block_tokens=1)
        either = simulate(trace, config, CostModel.unit())
        pool = simulate(alike_by_a_token, config, CostModel.unit())
        assert pool._engine.cache.kind == POOL
        assert either.summary["preemptions"] > 10
        assert repr(either.summary) == repr(pool.summary)
        assert either.requests.equals(pool.requests)
        kinds.add(either._engine.cache.kind)
    assert RUNS in kinds


def test_a_run_that_needs_the_pool_is_run_again(monkeypatch):
    # When that is so: tests/test_free_queue.py. Here it is so from the beginning.
    trace, config = crowd(2, 1)
    runs = simulate(trace, config, CostModel.unit())

    def in_need(trace, config, cost, record, options):
        engine = assemble(trace, config, cost, record, options)
        engine.state[NEEDS_POOL] = engine.cache.kind == RUNS
        return engine

    monkeypatch.setattr("vecsched.simulation.assemble", in_need)
    pool = simulate(trace, config, CostModel.unit())
    assert (runs._engine.cache.kind, pool._engine.cache.kind) == (RUNS, POOL)
    assert repr(pool.summary) == repr(runs.summary)
