"""Hand-worked runs of `strict`. With the unit cost every iteration lasts one second."""

import math

import naive
import pytest
from naive.examples import UNIT_COST, affine_cost, column, request, seconds, small_config, table
from naive.requests import PS_PER_S

MS = 10**9


# Strict.


def test_a_chunked_prefill_beside_decodes():
    # Seconds: 1 an iteration, 0.5 a prefill token, 0.25 a decode, 0.01 a KV token read,
    # 0.001 x chunk x (2 x before + chunk).
    cost = affine_cost(1.0, 0.5, 0.25, 0.01, 0.001)
    requests = [request(0, 4, 3), request(1, 6, 2)]
    result = naive.simulate(requests, small_config(), cost)
    # 0: row 0's prompt                     1 + 2 + 0.016                     = 3.016
    # 1: row 0 reads 4 + 1; row 1's 4 of 6  1 + 2 + 0.25 + 0.05 + 0.016       = 3.316
    # 2: row 0 reads 4 + 2; row 1's 2 of 6  1 + 1 + 0.25 + 0.06 + 2 x 10/1000 = 2.330
    # 3: row 1 reads 6 + 1                  1 + 0.25 + 0.07                   = 1.320
    assert [it["scheduled"] for it in result["iterations"]] == [
        [(0, 4)],
        [(0, 1), (1, 4)],
        [(0, 1), (1, 2)],
        [(1, 1)],
    ]
    ends = [it["end_ps"] for it in result["iterations"]]
    assert ends == [3016 * MS, 6332 * MS, 8662 * MS, 9982 * MS]
    assert [it["finished"] for it in result["iterations"]] == [[], [], [0], [1]]
    assert column(result, "admitted_ps") == [0, 3016 * MS]
    assert column(result, "first_token_ps") == [3016 * MS, 8662 * MS]
    assert column(result, "finished_ps") == [8662 * MS, 9982 * MS]
    assert column(result, "max_itl_ps") == [3316 * MS, 1320 * MS]
    # Alone, row 0 takes 3.016 + 1.30 + 1.31; row 1 3.016 + (1 + 1 + 0.02) + 1.32.
    assert column(result, "isolated_ps") == [5626 * MS, 6356 * MS]
    assert column(result, "queue_wait_s") == [0.0, 2.016]
    assert column(result, "ttft_s") == [3.016, 7.662]
    assert column(result, "e2e_s") == [8.662, 8.982]
    assert column(result, "tpot_s") == [5.646 / 2, 1.32]
    assert column(result, "normalized_latency_s") == [8.662 / 3, 8.982 / 2]
    assert column(result, "slowdown") == [8662 / 5626, 8982 / 6356]


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("slot", {"max_batch_size": 1}),
        ("kv_blocks", {"kv_blocks": 3}),  # each reserves ceil((4 + 3) / 4) = 2
        ("kv_blocks", {"kv_blocks": 5, "max_tokens": 5}),  # ceil((4 + 5) / 4) = 3
        ("token_budget", {"max_num_batched_tokens": 4}),  # beside a decode 3 are left, 4 needed
        # The first gate failed is the reason:
        ("slot", {"max_batch_size": 1, "kv_blocks": 3, "max_num_batched_tokens": 4}),
        ("kv_blocks", {"kv_blocks": 3, "max_num_batched_tokens": 4}),
    ],
)
def test_each_gate_blocks(reason, changes):
    result = naive.simulate([request(0, 4, 3)] * 2, small_config(**changes), UNIT_COST)
    assert table(result) == [
        (0, 1, [(0, 4)]),
        (1, 2, [(0, 1)]),
        (2, 3, [(0, 1)]),
        (3, 4, [(1, 4)]),
        (4, 5, [(1, 1)]),
        (5, 6, [(1, 1)]),
    ]
    iterations = result["iterations"]
    assert [it["blocked_reason"] for it in iterations] == [reason] * 3 + [""] * 3
    assert [it["blocked_row"] for it in iterations] == [1] * 3 + [None] * 3
    assert [it["waiting"] for it in iterations] == [1] * 3 + [0] * 3
    assert column(result, f"blocked_{reason}_ps") == [0, 3 * PS_PER_S]
    assert result["summary"][f"blocked_{reason}_share"] == 0.5
    assert result["summary"]["empty_queue_share"] == 0.5


