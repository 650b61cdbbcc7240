"""What prompts have in common: told, and kept when traces are laid over each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.workloads import describe, merge_traces, read_trace
from sweeps.workloads.sharing import shared_blocks
from vecsched import Trace
from vecsched.errors import InputError


def trace_of(*ids, tokens=16, arrivals=None, prompt=40):
    n = len(ids)
    times = range(n) if arrivals is None else arrivals
    return Trace(times, [prompt] * n, [1] * n, prefix_ids=ids, prefix_block_tokens=tokens)


def ids_of(trace):
    return [trace.prefix_ids[row].tolist() for row in range(len(trace))]


def test_a_prompt_shares_as_far_as_an_earlier_one_began_alike():
    trace = trace_of([1, 2, 3], [1, 2], [1, 9, 3], [2, 3], [1, 9, 3])
    # [1, 9, 3] shares only 1: its 3 stands behind another 9. [2, 3] begins with no 1.
    assert shared_blocks(trace).tolist() == [0, 2, 1, 0, 3]


def test_earlier_is_told_by_the_clock_and_then_by_the_row():
    trace = trace_of([1, 2], [1], [1, 2, 3], arrivals=[5, 0, 5])
    assert shared_blocks(trace).tolist() == [1, 0, 2]


def test_what_describe_says_of_sharing():
    figures = describe(trace_of([1, 2, 3], [1, 2, 3], [4]))
    assert figures["prefix_block_tokens"] == 16
    # 3 of 7 ids were seen before. The third of them is of 8 tokens: 40 of 120 tokens.
    assert figures["prefix_blocks"] == 7
    assert figures["prefix_blocks_distinct"] == 4
    assert figures["prefix_hit_rate_blocks"] == 3 / 7
    assert figures["prefix_hit_rate"] == 40 / 120
    assert "prefix_hit_rate" not in describe(Trace([0.0], [1], [1]))
    assert np.isnan(describe(trace_of([]))["prefix_hit_rate_blocks"])


@given(
    ids=st.lists(st.lists(st.integers(-2, 2), max_size=6), min_size=1, max_size=12),
    arrivals=st.lists(st.integers(0, 5), min_size=12, max_size=12),
)
def test_sharing_equals_that_of_a_set_of_beginnings(ids, arrivals):
    trace = trace_of(*ids, arrivals=arrivals[: len(ids)], prompt=200)
    seen: set[tuple[int, ...]] = set()
    expected = [0] * len(ids)
    for row in trace.order.tolist():
        beginnings = [tuple(ids[row][: n + 1]) for n in range(len(ids[row]))]
        expected[row] = sum(each in seen for each in beginnings)
        seen.update(beginnings)
    assert shared_blocks(trace).tolist() == expected


# Merging


def test_traces_share_nothing_unless_told():
    one, other = trace_of([7, 8], [7]), trace_of([7], arrivals=[0.5])
    apart = merge_traces({"a": one, "b": other})
    assert apart.tenant.tolist() == ["a", "b", "a"]
    assert apart.prefix_block_tokens == 16
    first, theirs, second = ids_of(apart)
    assert first[0] == second[0]
    assert theirs[0] not in first
    together = merge_traces({"a": one, "b": other}, shared_prefixes=True)
    assert ids_of(together) == [[7, 8], [7], [7]]


def test_a_trace_without_ids_has_none_in_a_merged_one():
    merged = merge_traces({"a": trace_of([7, 8]), "b": Trace([0.0, 1.0], [5, 5], [1, 1])})
    assert ids_of(merged) == [[0, 1], [], []]
    assert merge_traces({"b": Trace([0.0], [5], [1])}).prefix_ids is None


def test_ids_of_other_sizes_cannot_be_laid_together():
    traces = {"a": trace_of([1]), "b": trace_of([1], tokens=64), "c": Trace([0.0], [5], [1])}
    with pytest.raises(InputError, match="16 in a, 64 in b") as caught:
        merge_traces(traces)
    assert caught.value.field == "prefix_block_tokens"


# The public files


def test_published_hit_rates(shared):
    folder = shared / "data" / "traces"
    trace = read_trace(folder / "mooncake" / "conversation_trace.jsonl")
    figures = describe(trace)
    assert figures["prefix_blocks_distinct"] == 182_790
    assert round(figures["prefix_hit_rate_blocks"], 3) == 0.366
    sessions = read_trace(folder / "weka", rate_per_s=0.01)
    assert sessions.prefix_block_tokens == 64
    apart = [read_trace(path) for path in sorted((folder / "weka").glob("*.json"))]
    hits = [describe(each)["prefix_blocks_distinct"] for each in apart]
    # Sessions share nothing: what is distinct in each is so in all.
    assert describe(sessions)["prefix_blocks_distinct"] == sum(hits)
    rates = [describe(each)["prefix_hit_rate_blocks"] for each in apart]
    assert min(rates) > 0.6
    assert max(rates) < 0.95
