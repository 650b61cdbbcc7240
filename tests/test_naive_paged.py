"""Hand-worked runs of `sarathi` and `prefill_first`: iterations of 1 s, blocks of 4 tokens."""

import naive
import pytest
from naive.examples import UNIT_COST, affine_cost, column, request, seconds, small_config, table
from naive.requests import PS_PER_S

MS = 10**9


def run(requests, **changes):
    """A result that has passed the invariants."""
    config = small_config(**changes)
    result = naive.simulate(requests, config, UNIT_COST)
    naive.check_invariants(requests, config, result)
    return result


def scheduled(result):
    return [it["scheduled"] for it in result["iterations"]]


def each(result, name):
    return [it[name] for it in result["iterations"]]


# Sarathi.


def test_sarathi_knows_no_threshold():
    requests = [request(0, 6, 2), request(0, 2, 2)]
    bounds = {"max_num_batched_tokens": 4, "long_prefill_token_threshold": 2}
    # vllm: 2 tokens each, row 1 decodes behind the prefill of row 0; alone, row 0 is not cut.
    by_vllm = run(requests, discipline="vllm", **bounds)
    assert scheduled(by_vllm) == [[(0, 2), (1, 2)], [(0, 2), (1, 1)], [(0, 2)], [(0, 1)]]
    # sarathi: the prompt in front fills the budget.
    by_sarathi = run(requests, discipline="sarathi", **bounds)
    assert scheduled(by_sarathi) == [[(0, 4)], [(0, 2), (1, 2)], [(0, 1), (1, 1)]]
    assert each(by_sarathi, "blocked_reason") == ["token_budget", "", ""]
    # Nor does it know prompts that may not be cut: it runs as before.
    uncut = run(requests, discipline="sarathi", enable_chunked_prefill=False, **bounds)
    assert scheduled(uncut) == scheduled(by_sarathi)


def test_sarathi_preempts_and_computes_anew():
    # Three blocks. Row 1 preempts itself at 1, when row 0 has taken the last one; it has one token
    # out of 4 + 1 known. From 2 on it would need ceil(5 / 4) = 2 of the 1 left.
    requests = [request(0, 4, 6), request(0, 4, 3)]
    result = run(requests, discipline="sarathi", kv_blocks=3)
    assert table(result) == [
        (0, 1, [(0, 4), (1, 4)]),
        (1, 2, [(0, 1)]),  # 5 tokens, 2 blocks
        (2, 3, [(0, 1)]),
        (3, 4, [(0, 1)]),
        (4, 5, [(0, 1)]),
        (5, 6, [(0, 1)]),  # 9 tokens, 3 blocks, the last of 6
        (6, 7, [(1, 5)]),
        (7, 8, [(1, 1)]),
    ]
    assert each(result, "preempted") == [[], [1], *[[]] * 6]
    assert each(result, "admitted") == [[0, 1], *[[]] * 5, [1], []]
    assert each(result, "resumed") == [*[[]] * 6, [1], []]
    assert each(result, "free_kv_blocks") == [1, 1, 1, 1, 1, 0, 1, 1]
    assert each(result, "blocked_row") == [None, *[1] * 5, None, None]
    assert each(result, "blocked_reason") == ["", *["kv_blocks"] * 5, "", ""]
    assert each(result, "slots_in_use") == [2, *[1] * 7]
    # Row 1 has its tokens at 1, 7 and 8, and is admitted once only, as far as its wait goes.
    assert column(result, "max_itl_ps") == [PS_PER_S, 6 * PS_PER_S]
    assert seconds(column(result, "admitted_ps")) == [0, 0]
    assert seconds(column(result, "first_token_ps")) == [1, 1]
    assert column(result, "preemptions") == [0, 1]
    assert column(result, "recomputed_tokens") == [0, 4]
    assert column(result, "blocked_kv_blocks_ps") == [0, 5 * PS_PER_S]
    assert column(result, "tpot_s") == [1.0, 3.5]  # (8 - 1) / 2
    assert column(result, "slowdown") == [1.0, 8 / 3]
    summary = result["summary"]
    assert (summary["preemptions"], summary["recomputed_tokens"]) == (1, 4)
    assert summary["kv_utilization"] == (2 + 2 + 2 + 2 + 2 + 3 + 2 + 2) / (3 * 8)
    # Gaps: 1, 1, 1, 1, 1 of row 0, and 6, 1.
    assert (summary["itl_p50_s"], summary["itl_max_s"]) == (1.0, 6.0)


