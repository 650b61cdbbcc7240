"""Hand-worked event tables of the engine: arrive, admitted, first token, finished.

Unless a test says otherwise an iteration takes 1 s, and on top 0.5 s a prefill token, 0.25 s a
decode and 0.125 s a KV token that a decode reads. A lone decode that reads j takes 1.25 + j / 8 s:

    j   5      6      7      8      9
    s   1.875  2.0    2.125  2.25   2.375
"""

import math

import pandas as pd
import pytest

from vecsched import CostModel, SchedulerConfig, Trace, simulate

COST = CostModel.affine(1.0, 0.5, 0.25, 0.125)


def run(requests, cost=COST, *, cancel_at_s=None, **settings):
    """Simulate (arrival, prompt, output) under 4 slots, 8 tokens, chunks and blocks of 4."""
    small = {"max_batch_size": 4, "max_num_batched_tokens": 8, "prefill_chunk_size": 4}
    config = SchedulerConfig(**{**small, "block_size": 4, **settings})
    trace = Trace(*zip(*requests, strict=True), cancel_at_s=cancel_at_s)
    return simulate(trace, config, cost, log_iterations=True)


def column(result, name):
    return [None if pd.isna(value) else value for value in result.requests[name]]


def events(result):
    """(admitted, first token, finished) of each request; None where it never came."""
    names = ("admitted_s", "first_token_s", "finished_s")
    return list(zip(*(column(result, name) for name in names), strict=True))


def batches(result):
    return result.iterations["scheduled"].tolist()


# Strict.


def test_a_jumped_stretch_grows_with_the_context():
    # Prompt: 1 + 4 x 0.5 = 3. Five decodes read 5 to 9: 5 x 1.25 + 35 / 8 = 10.625.
    result = run([(2.0, 4, 6)])
    assert events(result) == [(2.0, 5.0, 15.625)]
    assert result.stretches["iterations"].tolist() == [1, 5]
    ends = [5.0, 6.875, 8.875, 11.0, 13.25, 15.625]
    assert result.iterations["end_s"].tolist() == ends
    assert column(result, "max_itl_s") == [2.375]
    assert column(result, "tpot_s") == [10.625 / 5]
    assert result.summary["itl_p50_s"] == 2.125
    assert result.summary["makespan_s"] == 13.625


def test_an_arrival_in_the_middle_of_a_stretch():
    # Row 0's prompt until 3, decodes that read 5 and 6 until 4.875 and 6.875. Row 1 came at 5: its
    # 2 tokens beside a decode that reads 7 take 1 + 1 + 0.25 + 0.875 = 3.125, until 10. Decodes
    # that read 8 and 3 then take 1.5 + 11 / 8 = 2.875, until 12.875; the last one reads 9.
    result = run([(0.0, 4, 6), (5.0, 2, 2)])
    assert events(result) == [(0.0, 3.0, 15.25), (6.875, 10.0, 12.875)]
    assert result.stretches["iterations"].tolist() == [1, 2, 1, 1, 1]
    assert batches(result)[3:5] == [[(0, 1), (1, 2)], [(0, 1), (1, 1)]]
    assert column(result, "max_itl_s") == [3.125, 2.875]
    # Alone, row 1 takes 2 + (1.25 + 3 / 8); it took 7.875.
    assert column(result, "slowdown")[1] == 7.875 / 3.625


@pytest.mark.parametrize(
    ("reason", "settings"),
    [
        ("slot", {"max_batch_size": 1}),
        ("kv_blocks", {"kv_blocks": 3}),  # ceil((4 + 3) / 4) = 2 and ceil((4 + 2) / 4) = 2
        ("token_budget", {"max_num_batched_tokens": 4}),  # 3 are left beside a decode
    ],
)
def test_blocked_by_each_gate(reason, settings):
    # Row 0: prompt until 3, decodes that read 5 and 6. Row 1, here at 0.5, is blocked at 3 and at
    # 4.875, for 1.875 + 2 s, and has the engine to itself from 6.875: 3 s, then reads 5.
    result = run([(0.0, 4, 3), (0.5, 4, 2)], **settings)
    assert events(result) == [(0.0, 3.0, 6.875), (6.875, 9.875, 11.75)]
    assert column(result, "queue_wait_s") == [0.0, 6.375]
    assert column(result, f"blocked_{reason}_s") == [0.0, 3.875]
    assert result.iterations["blocked_reason"].tolist() == ["", reason, reason, "", ""]
    assert result.iterations["blocked_row"].tolist() == [-1, 1, 1, -1, -1]
    assert result.summary[f"blocked_{reason}_share"] == 3.875 / 11.75


