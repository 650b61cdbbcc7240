"""Hand-worked timelines of asynchronous scheduling: two clocks, tokens on the way, early ends.

With the unit cost the worker computes each step for one second.
"""

import naive
import pytest
from hypothesis import given, settings
from naive.examples import UNIT_COST, affine_cost, column, request, seconds, small_config, table
from naive.requests import PS_PER_S
from prefix_cases import cases, run_oracle
from test_engine_equals_oracle import EXAMPLES

SOME = settings(EXAMPLES, max_examples=150)


def config_of(**changes):
    return small_config(**{"discipline": "vllm", "async_scheduling": True, **changes})


def run(requests, cost=UNIT_COST, **changes):
    config = config_of(**changes)
    result = naive.simulate(requests, config, cost)
    naive.check_invariants(requests, config, result)
    return result


def test_a_lone_request():
    # Steps 0 and 1 are decided at 0 s; the worker has them from 0 to 1 and from 1 to 2. The output
    # of step 0 comes at 1: step 2. At 2 there is the second token, and the third is on the way (of
    # step 2, from 2 to 3), so step 3 is empty; the loop waits for the output of step 2, until 3.
    result = run([request(0, 4, 3)])
    assert table(result) == [(0, 0, [(0, 4)]), (0, 1, [(0, 1)]), (1, 2, [(0, 1)]), (2, 3, [])]
    assert [it["got_token"] for it in result["iterations"]] == [[], [0], [0], [0]]
    assert [it["finished"] for it in result["iterations"]] == [[], [], [], [0]]
    (row,) = result["requests"]
    assert (row["admitted_s"], row["first_token_s"], row["finished_s"]) == (0.0, 1.0, 3.0)
    # 3 seconds, as it would be one step at a time; the two steps at 0 are an iteration each.
    assert (row["slowdown"], row["max_itl_s"]) == (1.0, 1.0)
    assert result["summary"]["iterations"] == 4
    # The time is that of the records: 0, 1, 1, 1 s with one slot of four in use, 3 s in all.
    assert result["summary"]["batch_occupancy"] == 0.25
    assert result["summary"]["busy_fraction"] == 1.0


def test_an_arrival_waits_for_the_next_output_only():
    # Row 1 comes at 0.5 and joins at 1, when the output of step 0 has come. It is in step 2, which
    # the worker has from 2 to 3. Both end with that step.
    result = run([request(0, 4, 3), request(0.5, 4, 1)])
    assert table(result) == [
        (0, 0, [(0, 4)]),
        (0, 1, [(0, 1)]),
        (1, 2, [(0, 1), (1, 4)]),
        (2, 3, []),
    ]
    assert column(result, "admitted_s") == [0.0, 1.0]
    assert column(result, "finished_s") == [3.0, 3.0]


def test_steps_of_different_lengths():
    # A step takes 1 s, and 1 s for a prefill token, 0.5 s for a decode.
    # Worker: step 0 (2 tokens) 0 to 3, step 1 (a decode) to 4.5, step 2 (a decode) to 6.
    # Row 1 comes at 3.5 and joins at 4.5, with the output of step 1; step 3 (1 token) 6 to 8.
    result = run([request(0, 2, 3), request(3.5, 1, 1)], affine_cost(1.0, 1.0, 0.5, 0.0))
    assert table(result) == [
        (0, 0, [(0, 2)]),
        (0, 3, [(0, 1)]),
        (3, 4.5, [(0, 1)]),
        (4.5, 6, [(1, 1)]),
        (6, 8, []),
    ]
    assert column(result, "finished_s") == [6.0, 8.0]
    assert column(result, "ttft_s") == [3.0, 4.5]


def test_a_decode_reads_tokens_on_the_way():
    # 1 s for a KV token read. Step 1 reads 4 + 1 tokens, of which the last is on the way, step 2 6.
    # Worker: 0 to 1, to 7 (1 + 5), to 14 (1 + 6).
    result = run([request(0, 4, 3)], affine_cost(1.0, 0.0, 0.0, 1.0))
    assert [end for _, end, _ in table(result)] == [0, 1, 7, 14]


