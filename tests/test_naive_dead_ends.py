"""Where `vllm` gets nowhere: requests that fail in the queue, or never get on, worked by hand."""

import math

import naive
import pytest
from naive.examples import UNIT_COST, column, request, seconds, small_config


def run(requests, **changes):
    """A result that has passed the invariants."""
    config = small_config(**changes)
    result = naive.simulate(requests, config, UNIT_COST)
    naive.check_invariants(requests, config, result)
    return result


# Dead ends: row 1 is preempted with 9 known tokens, which may not be cut to 8.


def dead_end(row_2_arrival=0, more=(), **changes):
    requests = [request(0, 4, 8), request(0, 7, 4), request(row_2_arrival, 2, 1), *more]
    return run(
        requests,
        discipline="vllm",
        enable_chunked_prefill=False,
        kv_blocks=4,
        max_batch_size=2,
        **changes,
    )


def test_a_head_that_never_fits_again_fails():
    # 0: row 0's 4; row 1's 7 do not fit beside them.   1: they do beside a decode.
    # 3: 7 and 9 tokens want 2 and 3 blocks: row 1 preempts itself, with 8 computed and 2 tokens
    # out. Row 0 runs on to 8; then nothing does, and nothing will change: row 1 fails, and row 2
    # is admitted at that very boundary.
    result = dead_end()
    assert [it["scheduled"] for it in result["iterations"]] == [
        [(0, 4)],
        [(0, 1), (1, 7)],
        [(0, 1), (1, 1)],
        *[[(0, 1)]] * 5,
        [(2, 2)],
    ]
    assert result["iterations"][3]["preempted"] == [1]
    reasons = [it["blocked_reason"] for it in result["iterations"]]
    assert reasons == ["token_budget", "slot", "slot", "kv_blocks", *["token_budget"] * 4, ""]
    failed = result["requests"][1]
    assert (failed["status"], failed["reason"]) == ("failed", "token_budget")
    assert seconds(column(result, "admitted_ps")) == [0, 1, 8]
    assert seconds(column(result, "first_token_ps")) == [1, 2, 9]
    assert seconds(column(result, "finished_ps")) == [8, 8, 9]
    assert failed["recomputed_tokens"] == 0  # it lost 8, but never computes them again
    assert failed["ttft_s"] == 2.0
    assert math.isnan(failed["e2e_s"])
    assert failed["max_itl_s"] == 1.0
    assert result["summary"]["failed"] == 1


@pytest.mark.parametrize(
    ("changes", "finished"),
    [
        ({"more": [request(20, 1, 1)]}, [8, 20, 21, 21]),  # an arrival might have helped
        # Row 1 times out at 15, before row 2's turn at 17.
        ({"row_2_arrival": 2, "timeout_s": 15.0}, [8, 15, 16]),
        # Promotions at 12 and 14 might have.
        ({"row_2_arrival": 2, "max_wait_s": 12.0}, [8, 14, 15]),
        ({"lookahead": 1}, [8, 8, 1]),  # row 2 fits beside the prompt of row 0
    ],
)
def test_a_head_fails_when_nothing_can_change(changes, finished):
    result = dead_end(**changes)
    assert seconds(column(result, "finished_ps")) == finished
    status = "timed_out" if "timeout_s" in changes else "failed"
    assert result["requests"][1]["status"] == status


@pytest.mark.parametrize("version", ["0.33", "0.19"])
def test_who_passes_only_in_company(version):
    # 13 tokens in iterations of 8, in one piece but for the threshold of 4. While row 1 is there
    # row 0 is cut to 4 and 4; then version 0.33 gives it the 5 left at once.
    requests = [request(0, 13, 1), request(0, 2, 2)]
    bounds = {
        "discipline": "vllm",
        "enable_chunked_prefill": False,
        "long_prefill_token_threshold": 4,
        "vllm_version": version,
    }
    result = run(requests, **bounds)
    tail = [[(0, 5)]] if version == "0.33" else [[(0, 4)], [(0, 1)]]
    batches = [it["scheduled"] for it in result["iterations"]]
    assert batches == [[(0, 4), (1, 2)], [(0, 4), (1, 1)], *tail]
    # Alone it is cut only in version 0.19: 4 + 4 + 4 + 1. Else it fails, and not at the door.
    alone = run(requests[:1], **bounds)
    assert column(alone, "reason") == ["token_budget" if version == "0.33" else ""]
    isolated = column(result, "isolated_ps")
    if version == "0.33":
        assert isolated == [None, 2 * 10**12]
        assert math.isnan(result["requests"][0]["slowdown"])
        assert result["summary"]["starvation_s"] == 20.0  # ten times the only one there is
    else:
        assert seconds(isolated) == [4, 2]
    # A threshold that still leaves more than an iteration holds does not help anybody.
    too_high = run(requests, **{**bounds, "long_prefill_token_threshold": 9})
    assert column(too_high, "reason") == ["token_budget", ""]
    assert seconds(column(too_high, "finished_ps")) == [0, 2]


def test_equals_may_preempt_each_other_for_ever():
    # vLLM's own rules: of full equals the first in `running` is the victim, and who comes back
    # stands last. Five blocks of one token, one token each an iteration, and admission looks at the
    # first chunk only. Blocks held, in the order of `running`:
    # 0: row 0 1, row 1 1.    1: row 0 2, row 1 2.
    # 2: row 0 takes the fifth, row 1 wants a third: row 0 loses all; row 1 3, its first token.
    # 3: row 1 4, row 0 1.    4: row 1 wants a fifth and is the first of equals itself; row 0 2.
    # 5: row 0 3, its first token; row 1 1.
    # 6: row 0 takes the fifth, row 1 wants a second: row 0 loses all; row 1 2.
    # 7: row 1 3, row 0 1.    8: as 6, the other way round: row 0 2.    9: row 0 3, row 1 1, as 5.
    # From 5 on both know four tokens, of which neither gets further than the third.
    requests = [request(0, 3, 3, priority=0, engine_time_s=0.0)] * 2
    config = small_config(
        discipline="vllm",
        policy="priority",
        block_size=1,
        kv_blocks=5,
        long_prefill_token_threshold=1,
        scheduler_reserve_full_isl=False,
    )
    # Blocks of (row 0, row 1): 1 1, 2 2; at 2 row 0 gets the 5th, row 1 takes it all back: - 3.
    # Row 1 goes on to 4 at 3, with its first token out, and row 0 is back with 1; row 0 needs a
    # second one at 4 and preempts row 1: 2 -. Then 3 1; - 2; 1 3; 2 -; 3 1 as it was.
    with pytest.raises(naive.LivelockError, match="at 10000000000000 ps"):
        naive.simulate(requests, config, UNIT_COST)
    # Somebody may end it in time: both time out at 30.
    timed_out = naive.simulate(requests, {**config, "timeout_s": 30.0}, UNIT_COST)
    assert seconds(column(timed_out, "finished_ps")) == [30, 30]
    # Stamps that differ settle it, and so does a look at the whole prompt.
    stamped = [{**r, "engine_time_s": float(row)} for row, r in enumerate(requests)]
    assert column(naive.simulate(stamped, config, UNIT_COST), "status") == ["completed"] * 2
    config["scheduler_reserve_full_isl"] = True
    assert column(naive.simulate(requests, config, UNIT_COST), "status") == ["completed"] * 2