@pytest.mark.parametrize("discipline", ["sarathi", "vllm", "prefill_first"])
def test_a_full_reservation_rules_preemption_out(discipline):
    # Row 0 reserves ceil(10 / 4) = 3 of 3 blocks, row 1 ceil(7 / 4) = 2: one after the other.
    requests = [request(0, 4, 6), request(0, 4, 3)]
    bounds = {"kv_reserve": "full", "max_num_batched_tokens": 9}
    result = run(requests, discipline=discipline, kv_blocks=3, **bounds)
    assert scheduled(result) == [[(0, 4)], *[[(0, 1)]] * 5, [(1, 4)], *[[(1, 1)]] * 2]
    assert each(result, "free_kv_blocks") == [*[0] * 6, *[1] * 3]
    assert each(result, "blocked_reason") == [*["kv_blocks"] * 6, *[""] * 3]
    assert result["summary"]["preemptions"] == 0
    # At the door: 10 tokens are reserved, of which 9 would be computed.
    assert column(run(requests, discipline=discipline, kv_blocks=2, **bounds), "reason") == [
        "kv_blocks",
        "",
    ]
    # The trace's own figure, or `max_tokens`, comes before the output.
    own = [{**r, "kv_blocks": 1} for r in requests]
    together = run(own, discipline=discipline, kv_blocks=3, **bounds)
    assert each(together, "free_kv_blocks")[0] == 1
    longest = run(requests, discipline=discipline, kv_blocks=5, max_tokens=9, **bounds)
    assert each(longest, "free_kv_blocks")[0] == 5 - 4  # ceil((4 + 9) / 4)


def test_a_victim_gives_its_tokens_back():
    # Both decode at 2 and need a third block: row 0 was given its token first, but is the less
    # urgent one. It comes back at 4 with 4 + 2 known tokens, 5 of which were computed before.
    requests = [request(0, 4, 4, priority=9), request(1, 4, 3, priority=0)]
    result = run(requests, discipline="sarathi", policy="priority", kv_blocks=3)
    assert scheduled(result) == [
        [(0, 4)],
        [(0, 1), (1, 4)],
        [(1, 1)],
        [(1, 1)],
        [(0, 6)],
        [(0, 1)],
    ]
    assert each(result, "preempted") == [[], [], [0], [], [], []]
    assert each(result, "free_kv_blocks") == [2, 0, 1, 1, 1, 1]
    assert column(result, "recomputed_tokens") == [5, 0]
    assert column(result, "max_itl_ps") == [3 * PS_PER_S, PS_PER_S]  # 2 to 5


@pytest.mark.parametrize(
    ("discipline", "version", "goes_on"),
    [
        ("vllm", "0.33", True),
        ("vllm", "0.19", False),
        ("sarathi", "0.33", True),
        ("sarathi", "0.19", True),  # a version of vLLM
    ],
)
def test_who_stands_behind_a_self_preemption(discipline, version, goes_on):
    # Two blocks. At 2 row 0, the less urgent, needs a second one for its 5th token and preempts
    # itself, in front of row 1. If the pass ends there, nothing is left of the step but its time.
    requests = [request(0, 3, 4, priority=9), request(1, 3, 3, priority=0)]
    result = run(
        requests, discipline=discipline, policy="priority", kv_blocks=2, vllm_version=version
    )
    empty = [] if goes_on else [[]]
    assert scheduled(result) == [
        [(0, 3)],
        [(0, 1), (1, 3)],
        *empty,
        [(1, 1)],
        [(1, 1)],
        [(0, 5)],
        [(0, 1)],
    ]
    assert each(result, "preempted")[2] == [0]
    assert each(result, "free_kv_blocks")[2] == 1
    assert each(result, "blocked_row")[2] == 0
    late = len(empty)
    assert seconds(column(result, "finished_ps")) == [6 + late, 4 + late]
    assert result["summary"]["iterations"] == 6 + late