def test_after_an_empty_step_the_loop_sleeps():
    # One slot. Row 0 has its only token on the way in step 1, which is empty; it comes at 1 s. Row
    # 1 is left, so the loop sleeps until 1.001; then steps 2 and 3 are decided at once.
    # Worker: step 2 from 1.001 to 2.001, step 3 to 3.001.
    result = run([request(0, 4, 1), request(0, 4, 2)], max_batch_size=1)
    assert table(result) == [
        (0, 0, [(0, 4)]),
        (0, 1.001, []),
        (1.001, 1.001, [(1, 4)]),
        (1.001, 2.001, [(1, 1)]),
        (2.001, 3.001, []),
    ]
    # The client has the token before the loop sleeps; at the very end nobody is left to sleep for.
    assert column(result, "finished_s") == [1.0, 3.001]
    assert column(result, "admitted_s") == [0.0, 1.001]
    # Steps 0 and 1 leave row 1 waiting for a slot, 0 and 1.001 s.
    assert column(result, "blocked_slot_s") == [0.0, 1.001]


def test_the_victim_ends_while_it_waits():
    # Two blocks. In step 1 row 0 needs a second one for its 5th token; the victim is row 1, whose
    # only token is on the way. It comes at 1 s, and row 1 is completed without being resumed.
    result = run([request(0, 4, 2), request(0, 4, 1)], kv_blocks=2)
    assert table(result) == [(0, 0, [(0, 4), (1, 4)]), (0, 1, [(0, 1)]), (1, 2, [])]
    second = result["iterations"][1]
    assert (second["preempted"], second["waiting_order"], second["finished"]) == ([1], [1], [1])
    assert column(result, "finished_s") == [2.0, 1.0]
    assert column(result, "preemptions") == [0, 1]
    assert column(result, "recomputed_tokens") == [0, 0]  # lost, but not missed
    assert result["events"]["finished_while_waiting"] == 1


def test_the_victim_keeps_the_token_on_the_way():
    # Three blocks; row 1 preempts itself in step 1. Its first token comes at 1 s all the same. To
    # come back it needs two blocks, for 4 + 1 tokens, so it waits until row 0 is gone.
    # Row 0: steps 0 to 5 (4 + 5 tokens), the last of them from 5 to 6. Step 6, decided at 5, is
    # empty. Row 1: step 7 from 6.001 to 7.001, step 8 to 8.001.
    result = run([request(0, 4, 6), request(0, 4, 3)], kv_blocks=3)
    assert table(result)[:2] == [(0, 0, [(0, 4), (1, 4)]), (0, 1, [(0, 1)])]
    assert table(result)[5:] == [
        (4, 5, [(0, 1)]),
        (5, 6.001, []),
        (6.001, 6.001, [(1, 5)]),
        (6.001, 7.001, [(1, 1)]),
        (7.001, 8.001, []),
    ]
    assert column(result, "first_token_s") == [1.0, 1.0]
    assert column(result, "finished_s") == [6.0, 8.001]
    assert column(result, "max_itl_s") == [1.0, 6.001]  # from 1 to 7.001


def test_a_token_on_the_way_to_one_that_is_cancelled_is_dropped():
    # Cancelled at 1.5, which is noticed at 2 with two tokens received; step 2 would have made the
    # third, its last, at 3. Nobody is left, but the worker is at step 2: the loop waits for it,
    # without a step. Row 1 has come at 2.5 and joins at 3.
    result = run([request(0, 4, 3, cancel_at_s=1.5), request(2.5, 4, 1)])
    assert table(result) == [
        (0, 0, [(0, 4)]),
        (0, 1, [(0, 1)]),
        (1, 2, [(0, 1)]),
        (3, 3, [(1, 4)]),
        (3, 4, []),
    ]
    assert column(result, "status") == ["cancelled", "completed"]
    assert column(result, "finished_s") == [2.0, 4.0]
    assert column(result, "admitted_s") == [0.0, 3.0]
    assert result["summary"]["itl_max_s"] == 1.0


def test_completed_before_the_end_instant():
    # The last token comes at 3, before the boundary at 3 looks for timeouts.
    result = run([request(0, 4, 3)], timeout_s=3.0)
    assert column(result, "status") == ["completed"]


def test_a_head_that_can_never_run_fails():
    # Without chunked prefill a prompt of 12 tokens passes the budget of 8 only if the threshold
    # cuts it, which it does not when the request is alone. Nothing is on the way, so time does not
    # crawl from one empty step to the next.
    result = run([request(1, 12, 1)], enable_chunked_prefill=False, long_prefill_token_threshold=4)
    assert result["iterations"] == []
    (row,) = result["requests"]
    assert (row["status"], row["reason"], row["finished_s"]) == ("failed", "token_budget", 1.0)