def test_prefill_has_a_bound_of_its_own():
    # Room for 8 tokens, of them 4 of prompts: row 1 waits for row 0's prompt, until 3, and then
    # enters beside its decode: 1 + 2 + 0.25 + 5 / 8 = 3.875. Decodes that read 6 and 5: 2.875.
    result = run([(0.0, 4, 3), (0.0, 4, 2)], max_prefill_tokens=4)
    assert events(result) == [(0.0, 3.0, 9.75), (3.0, 6.875, 9.75)]
    assert result.iterations["blocked_reason"].tolist() == ["token_budget", "", ""]


def test_promotion_in_the_middle_of_a_stretch():
    # One slot, 1 s an iteration, fewest prompt tokens first, 4 s at most. Row 0 holds the slot
    # until 8. The blocked head is row 2 (2 tokens) from 1 on; row 1 is overdue at 4.5, so it is the
    # head from 5 on: 4 s and 3 s. It runs from 8 to 11 (two chunks). Row 2, overdue since 5, is the
    # head for 3 s more and runs until 13; row 3, overdue since 7, is the head for 2 s.
    requests = [(0.0, 4, 8), (0.5, 6, 2), (1.0, 2, 2), (3.0, 3, 2)]
    one_slot = {"max_batch_size": 1, "policy": "shortest_prompt"}
    result = run(requests, CostModel.unit(), max_wait_s=4.0, **one_slot)
    assert events(result) == [(0, 1, 8), (8, 10, 11), (11, 12, 13), (13, 14, 15)]
    assert column(result, "blocked_slot_s") == [0.0, 3.0, 7.0, 2.0]
    assert result.iterations["blocked_row"].tolist()[:8] == [-1, 2, 2, 2, 2, 1, 1, 1]
    # Without the bound rows 2 and 3 go first.
    unbounded = run(requests, CostModel.unit(), **one_slot)
    assert column(unbounded, "admitted_s") == [0, 12, 8, 10]


def test_ends_in_the_middle_of_a_stretch():
    # One slot, 6 s each. Row 0 has tokens at 3, 4.875 and 6.875, where its time is up. Row 1, still
    # waiting, is cancelled at 6.5, before its timeout at 7. Row 2 is in from 6.875: prompt 1 + 1 s,
    # so it gets its first token at 8.875 and is ended there, for its time was up at 8.
    requests = [(0.0, 4, 99), (1.0, 4, 4), (2.0, 2, 2)]
    cancellations = [math.nan, 6.5, math.nan]
    result = run(requests, cancel_at_s=cancellations, max_batch_size=1, timeout_s=6.0)
    assert column(result, "status") == ["timed_out", "cancelled", "timed_out"]
    assert events(result) == [(0.0, 3.0, 6.875), (None, None, 6.875), (6.875, 8.875, 8.875)]
    assert column(result, "max_itl_s") == [2.0, None, None]
    assert column(result, "e2e_s") == [None] * 3
    assert result.summary["itl_max_s"] == 2.0


def test_a_cancellation_at_the_timeout_is_a_cancellation():
    # Both time out at 4, within the iteration of the prompts (1 + 8 x 0.5 s): they end at 5.
    result = run([(0.0, 4, 9)] * 2, cancel_at_s=[4.0, 4.5], timeout_s=4.0)
    assert column(result, "status") == ["cancelled", "timed_out"]
    assert column(result, "finished_s") == [5.0, 5.0]


def test_one_output_token_waits_out_an_iteration():
    # Both prompts: 1 + 8 x 0.5 = 5. Row 1 has its only token, but goes on for one iteration, in
    # which row 0 reads 5, and is completed at 6.875.
    result = run([(0.0, 4, 3), (0.0, 4, 1)])
    assert events(result) == [(0.0, 5.0, 8.875), (0.0, 5.0, 6.875)]
    assert batches(result) == [[(0, 4), (1, 4)], [(0, 1), (1, 0)], [(0, 1)]]
    # Alone the empty iteration costs its fixed second: 3 + 1.
    assert column(result, "slowdown")[1] == 6.875 / 4