def test_prefill_has_a_bound_of_its_own():
    # 8 tokens an iteration, of them 4 of prefill: row 1 waits for row 0's prompt only,
    # for the decodes beside it do not count.
    config = small_config(max_prefill_tokens=4)
    result = naive.simulate([request(0, 4, 3), request(0, 4, 2)], config, UNIT_COST)
    assert table(result) == [(0, 1, [(0, 4)]), (1, 2, [(0, 1), (1, 4)]), (2, 3, [(0, 1), (1, 1)])]
    assert [it["blocked_reason"] for it in result["iterations"]] == ["token_budget", "", ""]


def test_a_single_output_token_stays_for_one_empty_iteration():
    # 1 s an iteration, 0.5 s a prefill token, 0.25 s a decode: the empty one costs 1 s.
    # It holds the only slot meanwhile, so the second request starts at 4 s.
    cost = affine_cost(1.0, 0.5, 0.25, 0.0)
    requests = [request(0, 4, 1), request(0, 2, 2)]
    result = naive.simulate(requests, small_config(max_batch_size=1), cost)
    assert table(result) == [
        (0, 3, [(0, 4)]),
        (3, 4, [(0, 0)]),
        (4, 6, [(1, 2)]),
        (6, 7.25, [(1, 1)]),
    ]
    assert [it["finished"] for it in result["iterations"]] == [[], [0], [], [1]]
    first, _ = result["requests"]
    assert (first["ttft_s"], first["e2e_s"], first["slowdown"]) == (3.0, 4.0, 1.0)
    assert math.isnan(first["tpot_s"])
    assert first["max_itl_ps"] is None
    assert math.isnan(first["max_itl_s"])


def test_who_waited_too_long_goes_first():
    # One slot, shortest first. Row 0 holds it until 3. Lengths in all: row 1 10, row 2 6, row 3 5.
    requests = [request(0, 4, 3), request(0, 8, 2), request(1, 4, 2), request(2, 4, 1)]
    config = small_config(max_batch_size=1, policy="shortest_total")
    by_length = naive.simulate(requests, config, UNIT_COST)
    # Row 3 from 3 (prompt, empty iteration), row 2 from 5, row 1 from 7.
    assert seconds(column(by_length, "admitted_ps")) == [0, 7, 5, 3]
    bounded = naive.simulate(requests, {**config, "max_wait_s": 3.0}, UNIT_COST)
    # At 3 row 1 has waited 3 and goes first, until 6 (two chunks, a decode). Then rows 2 and 3 have
    # waited 5 and 4: the older one first, though longer, until 8.
    assert seconds(column(bounded, "admitted_ps")) == [0, 3, 6, 8]

    # Of equal arrivals the first row is the older one, though both are longer than row 3.
    tie = [request(0, 4, 3), request(1, 8, 2), request(1, 4, 9), request(2, 4, 2)]
    tied = naive.simulate(tie, {**config, "max_wait_s": 2.0}, UNIT_COST)
    assert seconds(column(tied, "admitted_ps")) == [0, 3, 6, 15]


def test_lookahead_passes_over_the_blocked():
    # 4 blocks. Row 0 takes 3; rows 1 and 2 need 2 each, row 3 needs 1.
    requests = [request(0, 1, 2, kv_blocks=blocks) for blocks in (3, 2, 2, 1)]

    def first_iteration(**changes):
        result = naive.simulate(requests, small_config(kv_blocks=4, **changes), UNIT_COST)
        it = result["iterations"][0]
        return it["admitted"], it["blocked_row"], it["blocked_reason"], it["free_kv_blocks"]

    assert first_iteration(lookahead=0) == ([0], 1, "kv_blocks", 1)
    assert first_iteration(lookahead=1) == ([0], 1, "kv_blocks", 1)  # stops at row 2
    assert first_iteration(lookahead=2) == ([0, 3], 1, "kv_blocks", 0)
    # Row 3 takes the second and last slot, or there is only one: the slot stops everything.
    assert first_iteration(lookahead=2, max_batch_size=2) == ([0, 3], 1, "kv_blocks", 0)
    assert first_iteration(lookahead=2, max_batch_size=1) == ([0], 1, "slot", 1)


# Ends before the end.