@pytest.mark.parametrize("discipline", ["sarathi", "vllm"])
def test_the_last_token_computed_anew_is_a_decode(discipline):
    # 1 s an iteration, 0.5 a prefill token, 0.25 a decode, 0.01 a KV token read.
    cost = affine_cost(1.0, 0.5, 0.25, 0.01)
    requests = [request(0, 4, 6), request(0, 4, 3)]
    config = small_config(discipline=discipline, kv_blocks=3, max_num_batched_tokens=4)
    result = naive.simulate(requests, config, cost)
    # 0: row 0's prompt                                        1 + 2                    = 3.00
    # 1: row 0 reads 5, 2 blocks; row 1's 3 of 4               1 + 0.25 + 0.05 + 1.5    = 2.80
    # 2: row 0 reads 6; row 1's last, no output yet            1 + 0.25 + 0.06 + 0.5    = 1.81
    # 3 to 5: row 0 reads 7, 8, 9; row 1 preempts itself       1.32 + 1.33 + 1.34       = 3.99
    # 6: row 1's 4 of 5                                        1 + 2                    = 3.00
    # 7, 8: the 5th and the 6th: row 1 reads 5, then 6         1.30 + 1.31
    assert scheduled(result) == [
        [(0, 4)],
        [(0, 1), (1, 3)],
        [(0, 1), (1, 1)],
        *[[(0, 1)]] * 3,
        [(1, 4)],
        [(1, 1)],
        [(1, 1)],
    ]
    ends = [3000, 5800, 7610, 8930, 10260, 11600, 14600, 15900, 17210]
    assert each(result, "end_ps") == [end * MS for end in ends]
    assert column(result, "first_token_ps") == [3000 * MS, 7610 * MS]
    assert column(result, "max_itl_ps") == [2800 * MS, (15900 - 7610) * MS]
    assert column(result, "recomputed_tokens") == [0, 4]
    naive.check_invariants(requests, config, result)


# Prefill first.


def test_prefill_first_lets_decodes_wait():
    requests = [request(0, 4, 3), request(1, 4, 2), request(1, 6, 1)]
    result = run(requests, discipline="prefill_first")
    assert table(result) == [
        (0, 1, [(0, 4)]),
        (1, 2, [(1, 4)]),  # 4 of 8 tokens left, row 2 wants 6; row 0 does not decode
        (2, 3, [(2, 6)]),
        (3, 4, [(0, 1), (1, 1)]),
        (4, 5, [(0, 1)]),
    ]
    assert each(result, "blocked_reason") == ["", "token_budget", "", "", ""]
    assert each(result, "slots_in_use") == [1, 2, 3, 2, 1]
    assert column(result, "max_itl_ps") == [3 * PS_PER_S, 2 * PS_PER_S, None]
    # Up to 6, 5 and 6 tokens may have to be computed at once.
    bounded = run(requests, discipline="prefill_first", max_prefill_tokens=6)
    assert scheduled(bounded) == scheduled(result)
    bounded = run(requests, discipline="prefill_first", max_prefill_tokens=5)
    assert column(bounded, "reason") == ["token_budget", "", "token_budget"]


