"""Hand-worked runs of `static`. With the unit cost every iteration lasts one second."""

import naive
import pytest
from naive.examples import UNIT_COST, column, request, seconds, small_config, table
from naive.requests import PS_PER_S


def test_static_runs_until_the_last_member_ends():
    # 2 slots, 4 tokens an iteration. Row 0 leaves nothing for row 1 at first; row 1 is completed
    # with its prompt, yet holds its slot until row 0 ends at 4. Row 2 waits for a slot until then.
    requests = [request(0, 6, 3), request(0, 2, 1), request(0, 2, 2)]
    config = small_config(
        discipline="static", max_batch_size=2, max_num_batched_tokens=4, kv_blocks=4
    )
    result = naive.simulate(requests, config, UNIT_COST)
    assert table(result) == [
        (0, 1, [(0, 4)]),
        (1, 2, [(0, 2), (1, 2)]),
        (2, 3, [(0, 1)]),
        (3, 4, [(0, 1)]),
        (4, 5, [(2, 2)]),
        (5, 6, [(2, 1)]),
    ]
    iterations = result["iterations"]
    assert [it["admitted"] for it in iterations] == [[0, 1], [], [], [], [2], []]
    assert [it["finished"] for it in iterations] == [[], [1], [], [0], [], [2]]
    assert [it["blocked_reason"] for it in iterations] == ["slot"] * 4 + [""] * 2
    # Blocks: ceil(9 / 4) = 3 and ceil(3 / 4) = 1, all 4 held to the end; then ceil(4 / 4) = 1.
    assert [it["free_kv_blocks"] for it in iterations] == [0] * 4 + [3] * 2
    assert seconds(column(result, "admitted_ps")) == [0, 0, 4]
    assert seconds(column(result, "first_token_ps")) == [2, 2, 5]
    assert seconds(column(result, "finished_ps")) == [4, 2, 6]
    assert column(result, "blocked_slot_ps") == [0, 0, 4 * PS_PER_S]
    assert result["summary"]["mean_batch_size"] == 10 / 6


def test_static_decodes_wait_for_every_prompt():
    # 4 tokens an iteration: row 0 has its prompt at 1, row 1 at 3 (2 + 4 + 2); both decode 3 to 4.
    requests = [request(0, 2, 2), request(0, 8, 2)]
    config = small_config(discipline="static", max_num_batched_tokens=4)
    result = naive.simulate(requests, config, UNIT_COST)
    assert table(result) == [
        (0, 1, [(0, 2), (1, 2)]),
        (1, 2, [(1, 4)]),
        (2, 3, [(1, 2)]),
        (3, 4, [(0, 1), (1, 1)]),
    ]
    assert seconds(column(result, "max_itl_ps")) == [3, 1]
    # Gaps 3 and 1: the median in the middle, p99 at 1 + 0.99 x 2.
    assert result["summary"]["itl_p50_s"] == 2.0
    assert result["summary"]["itl_p99_s"] == pytest.approx(2.98, abs=1e-15)
    assert result["summary"]["itl_max_s"] == 3.0


def test_static_ended_members_hold_slot_and_blocks():
    # 2 slots. Row 0 is cancelled at 2 and row 1 at 4: the batch ends there, and row 2 starts there.
    requests = [
        request(0, 4, 4, cancel_at_s=1.5),
        request(0, 4, 5, cancel_at_s=4.0),
        request(0, 4, 1),
    ]
    config = small_config(discipline="static", max_batch_size=2, kv_blocks=6)
    result = naive.simulate(requests, config, UNIT_COST)
    assert table(result) == [
        (0, 1, [(0, 4), (1, 4)]),
        (1, 2, [(0, 1), (1, 1)]),
        (2, 3, [(1, 1)]),
        (3, 4, [(1, 1)]),
        (4, 5, [(2, 4)]),
    ]
    # ceil(8 / 4) = 2 and ceil(9 / 4) = 3 of 6 blocks, then ceil(5 / 4) = 2.
    assert [it["free_kv_blocks"] for it in result["iterations"]] == [1, 1, 1, 1, 4]
    assert seconds(column(result, "finished_ps")) == [2, 4, 5]


def test_static_token_budget_is_a_decode_for_each_member():
    # Two tokens an iteration: two members, whatever their prompts; in pieces of 2, within 3.
    requests = [request(0, 3, 1)] * 3
    config = small_config(discipline="static", max_num_batched_tokens=2)
    result = naive.simulate(requests, config, UNIT_COST)
    assert table(result) == [
        (0, 1, [(0, 2)]),
        (1, 2, [(0, 1), (1, 1)]),
        (2, 3, [(1, 2)]),
        (3, 4, [(2, 2)]),
        (4, 5, [(2, 1)]),
    ]
    reasons = [it["blocked_reason"] for it in result["iterations"]]
    assert reasons == ["token_budget", "slot", "slot", "", ""]
    assert result["requests"][2]["blocked_token_budget_ps"] == PS_PER_S