def test_timeouts_of_the_active_and_the_waiting():
    # One slot, 2.5 s each. Row 0 is ended at 3 (2.5 is past), after 3 of 5 tokens. Row 1 runs from
    # 3, has its only token at 4, and is ended there (3.5 is past) before its empty iteration.
    # Row 2 waited from 1 and is ended at 4 in the queue.
    requests = [request(0, 4, 5), request(1, 4, 1), request(1, 4, 1)]
    config = small_config(max_batch_size=1, timeout_s=2.5)
    result = naive.simulate(requests, config, UNIT_COST)
    assert table(result) == [
        (0, 1, [(0, 4)]),
        (1, 2, [(0, 1)]),
        (2, 3, [(0, 1)]),
        (3, 4, [(1, 4)]),
    ]
    assert column(result, "status") == ["timed_out"] * 3
    assert seconds(column(result, "finished_ps")) == [3, 4, 4]
    assert seconds(column(result, "first_token_ps")) == [1, 4, None]
    assert seconds(column(result, "admitted_ps")) == [0, 3, None]
    assert [it["ended"] for it in result["iterations"]] == [[], [], [], [(0, "timed_out")]]
    assert column(result, "ttft_s")[:2] == [1.0, 3.0]
    assert all(math.isnan(value) for value in column(result, "e2e_s"))
    # Alone and without the bound they would take 5 and, with the empty iteration, 2.
    assert seconds(column(result, "isolated_ps")) == [5, 2, 2]


def test_the_earlier_of_cancellation_and_timeout_counts():
    # All time out at 2. Row 0 is cancelled at the same instant, row 1 after, row 2 before. Row 3
    # has its last token at 2 and is completed: the boundary at 2 comes after that.
    requests = [
        request(0, 1, 9, cancel_at_s=2.0),
        request(0, 1, 9, cancel_at_s=2.5),
        request(0, 1, 9, cancel_at_s=0.5),
        request(0, 1, 2, cancel_at_s=2.0),
    ]
    result = naive.simulate(requests, small_config(timeout_s=2.0), UNIT_COST)
    assert column(result, "status") == ["cancelled", "timed_out", "cancelled", "completed"]
    assert seconds(column(result, "finished_ps")) == [2, 2, 1, 2]


def test_cancellation_before_arrival():
    # Row 1 joins at the boundary at 2, row 2 at its arrival, for the engine is idle then.
    requests = [
        request(0, 4, 3),
        request(1.5, 4, 3, cancel_at_s=1.0),
        request(10.5, 4, 3, cancel_at_s=5.0),
    ]
    result = naive.simulate(requests, small_config(), UNIT_COST)
    assert table(result) == [(0, 1, [(0, 4)]), (1, 2, [(0, 1)]), (2, 3, [(0, 1)])]
    assert column(result, "status") == ["completed", "cancelled", "cancelled"]
    assert seconds(column(result, "finished_ps")) == [3, 2, 10.5]
    assert result["iterations"][2]["ended"] == [(1, "cancelled")]


def test_failed_at_the_door():
    requests = [
        request(0, 4, 3),
        request(0.25, 0, 0),
        request(0.25, 4, 0),
        request(0.5, 99, 11),  # longer than 10, and too large besides
        request(0.5, 31, 1),  # ceil((31 + 10) / 4) = 11 blocks
        request(0.75, 6, 1),  # a chunk of 6 in 5 tokens
        request(0.75, 5, 1, cancel_at_s=0.1),  # just fits, but is cancelled
        request(0.75, 5, 1, kv_blocks=11),  # its own figure counts
    ]
    config = small_config(
        kv_blocks=10, max_tokens=10, prefill_chunk_size=6, max_num_batched_tokens=5
    )
    result = naive.simulate(requests, config, UNIT_COST)
    reasons = ["", "empty_prompt", "empty_output", "max_tokens", "kv_blocks", "token_budget", ""]
    assert column(result, "reason") == [*reasons, "kv_blocks"]
    assert column(result, "status") == ["completed", *["failed"] * 5, "cancelled", "failed"]
    # The failed end when they arrive, the cancelled one at the boundary after.
    assert seconds(column(result, "finished_ps")) == [3, 0.25, 0.25, 0.5, 0.5, 0.75, 1, 0.75]
    assert result["summary"]["failed"] == 6
    bounded = small_config(max_prefill_tokens=3)
    result = naive.simulate([request(0, 4, 1), request(0, 3, 1)], bounded, UNIT_COST)
    assert column(result, "reason") == ["token_budget", ""]