def test_prefill_first_preempts_and_computes_anew():
    # Four blocks, three of them taken at 0. At 1 rows 0 and 1 need one more each: row 2 gives its.
    requests = [request(0, 4, 3), request(0, 4, 3), request(0, 4, 3)]
    bounds = {"discipline": "prefill_first", "kv_blocks": 4, "max_num_batched_tokens": 12}
    result = run(requests, **bounds)
    assert table(result) == [
        (0, 1, [(0, 4), (1, 4), (2, 4)]),
        (1, 2, [(0, 1), (1, 1)]),
        (2, 3, [(0, 1), (1, 1)]),
        (3, 4, [(2, 5)]),
        (4, 5, [(2, 1)]),
    ]
    assert each(result, "preempted") == [[], [2], [], [], []]
    assert each(result, "admitted") == [[0, 1, 2], [], [], [2], []]
    assert each(result, "free_kv_blocks") == [1, 0, 0, 2, 2]
    assert column(result, "blocked_kv_blocks_ps") == [0, 0, 2 * PS_PER_S]
    assert column(result, "max_itl_ps") == [PS_PER_S, PS_PER_S, 3 * PS_PER_S]
    assert column(result, "recomputed_tokens") == [0, 0, 4]


def test_prefill_first_under_priority():
    # Row 1 is the most urgent, then row 2, then row 0: that is the order of admission. At 1 row 1
    # takes the block left, row 2 takes row 0's, whose turn does not come.
    requests = [request(0, 4, 3, priority=p) for p in (7, 1, 2)]
    bounds = {"discipline": "prefill_first", "kv_blocks": 4, "max_num_batched_tokens": 12}
    result = run(requests, policy="priority", **bounds)
    assert scheduled(result)[:2] == [[(1, 4), (2, 4), (0, 4)], [(1, 1), (2, 1)]]
    assert each(result, "preempted")[1] == [0]
    # The least urgent came first and stands first. At 2 it takes the block left; row 1 preempts it
    # and needs one of its two blocks, the other one is for row 2.
    requests = [request(0, 4, 3, priority=9), *[request(0.5, 4, 3, priority=1)] * 2]
    result = run(requests, policy="priority", **bounds)
    assert scheduled(result) == [
        [(0, 4)],
        [(1, 4), (2, 4)],
        [(1, 1), (2, 1)],
        [(1, 1), (2, 1)],
        [(0, 5)],
        [(0, 1)],
    ]
    assert each(result, "preempted") == [[], [], [0], [], [], []]
    assert each(result, "blocked_reason") == ["", "", "kv_blocks", "kv_blocks", "", ""]
    assert column(result, "recomputed_tokens") == [4, 0, 0]


def test_a_preemption_is_what_blocks_the_head():
    # Both slots are taken when row 2 comes. At 2 row 0 takes the last block and row 1 preempts
    # itself, and is the head from then on, ahead of row 2: for want of blocks, no more of a slot.
    requests = [request(0, 4, 3), request(0, 3, 3), request(1, 4, 1)]
    bounds = {"discipline": "prefill_first", "kv_blocks": 3, "max_batch_size": 2}
    result = run(requests, **bounds)
    assert scheduled(result) == [
        [(0, 4), (1, 3)],
        [(0, 1), (1, 1)],
        [(0, 1)],  # row 1 would compute its 5th token
        [(1, 5)],
        [(2, 4)],
    ]
    assert each(result, "preempted") == [[], [], [1], [], []]
    assert each(result, "blocked_row") == [None, 2, 1, 2, None]
    # At 3 the prompts do not fit an iteration of 8 together.
    assert each(result, "blocked_reason") == ["", "slot", "kv_blocks", "token_budget", ""]


def test_prefill_first_at_the_door():
    # A preempted request is computed anew in one piece: up to 4 + 5 - 1 = 8 tokens.
    requests = [request(0, 4, 5), request(0, 4, 6), request(0, 9, 1)]
    result = run(requests, discipline="prefill_first")
    assert column(result, "reason") == ["", "token_budget", "token_budget"]
    # The last token is not computed: 8 tokens in 2 blocks.
    assert column(run(requests[:1], discipline="prefill_first", kv_blocks=2), "reason") == [""]
    tight = run(requests, discipline="prefill_first", kv_blocks=2)
    assert column(tight, "reason") == ["", "kv_blocks", "kv_blocks"]
