"""Conversations: prompts that begin alike, turn by turn, to the bit."""

import numpy as np
import pytest

from sweeps.workloads import Conversations, SyntheticSpec, describe, generate, shared_blocks
from vecsched.errors import ConfigError

TWO_HUNDRED = {"distribution": "empirical", "values": [200]}
TEN = {"distribution": "empirical", "values": [10]}
SPEC = {
    "requests": 400,
    "rate_per_s": 4,
    "prompt": {"distribution": "lognormal", "mean": 60, "sigma": 1},
    "output": {"distribution": "lognormal", "mean": 40, "sigma": 1},
    "conversations": {
        "system_tokens": {"distribution": "lognormal", "mean": 200, "sigma": 0.5},
        "system_prompts": 5,
        "open": 8,
        "turns": 4,
    },
}


def workload(**changes):
    return generate(SyntheticSpec.from_mapping(SPEC | changes))


def talk(**changes):
    return {"conversations": SPEC["conversations"] | changes}


def ids_of(trace):
    return [trace.prefix_ids[row].tolist() for row in range(len(trace))]


def test_one_conversation_grows_turn_by_turn():
    endless = talk(system_tokens=TWO_HUNDRED, system_prompts=1, open=1, turns=1e9)
    trace = workload(
        requests=4, prompt=TEN, output={"distribution": "empirical", "values": [30]}, **endless
    )
    # 200 of system prompt and 10 new; then 30 of answer and 10 new each time.
    assert trace.prompt_tokens.tolist() == [210, 250, 290, 330]
    assert trace.prefix_block_tokens == 16
    # 210 / 16 = 13.1: 14 blocks, all of which the next turn begins with.
    assert shared_blocks(trace).tolist() == [0, 14, 16, 19]
    assert [len(ids) for ids in ids_of(trace)] == [14, 16, 19, 21]


def test_conversations_of_one_turn_share_full_blocks_of_their_system_prompt():
    trace = workload(
        requests=5, prompt=TEN, **talk(system_tokens=TWO_HUNDRED, system_prompts=1, turns=1)
    )
    assert trace.prompt_tokens.tolist() == [210] * 5
    # 200 / 16 = 12.5: the block in which the system prompt ends goes on differently.
    assert shared_blocks(trace).tolist() == [0, 12, 12, 12, 12]


def test_equal_ids_stand_for_equal_tokens():
    """A block's id stands at one place only, and behind the same blocks each time."""
    seen = {}
    for ids in ids_of(workload(requests=300)):
        assert len(set(ids)) == len(ids)
        for place, block in enumerate(ids):
            before = tuple(ids[:place])
            assert seen.setdefault(block, before) == before


def test_a_conversation_begins_anew_where_it_would_grow_too_long():
    limit = talk(turns=1e9, open=1, max_prompt_tokens=1000)
    trace = workload(**limit)
    shorter = np.diff(trace.prompt_tokens) < 0
    assert shorter.sum() > 10
    # Only what is too long on its own, with its system prompt, is longer.
    assert (trace.prompt_tokens > 1000).mean() < 0.02
    assert workload(**talk(turns=1e9, open=1)).prompt_tokens.max() > 10_000


def test_turns_and_popularity_are_means():
    trace = workload(requests=20_000, **talk(turns=5, system_prompts=3, popularity=1))
    found = shared_blocks(trace)
    # Blocks behind the system prompt are the conversation's: a first turn shares no more than it.
    first = np.array([ids[-1] for ids in ids_of(trace)]) >> 24
    turns = len(trace) / len(np.unique(first))
    assert turns == pytest.approx(5, rel=0.05)
    begun = np.array([ids[0] for ids in ids_of(trace)])
    owner = begun[np.unique(first, return_index=True)[1]] >> 24
    share = np.bincount(owner, minlength=3) / len(owner)
    # 1, 1/2, 1/3 of 11/6.
    assert share == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.02)
    assert found[0] == 0


