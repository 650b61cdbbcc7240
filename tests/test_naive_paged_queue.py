"""The oracle's paged disciplines at the queue: hand-worked gates and orders."""

import naive
import pytest
from naive.examples import UNIT_COST, request, small_config

CHUNKED = ("vllm", "sarathi")
PAGED = (*CHUNKED, "prefill_first")


def run(requests, **changes):
    """A result that has passed the invariants."""
    config = small_config(**changes)
    result = naive.simulate(requests, config, UNIT_COST)
    naive.check_invariants(requests, config, result)
    return result


def first(result):
    """What the first iteration says of admission."""
    it = result["iterations"][0]
    return it["scheduled"], it["blocked_row"], it["blocked_reason"]


# Gates.


@pytest.mark.parametrize("discipline", PAGED)
def test_lookahead_passes_over_who_wants_blocks(discipline):
    # Row 0 takes one block of three, row 1 wants three, row 2 one.
    requests = [request(0, 4, 1), request(0, 12, 1), request(0, 4, 1)]
    bounds = {"discipline": discipline, "kv_blocks": 3, "max_num_batched_tokens": 40}
    assert first(run(requests, **bounds)) == ([(0, 4)], 1, "kv_blocks")
    assert first(run(requests, lookahead=1, **bounds)) == ([(0, 4), (2, 4)], 1, "kv_blocks")
    # A slot is wanted by everybody.
    one_slot = run(requests, lookahead=1, max_batch_size=1, **bounds)
    assert first(one_slot) == ([(0, 4)], 1, "slot")


def test_nobody_is_looked_at_without_budget():
    # Row 0 leaves nothing: behind row 1 nobody is looked at.
    requests = [request(0, 8, 1), request(0, 4, 1), request(0, 1, 1)]
    for discipline in CHUNKED:
        result = run(requests, discipline=discipline, lookahead=3)
        assert first(result) == ([(0, 8)], 1, "token_budget")
        # Nor when the prefill of the iteration is used up.
        result = run(requests, discipline=discipline, lookahead=3, max_prefill_tokens=3)
        assert first(result) == ([(0, 3)], 1, "token_budget")


@pytest.mark.parametrize("discipline", ["vllm", "prefill_first"])
def test_a_prompt_that_may_not_be_cut(discipline):
    # Row 0 leaves 4 tokens; row 1 wants 6, row 2 wants 3.
    requests = [request(0, 4, 1), request(0, 6, 1), request(0, 3, 1)]
    bounds = {"discipline": discipline, "enable_chunked_prefill": False}
    assert first(run(requests, **bounds)) == ([(0, 4)], 1, "token_budget")
    assert first(run(requests, lookahead=1, **bounds)) == ([(0, 4), (2, 3)], 1, "token_budget")
    # A bound of 6 on the prefill of an iteration leaves 2 of them.
    bounds["max_prefill_tokens"] = 6
    assert first(run(requests, lookahead=1, **bounds)) == ([(0, 4)], 1, "token_budget")


@pytest.mark.parametrize(
    ("discipline", "version", "prompt", "admitted"),
    [
        *[(discipline, "0.33", 24, True) for discipline in PAGED],
        *[(discipline, "0.33", 25, False) for discipline in PAGED],
        ("vllm", "0.19", 25, True),  # knows no watermark
        ("vllm", "0.19", 33, False),
    ],
)
def test_the_watermark_stays_free(discipline, version, prompt, admitted):
    # 0.29 of 9 + 1 blocks is 2. Row 0 takes one, though it could not have taken 8 beside them.
    # Row 1 may have 6 of the 8 left: 24 tokens.
    requests = [request(0, 4, 1), request(0, prompt, 1)]
    result = run(
        requests,
        discipline=discipline,
        vllm_version=version,
        watermark=0.29,
        kv_blocks=9,
        max_num_batched_tokens=64,
    )
    blocked = (None, "") if admitted else (1, "kv_blocks")
    batch = [(0, 4), (1, prompt)] if admitted else [(0, 4)]
    assert first(result) == (batch, *blocked)
    alone = run(
        [request(0, 36, 1)],
        discipline=discipline,
        watermark=0.29,
        kv_blocks=9,
        max_num_batched_tokens=64,
    )
    assert first(alone)[0] == [(0, 36)]  # nobody runs: all 9