def test_a_slot_comes_back_one_step_later():
    # Synchronously row 2 would be in the step after the one in which row 0 ends.
    requests = [request(0, 2, 2), request(0, 2, 5), request(0, 2, 1)]
    result = run(requests, max_batch_size=2)
    sync = naive.simulate(requests, config_of(max_batch_size=2, async_scheduling=False), UNIT_COST)
    both = [[(0, 2), (1, 2)], [(0, 1), (1, 1)]]
    assert [step for _, _, step in table(sync)][:3] == [*both, [(1, 1), (2, 2)]]
    assert [step for _, _, step in table(result)][:4] == [*both, [(1, 1)], [(1, 1), (2, 2)]]
    assert seconds(column(result, "admitted_ps")) == [0.0, 0.0, 2.0]


@pytest.mark.parametrize("discipline", ["strict", "sarathi", "orca"])
def test_only_vllm_is_asynchronous(discipline):
    with pytest.raises(AssertionError):
        run([request(0, 4, 1)], discipline=discipline)


def test_invariants_hold_without_a_cache():
    # With it they are checked in test_naive_prefix.py.
    preempting = []

    @SOME
    @given(cases(shared=False, asynchronous=True, caching=False))
    def check(case):
        result = run_oracle(case)
        naive.check_invariants(case.records, case.config.to_dict() | case.switches, result)
        preempting.append(result["summary"]["preemptions"] > 0)

    check()
    assert sum(preempting) > len(preempting) / 4


@pytest.mark.parametrize(
    ("number", "name", "value"),
    [
        (1, "scheduled", [(0, 1), (1, 1)]),  # row 1's last token is on the way
        (1, "preempted", []),
        (1, "finished", []),
        (1, "end_ps", 2 * PS_PER_S),
        (2, "scheduled", [(0, 1)]),
        (2, "finished", [1]),
        (0, "free_kv_blocks", 1),
    ],
)
def test_invariants_notice(number, name, value):
    requests, config = [request(0, 4, 2), request(0, 4, 1)], config_of(kv_blocks=2)
    result = naive.simulate(requests, config, UNIT_COST)
    naive.check_invariants(requests, config, result)
    result["iterations"][number][name] = value
    with pytest.raises(AssertionError):
        naive.check_invariants(requests, config, result)


def test_how_long_steps_take_decides_nothing():
    # With all requests there at once and no instants to come, the steps are the same ones when each
    # round takes a second, as in vLLM's step logs, which the oracle reproduces.
    alone = {"timeout_s": None, "max_wait_s": None}
    compared = []

    @SOME
    @given(cases(shared=True, asynchronous=True))
    def compare(case):
        at_once = [{**r, "arrival_s": 0.0, "cancel_at_s": None} for r in case.records]
        case = case._replace(records=at_once)
        in_time = run_oracle(case, **alone)
        in_steps = run_oracle(case, in_steps=True, **alone)
        for ours, theirs in zip(in_time["iterations"], in_steps["iterations"], strict=True):
            for name in ("scheduled", "preempted", "admitted", "finished", "free_queue"):
                assert ours[name] == theirs[name]
        compared.append(in_time["summary"]["preemptions"] > 0)

    compare()
    assert sum(compared) > len(compared) / 4


def test_without_pressure_the_steps_are_the_synchronous_ones():
    # With all requests there at once, and neither slots nor blocks nor early ends to matter, every
    # request is in the same steps. Only empty ones are added.
    quiet = {"kv_blocks": None, "max_batch_size": 64, "timeout_s": None, "max_wait_s": None}
    plain = {"max_num_batched_tokens": 64, "long_prefill_token_threshold": 0}
    compared = []

    @SOME
    @given(cases(shared=True, asynchronous=True))
    def compare(case):
        at_once = [{**r, "arrival_s": 0.0, "cancel_at_s": None} for r in case.records]
        case = case._replace(records=at_once)
        steps = [
            [it["scheduled"] for it in run_oracle(case, **quiet, **plain, **mode)["iterations"]]
            for mode in ({"async_scheduling": True}, {"async_scheduling": False})
        ]
        assert [step for step in steps[0] if step] == steps[1]
        compared.append(len(steps[1]) > 3)

    compare()
    assert sum(compared) > len(compared) / 2