def test_the_same_seed_gives_the_same_bits():
    one, other = workload(), workload()
    assert one.prefix_ids.values.tobytes() == other.prefix_ids.values.tobytes()
    assert one.prompt_tokens.tobytes() == other.prompt_tokens.tobytes()
    assert ids_of(workload(seed=1)) != ids_of(one)


def test_a_longer_trace_begins_with_the_shorter_one():
    long, short = workload(requests=400), workload(requests=150)
    assert ids_of(long)[:150] == ids_of(short)
    assert long.prompt_tokens[:150].tolist() == short.prompt_tokens.tolist()


def test_conversations_leave_arrivals_and_outputs_as_they_are():
    plain = generate(SyntheticSpec.from_mapping({**SPEC, "conversations": None}))
    trace = workload()
    assert trace.arrival_s.tobytes() == plain.arrival_s.tobytes()
    assert trace.output_tokens.tobytes() == plain.output_tokens.tobytes()
    assert plain.prefix_ids is None
    assert (trace.prompt_tokens > plain.prompt_tokens).all()


# Tenants


def test_tenants_have_nothing_in_common():
    tenants = [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    trace = workload(tenants=tenants)
    owners = {
        name: {block for ids, label in zip(ids_of(trace), trace.tenant, strict=True)
               if label == name for block in ids}
        for name in "abc"
    }  # fmt: skip
    assert all(owners.values())
    assert not owners["a"] & owners["b"]
    assert not owners["a"] & owners["c"]
    # The first tenant's requests are what they were without the last.
    fewer = workload(tenants=tenants[:2], rate_per_s=4 * 2 / 3)
    mine = [ids for ids, label in zip(ids_of(trace), trace.tenant, strict=True) if label == "a"]
    then = [ids for ids, label in zip(ids_of(fewer), fewer.tenant, strict=True) if label == "a"]
    shorter = min(len(mine), len(then))
    assert shorter > 50
    assert mine[:shorter] == then[:shorter]


def test_one_tenant_may_talk_and_another_not():
    tenants = [{"name": "chat", **talk(block_tokens=32)}, {"name": "batch"}]
    trace = workload(conversations=None, tenants=tenants)
    assert trace.prefix_block_tokens == 32
    lengths = trace.prefix_ids.lengths
    assert (lengths[trace.tenant == "batch"] == 0).all()
    assert (lengths[trace.tenant == "chat"] > 0).all()
    assert describe(trace)["prefix_hit_rate"] > 0.2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"open": 0}, "open must be a whole number of at least 1"),
        ({"turns": 0.5}, "turns must be a number >= 1"),
        ({"popularity": -1}, "popularity must be a number >= 0"),
        ({"system_tokens": 5}, "system_tokens must be a distribution"),
        ({"system_promts": 5}, "did you mean 'system_prompts'"),
        ({"max_prompt_tokens": 0}, "max_prompt_tokens"),
        ({"block_tokens": 1.5}, "block_tokens"),
    ],
)
def test_impossible_conversations(changes, message):
    with pytest.raises(ConfigError, match=message):
        workload(**talk(**changes))


def test_what_is_no_conversation():
    with pytest.raises(ConfigError, match="conversations must be a mapping"):
        workload(conversations=7)
    with pytest.raises(ConfigError, match="'system_tokens' is missing"):
        workload(conversations={})
    tenants = [{"name": "a", **talk(block_tokens=32)}, {"name": "b", **talk(block_tokens=16)}]
    with pytest.raises(ConfigError, match="block_tokens must be one for all tenants, not 16, 32"):
        workload(tenants=tenants)


def test_more_than_ids_can_tell_apart():
    made = Conversations(system_tokens=TEN)
    rngs = tuple(np.random.default_rng(0) for _ in range(2))
    one = np.array([5])
    with pytest.raises(ConfigError, match="more tenants than 2048"):
        made.prompts(one, one, rngs, 2048)
    with pytest.raises(ConfigError, match="more blocks of a prompt than"):
        made.prompts(np.array([16 * 2**24]), one, rngs, 0)
    prompts, ids = made.prompts(one, one, rngs, 2047)
    assert (prompts.tolist(), (ids.values > 0).all()) == ([15], True)