@pytest.mark.parametrize("discipline", CHUNKED)
def test_the_whole_prompt_is_looked_at_or_the_first_chunk(discipline):
    # 8 tokens an iteration. Row 0 has 4 of them and one block; row 1 wants 4 of the 3 left for its
    # whole prompt of 13, one for its first chunk.
    requests = [request(0, 4, 3), request(0, 13, 1)]
    bounds = {"discipline": discipline, "kv_blocks": 4}
    assert first(run(requests, **bounds)) == ([(0, 4)], 1, "kv_blocks")
    hasty = run(requests, scheduler_reserve_full_isl=False, **bounds)
    assert first(hasty) == ([(0, 4), (1, 4)], None, "")
    # At 1 row 0 takes a second block and row 1 gets 7, with 11 tokens in 3 blocks of the 2 there
    # are: it preempts itself. At 2 its first chunk, 7 again, fits; at 3 it has all to itself.
    assert [it["scheduled"] for it in hasty["iterations"]] == [
        [(0, 4), (1, 4)],
        [(0, 1)],
        [(0, 1), (1, 7)],
        [(1, 6)],
    ]
    assert hasty["requests"][1]["recomputed_tokens"] == 4


def test_a_running_prefill_is_passed_over():
    # Of 12 tokens 6 may be prefill. Four requests: adaptive threshold 12 // 4 = 3, so row 3 gets
    # the one left. Two: 6, and row 2 takes them all. Then row 2 wants 3, and row 3 has the others.
    # Row 3, alone, is not cut by the threshold of 1, but by the bound.
    requests = [request(0, 1, 1), request(0, 1, 1), request(0, 12, 1), request(0, 12, 1)]
    result = run(
        requests,
        discipline="vllm",
        max_num_batched_tokens=12,
        max_prefill_tokens=6,
        long_prefill_token_threshold=1,
        long_prefill_token_threshold_adaptive=True,
    )
    assert [it["scheduled"] for it in result["iterations"]] == [
        [(0, 1), (1, 1), (2, 3), (3, 1)],
        [(2, 6)],
        [(2, 3), (3, 3)],
        [(3, 6)],
        [(3, 2)],
    ]
    assert result["iterations"][1]["slots_in_use"] == 2


def test_the_older_version_has_no_adaptive_threshold():
    # Two requests, 8 tokens: 8 // 2 = 4 each, where 0.19 gives 2.
    requests = [request(0, 8, 1), request(0, 8, 1)]
    changes = {
        "discipline": "vllm",
        "long_prefill_token_threshold": 2,
        "long_prefill_token_threshold_adaptive": True,
    }
    assert first(run(requests, **changes))[0] == [(0, 4), (1, 4)]
    assert first(run(requests, vllm_version="0.19", **changes))[0] == [(0, 2), (1, 2)]


def test_a_victims_prefill_goes_to_another():
    # 12 tokens an iteration, of them 6 prefill; a request gets at most 4 unless it is alone.
    # Iteration     0  1  2  3  4  5  6
    # row 0 has     6 10 14 18 22 26      (the last of the three in priority)
    # row 1            2  4  6  7  8  9   a decode from 5 on
    # row 2                     1  3  7   what is left of the 6
    # At 6 row 0 has 4 tokens and takes the last of 11 blocks, with 30 in 8. Row 1, 9 in 3, preempts
    # it. So all 6 are there for row 2 again, and it gets 4 instead of 2.
    requests = [
        request(0, 40, 1, priority=9),
        request(1, 7, 4, priority=0),
        request(1, 12, 1, priority=1),
    ]
    result = run(
        requests,
        discipline="vllm",
        policy="priority",
        kv_blocks=11,
        max_num_batched_tokens=12,
        max_prefill_tokens=6,
        long_prefill_token_threshold=4,
    )
    assert [it["scheduled"] for it in result["iterations"]][:7] == [
        [(0, 6)],
        [(0, 4), (1, 2)],
        [(0, 4), (1, 2)],
        [(0, 4), (1, 2)],
        [(0, 4), (1, 1), (2, 1)],
        [(0, 4), (1, 1), (2, 2)],
        [(1, 1), (2, 4)],
    ]
    assert result["iterations"][6]["preempted"] == [0]
    assert result["requests"][0]["recomputed_tokens"] == 26