def test_chunks_pay_for_the_prompt_before_them():
    # Chunks 4, 4, 2 of ten, and 0.01 s x chunk x (2 x before + chunk): 0.16, 0.48, 0.36.
    cost = CostModel.affine(1.0, 0.5, 0.25, 0.125, 0.01)
    result = run([(0.0, 10, 2)], cost)
    assert result.iterations["end_s"].tolist() == [3.16, 6.64, 9.0, 11.625]
    assert column(result, "slowdown") == [1.0]


# Static.


def test_static_runs_to_the_end_of_its_longest():
    # Prompts of 4 and 2: 1 + 3 = 4. Decodes that read 5 and 3: 1 + 0.5 + 1 = 2.5, and row 1 is
    # done; row 0 goes on alone, reading 6 to 9: 8.75, until 15.25. Row 2, here at 1, is blocked at
    # 4, 6.5, ... for 11.25 s; its prompt takes 2 s, its decode reads 3.
    requests = [(0.0, 4, 6), (0.0, 2, 2), (1.0, 2, 2)]
    result = run(requests, discipline="static", max_batch_size=2)
    assert events(result) == [(0.0, 4.0, 15.25), (0.0, 4.0, 6.5), (15.25, 17.25, 18.875)]
    assert result.stretches["iterations"].tolist() == [1, 1, 4, 1, 1]
    assert column(result, "blocked_slot_s") == [0.0, 0.0, 11.25]
    # Both slots are taken for 15.25 s, one for 3.625.
    assert result.summary["batch_occupancy"] == (2 * 15.25 + 3.625) / (2 * 18.875)


def test_static_prompts_share_the_budget():
    # 4 tokens an iteration: 4 of row 0, then 2 and 2, each 3 s, then 1 of row 1, 1.5 s. The decodes
    # read 7 and 4: 1.5 + 11 / 8 = 2.875. Row 0 waited for it since 6, row 1 since 7.5.
    result = run([(0.0, 6, 2), (0.0, 3, 2)], discipline="static", max_num_batched_tokens=4)
    assert batches(result) == [[(0, 4)], [(0, 2), (1, 2)], [(1, 1)], [(0, 1), (1, 1)]]
    assert events(result) == [(0.0, 6.0, 10.375), (0.0, 7.5, 10.375)]
    assert column(result, "max_itl_s") == [4.375, 2.875]
    assert result.summary["itl_p50_s"] == 3.625  # in the middle between the two


def test_static_holds_slot_and_blocks_of_a_cancelled_member():
    # Prompts: 1 + 4 = 5. Decodes that read 5 and 5: 1.5 + 1.25 = 2.75, until 7.75, where row 0
    # is ended (cancelled at 7). Row 1 reads 6 until 9.75; only there does row 2 get in.
    # Of 8 blocks row 0 takes ceil(24 / 4) = 6, rows 1 and 2 take 2 each.
    requests = [(0.0, 4, 20), (0.0, 4, 3), (0.0, 4, 2)]
    result = run(requests, cancel_at_s=[7.0, None, None], discipline="static", kv_blocks=8)
    assert column(result, "status") == ["cancelled", "completed", "completed"]
    assert events(result) == [(0.0, 5.0, 7.75), (0.0, 5.0, 9.75), (9.75, 12.75, 14.625)]
    assert result.iterations["free_kv_blocks"].tolist() == [0, 0, 0, 6, 6]
    reasons = ["kv_blocks", "slot", "slot", "", ""]  # once the batch runs it is the slot
    assert result.iterations["blocked_reason"].tolist() == reasons


def test_static_takes_no_more_members_than_decodes_fit():
    # 2 tokens an iteration, so 2 members, though there are 4 slots. Prompts of 1: 1 + 1 = 2;
    # decodes that read 2 and 2: 1.5 + 0.5 = 2. Row 2: 1.5, and a decode of 1.5.
    result = run([(0.0, 1, 2)] * 3, discipline="static", max_num_batched_tokens=2)
    assert events(result) == [(0.0, 2.0, 4.0), (0.0, 2.0, 4.0), (4.0, 5.5, 7.0)]
    assert result.iterations["blocked_reason"].tolist() == ["token_budget", "slot", "", ""]