# Orders.


def test_the_time_stamp_orders_equal_priorities():
    # One slot. Row 3 is the most urgent, the others go by their stamps, of equal ones by arrival.
    stamps = [3.0, 1.0, 1.0, 9.0]
    requests = [
        request(at, 1, 1, priority=int(row != 3), engine_time_s=stamp)
        for row, (at, stamp) in enumerate(zip([0.3, 0.2, 0.1, 0.4], stamps, strict=True))
    ]
    holder = request(0, 1, 1, priority=0, engine_time_s=0.0)
    for discipline in (*PAGED, "strict"):
        bounds = {"discipline": discipline, "policy": "priority", "max_batch_size": 1}
        result = run([*requests, holder], **bounds)
        admitted = [row for it in result["iterations"] for row in it["admitted"]]
        assert admitted == [4, 3, 2, 1, 0]
        unstamped = [{**r, "engine_time_s": None} for r in [*requests, holder]]
        result = run(unstamped, **bounds)
        admitted = [row for it in result["iterations"] for row in it["admitted"]]
        assert admitted == [4, 3, 2, 1, 0]  # by arrival: 0.1, 0.2, 0.3


@pytest.mark.parametrize("discipline", PAGED)
@pytest.mark.parametrize(
    ("stamps", "victim"),
    [
        ([None] * 3, 2),  # its own stamp each, the latest last
        ([5.0, 5.0, 5.0], 0),  # the first of equals
        ([1.0, 5.0, 5.0], 1),
        ([1.0, 5.0, 0.0], 1),
    ],
)
def test_the_time_stamp_chooses_between_equal_priorities(discipline, stamps, victim):
    # Four blocks, three taken at 0; at 1 all three want one more. All arrive together, so that
    # the queue stands in the order of stamps, and `running` in that of admission.
    requests = [request(0, 4, 3, priority=1, engine_time_s=stamp) for stamp in stamps]
    result = run(
        requests,
        discipline=discipline,
        policy="priority",
        kv_blocks=4,
        max_num_batched_tokens=12,
    )
    queue = sorted(range(3), key=lambda row: (stamps[row] or 0, row))
    assert result["iterations"][0]["admitted"] == queue
    assert result["iterations"][1]["preempted"] == [victim]
    # A victim keeps its place in the queue.
    assert result["iterations"][1]["waiting_order"] == [victim]


def test_a_victim_stands_at_its_place_in_the_queue():
    # Shortest prompt first, two slots, four blocks. Row 0 (4) and row 1 (6, two blocks) run, row 2
    # (5) comes at 1. Row 0 takes the last block at 1; row 1 wants a third one at 3.
    requests = [request(0, 4, 5), request(0, 6, 6), request(1, 5, 1), request(1, 7, 1)]
    bounds = {"discipline": "sarathi", "max_batch_size": 2, "max_num_batched_tokens": 10}
    result = run(requests, policy="shortest_prompt", kv_blocks=4, **bounds)
    assert result["iterations"][3]["preempted"] == [1]
    assert result["iterations"][3]["waiting_order"] == [2, 1, 3]
    assert result["iterations"][3]["blocked_row"] == 2
    # Fcfs: at its head. Also when it has waited too long, counted from its arrival.
    result = run(requests, kv_blocks=4, **bounds)
    assert result["iterations"][3]["waiting_order"] == [1, 2, 3]
    result = run(requests, policy="shortest_prompt", kv_blocks=4, max_wait_s=3.0, **bounds)
    assert result["iterations"][3]["waiting_order"] == [1, 2, 3]
