"""Hand-worked runs of the engine: `vllm`, `sarathi`, `prefill_first`, `orca`.

Unless a test says otherwise an iteration lasts a second, and `vllm` schedules in step with the
output and caches nothing. Tables hold (start, end, scheduled); the arithmetic is in the comments.
"""

from vecsched import CostModel, SchedulerConfig, Trace, simulate

# 1 s an iteration, 0.1 a prefill token, 0.2 a decode, 0.01 a KV token that a decode reads.
AFFINE = CostModel.affine(1.0, 0.1, 0.2, 0.01)

IN_STEP = {"async_scheduling": False, "enable_prefix_caching": False}
AS_DEPLOYED = {"async_scheduling": True, "enable_prefix_caching": True}


def trace_of(*requests, **columns):
    """Requests as (arrival, prompt, output)."""
    return Trace(*zip(*requests, strict=True), **columns)


def run(trace, discipline, cost=None, **changes):
    small = {"max_batch_size": 4, "max_num_batched_tokens": 8, "block_size": 4}
    config = SchedulerConfig(discipline=discipline, **small | IN_STEP | changes)
    return simulate(trace, config, cost or CostModel.unit(), log_iterations=True)


def table(result):
    log = result.iterations
    return list(zip(log["start_s"], log["end_s"], log["scheduled"], strict=True))


def each(result, name):
    return result.iterations[name].tolist()


def column(result, name):
    return result.requests[name].tolist()


# vllm


def preempting():
    """In five blocks of 2 the two requests meet in the third iteration."""
    return trace_of((0.0, 3, 4), (0.0, 4, 3))


def test_vllm_preempts_and_computes_anew():
    result = run(preempting(), "vllm", kv_blocks=5, block_size=2)
    assert table(result) == [
        (0, 1, [(0, 3), (1, 4)]),  # ceil(3 / 2) + ceil(4 / 2) = 4 blocks
        (1, 2, [(0, 1), (1, 1)]),  # 4 and 5 tokens: 2 + 3
        (
            2,
            3,
            [(0, 1)],
        ),  # the 5th token needs a third block: row 1, admitted last, gives its three
        (3, 4, [(0, 1)]),  # 6 tokens and 4 of output; row 1 would need ceil(6 / 2) = 3 of 2
        (4, 5, [(1, 6)]),  # prompt and 2 of output anew, and the third comes out
    ]
    assert each(result, "preempted") == [[], [], [1], [], []]
    assert each(result, "admitted") == [[0, 1], [], [], [], [1]]
    assert each(result, "finished") == [[], [], [], [0], [1]]
    assert each(result, "free_kv_blocks") == [1, 0, 2, 2, 2]
    assert each(result, "blocked_row") == [-1, -1, 1, 1, -1]
    assert column(result, "preemptions") == [0, 1]
    assert column(result, "recomputed_tokens") == [0, 5]
    assert column(result, "blocked_kv_blocks_s") == [0.0, 2.0]
    assert column(result, "max_itl_s") == [1.0, 3.0]  # tokens at 1, 2 and 5
    assert result.summary["recomputed_tokens"] == 5


def test_vllm_as_deployed():
    # Preempted as above, but row 1 finds 4 of its 6 tokens, and a step is decided one step ahead.
    result = run(preempting(), "vllm", kv_blocks=5, block_size=2, **AS_DEPLOYED)
    assert table(result) == [
        (0, 0, [(0, 3), (1, 4)]),  # nothing to wait for: the next one is decided at once
        (0, 1, [(0, 1), (1, 1)]),  # for the output of the first
        (1, 2, [(0, 1)]),  # row 0 wants a third block: row 1 gives its three
        (2, 3, [(0, 1)]),  # row 1 has both tokens: 6 are known, for 3 blocks of 2 that are free
        # The last token of row 0 is on the way and comes at 4. An empty step: 1 ms of sleep.
        (3, 4.001, []),
        (4.001, 4.001, [(1, 2)]),  # two full blocks found; the worker is at it until 5.001
        (4.001, 5.001, []),
    ]
    assert each(result, "preempted") == [[], [], [1], [], [], [], []]
    assert each(result, "finished") == [[], [], [], [], [0], [], [1]]
    assert each(result, "free_kv_blocks") == [1, 0, 2, 2, 2, 2, 2]
    assert each(result, "num_cached_tokens") == [[], [], [], [], [], [(1, 4)], []]
    assert column(result, "finished_s") == [4.0, 5.001]
    assert column(result, "recomputed_tokens") == [0, 1]  # 5 lost, 4 of them found again
    assert column(result, "cached_own_tokens") == [0, 4]


def test_by_default_vllm_is_as_deployed():
    assert SchedulerConfig(discipline="vllm", **AS_DEPLOYED) == SchedulerConfig(discipline="vllm")


def test_vllm_what_strictness_costs():
    # Each reserves ceil(7 / 2) = 4 of 5 blocks, so one runs after the other. What is set aside for
    # later stands idle: 7 s where the optimist, who computes 5 tokens twice, takes 5.
    strict = run(preempting(), "vllm", kv_blocks=5, block_size=2, kv_reserve="full")
    assert table(strict) == [
        (0, 1, [(0, 3)]),
        *[(t, t + 1, [(0, 1)]) for t in (1, 2, 3)],
        (4, 5, [(1, 4)]),
        *[(t, t + 1, [(1, 1)]) for t in (5, 6)],
    ]
    optimist = run(preempting(), "vllm", kv_blocks=5, block_size=2)
    assert each(strict, "free_kv_blocks") == [1] * 7
    assert column(strict, "queue_wait_s") == [0.0, 4.0]
    assert column(optimist, "queue_wait_s") == [0.0, 0.0]
    figures = ("makespan_s", "preemptions", "recomputed_tokens", "batch_occupancy")
    # Slots in use of 4: one in each of 7 iterations; 2 + 2 + 1 + 1 + 1 in 5.
    assert [strict.summary[name] for name in figures] == [7.0, 0, 0, 7 / 28]
    assert [optimist.summary[name] for name in figures] == [5.0, 1, 5, 7 / 20]


def test_vllm_fills_the_budget_with_a_chunk():
    result = run(trace_of((0.0, 2, 3), (0.0, 7, 1)), "vllm", AFFINE, max_num_batched_tokens=4)
    assert table(result) == [
        (0, 1.4, [(0, 2), (1, 2)]),  # 1 + 4 x 0.1
        (1.4, 2.93, [(0, 1), (1, 3)]),  # 1 + 0.2 + 3 x 0.01 + 3 x 0.1 = 1.53
        (2.93, 4.37, [(0, 1), (1, 2)]),  # 1 + 0.2 + 4 x 0.01 + 2 x 0.1 = 1.44
    ]
    assert column(result, "first_token_s") == [1.4, 4.37]
    assert column(result, "finished_s") == [4.37, 4.37]


def test_vllm_spares_a_lone_request_the_threshold():
    trace = trace_of((0.0, 5, 1), (1.0, 9, 2), (1.0, 3, 1))
    result = run(trace, "vllm", long_prefill_token_threshold=2)
    assert table(result) == [
        (0, 1, [(0, 5)]),  # alone
        (1, 2, [(1, 2), (2, 2)]),
        (2, 3, [(1, 2), (2, 1)]),
        (3, 4, [(1, 5)]),  # alone again: all that is left
        (4, 5, [(1, 1)]),
    ]
    # max(2, 8 // 2) = 4 for two requests.
    adaptive = {"long_prefill_token_threshold_adaptive": True}
    result = run(trace, "vllm", long_prefill_token_threshold=2, **adaptive)
    assert table(result) == [
        (0, 1, [(0, 5)]),
        (1, 2, [(1, 4), (2, 3)]),
        (2, 3, [(1, 5)]),
        (3, 4, [(1, 1)]),
    ]
    older = run(trace, "vllm", long_prefill_token_threshold=2, vllm_version="0.19")
    assert each(older, "scheduled")[:3] == [
        [(0, 2)],
        [(0, 2), (1, 2), (2, 2)],
        [(0, 1), (1, 2), (2, 1)],
    ]


def test_vllm_takes_tokens_back_from_the_least_urgent():
    trace = trace_of((0.0, 3, 3), (1.0, 5, 3), priority=[9, 0])
    bounds = {"kv_blocks": 5, "block_size": 2, "max_num_batched_tokens": 4}
    result = run(trace, "vllm", policy="priority", **bounds)
    assert table(result) == [
        (0, 1, [(0, 3)]),  # 2 blocks
        (1, 2, [(0, 1), (1, 3)]),  # 2 + 2; row 1 gets what is left of 4 tokens
        # Row 0 takes the last block for its 5th token. Then row 1 needs a third one for its 5th:
        # row 0 is less urgent, returns its three blocks, and its token is not computed after all.
        (2, 3, [(1, 2)]),
        (3, 4, [(1, 1)]),  # 6 tokens, 3 blocks; row 0 would need ceil(5 / 2) = 3 of 2
        (4, 5, [(1, 1)]),  # 7 tokens, 4 blocks
        (5, 6, [(0, 4)]),  # 4 of 3 + 2 known tokens
        (6, 7, [(0, 1)]),
    ]
    assert each(result, "preempted") == [[], [], [0], [], [], [], []]
    assert each(result, "free_kv_blocks") == [3, 1, 2, 2, 1, 3, 2]
    assert column(result, "recomputed_tokens") == [4, 0]  # what was computed before that step
    assert column(result, "finished_s") == [7.0, 5.0]


# sarathi


def decode_and_long_prompt():
    return trace_of((0.0, 2, 4), (1.0, 7, 2))


def test_sarathi_mixes_chunks_with_decodes():
    result = run(decode_and_long_prompt(), "sarathi", max_num_batched_tokens=4)
    assert table(result) == [
        (0, 1, [(0, 2)]),
        (1, 2, [(0, 1), (1, 3)]),  # the decode first, 3 tokens are left
        (2, 3, [(0, 1), (1, 3)]),
        (3, 4, [(0, 1), (1, 1)]),
        (4, 5, [(1, 1)]),
    ]
    assert column(result, "max_itl_s") == [1.0, 1.0]
    assert column(result, "ttft_s") == [1.0, 3.0]
    # Switches of `vllm` change nothing.
    switched = {"enable_chunked_prefill": False, "long_prefill_token_threshold": 1}
    result_of_switched = run(
        decode_and_long_prompt(), "sarathi", max_num_batched_tokens=4, **switched
    )
    assert table(result_of_switched) == table(result)


def test_sarathi_preempts_a_prompt_between_its_chunks():
    trace = trace_of((0.0, 3, 4), (0.0, 6, 1))
    bounds = {"kv_blocks": 4, "block_size": 2, "max_num_batched_tokens": 4}
    result = run(trace, "sarathi", scheduler_reserve_full_isl=False, **bounds)
    assert table(result) == [
        (0, 1, [(0, 3), (1, 1)]),  # 2 + 1 blocks
        (1, 2, [(0, 1), (1, 3)]),  # 2 + 2
        (2, 3, [(0, 1)]),  # the 5th token: row 1 gives its two blocks
        (3, 4, [(0, 1)]),  # 3 tokens of row 1 would need ceil(3 / 2) = 2 of 1
        (4, 5, [(1, 4)]),
        (5, 6, [(1, 2)]),
    ]
    assert each(result, "free_kv_blocks") == [1, 0, 1, 1, 2, 1]
    assert column(result, "recomputed_tokens") == [0, 4]
    # Who looks at the whole prompt, ceil(6 / 2) = 3 of 2, lets it wait. It ends no later.
    careful = run(trace, "sarathi", **bounds)
    assert table(careful) == [
        (0, 1, [(0, 3)]),
        *[(t, t + 1, [(0, 1)]) for t in (1, 2, 3)],
        (4, 5, [(1, 4)]),
        (5, 6, [(1, 2)]),
    ]
    assert careful.summary["recomputed_tokens"] == 0


def test_sarathi_what_strictness_costs():
    trace = trace_of(*[(0.0, 4, 5)] * 3)
    bounds = {"kv_blocks": 4, "max_num_batched_tokens": 12}
    optimist = run(trace, "sarathi", **bounds)
    assert table(optimist) == [
        (0, 1, [(0, 4), (1, 4), (2, 4)]),  # a block each, one is left
        (1, 2, [(0, 1), (1, 1)]),  # row 0 takes it, row 1 takes row 2's
        *[(t, t + 1, [(0, 1), (1, 1)]) for t in (2, 3, 4)],  # up to 8 tokens, 2 blocks each
        (5, 6, [(2, 5)]),
        *[(t, t + 1, [(2, 1)]) for t in (6, 7, 8)],
    ]
    # A reservation is ceil(9 / 4) = 3 of 4 blocks: one request after the other, 5 s each.
    strict = run(trace, "sarathi", kv_reserve="full", **bounds)
    assert column(strict, "finished_s") == [5.0, 10.0, 15.0]
    assert column(optimist, "finished_s") == [5.0, 5.0, 9.0]
    # Both hold three quarters of the cache: 3 + 4 x 4 + 4 x 2 = 27 of 4 x 9 block seconds, 3 of 4
    # blocks; but of those 3 the strict one uses one or two.
    assert optimist.summary["kv_utilization"] == 27 / 36
    assert strict.summary["kv_utilization"] == 3 / 4
    assert (optimist.summary["preemptions"], optimist.summary["recomputed_tokens"]) == (1, 4)
    assert (strict.summary["preemptions"], strict.summary["recomputed_tokens"]) == (0, 0)
    # Both have 3 x 8 tokens to compute, in 9 s with 4 more, or in 15 s.
    assert optimist.summary["mean_batch_tokens"] == 28 / 9
    assert strict.summary["mean_batch_tokens"] == 24 / 15


# prefill_first


def test_prefill_first_lets_decodes_wait():
    # The input on which Sarathi never lets row 0 wait; the prompt must fit an iteration whole.
    result = run(decode_and_long_prompt(), "prefill_first")
    assert table(result) == [
        (0, 1, [(0, 2)]),
        (1, 2, [(1, 7)]),
        (2, 3, [(0, 1), (1, 1)]),
        (3, 4, [(0, 1)]),
        (4, 5, [(0, 1)]),
    ]
    assert column(result, "max_itl_s") == [2.0, 1.0]  # row 0 has tokens at 1, 3, 4, 5
    assert column(result, "ttft_s") == [1.0, 1.0]  # a second, not three


def test_prefill_first_computes_the_preempted_anew_in_one_piece():
    trace = trace_of((0.0, 4, 6), (0.0, 4, 2), (0.0, 4, 4))
    result = run(trace, "prefill_first", kv_blocks=4, max_num_batched_tokens=12)
    assert table(result) == [
        (0, 1, [(0, 4), (1, 4), (2, 4)]),  # a block each, one is left
        (1, 2, [(0, 1), (1, 1)]),  # row 0 takes it, row 1 takes row 2's, and ends
        (2, 3, [(2, 5)]),  # 4 + 1 known tokens in the two blocks that row 1 had; row 0 waits
        (3, 4, [(0, 1), (2, 1)]),
        (4, 5, [(0, 1), (2, 1)]),
        (5, 6, [(0, 1)]),
        (6, 7, [(0, 1)]),  # 9 tokens, 3 blocks
    ]
    assert each(result, "preempted") == [[], [2], *[[]] * 5]
    assert each(result, "free_kv_blocks") == [1, 0, 0, 0, 0, 2, 1]
    assert column(result, "recomputed_tokens") == [0, 0, 4]
    assert column(result, "max_itl_s") == [2.0, 1.0, 2.0]  # 2 to 4; 1 to 2; 1 to 3
    assert column(result, "finished_s") == [7.0, 2.0, 5.0]


def test_prefill_first_admits_what_fits_an_iteration():
    trace = trace_of((0.0, 5, 2), (0.0, 4, 2), (0.0, 2, 2))
    result = run(trace, "prefill_first")
    assert table(result) == [
        (0, 1, [(0, 5)]),  # 3 of 8 tokens are left for a prompt of 4, and nobody goes past it
        (1, 2, [(1, 4), (2, 2)]),
        (2, 3, [(0, 1), (1, 1), (2, 1)]),
    ]
    assert each(result, "blocked_reason") == ["token_budget", "", ""]
    passing = run(trace, "prefill_first", lookahead=1)
    assert table(passing) == [
        (0, 1, [(0, 5), (2, 2)]),
        (1, 2, [(1, 4)]),
        (2, 3, [(0, 1), (2, 1), (1, 1)]),  # in order of admission
    ]
    assert each(passing, "blocked_row") == [1, -1, -1]


# orca


def test_orca_computes_whole_prompts():
    result = run(trace_of((0.0, 3, 3), (0.0, 5, 2)), "orca", AFFINE, prefill_chunk_size=1)
    assert table(result) == [
        (0, 1.8, [(0, 3), (1, 5)]),  # 1 + 8 x 0.1, whatever the chunk size
        (1.8, 3.3, [(0, 1), (1, 1)]),  # 1 + 2 x 0.2 + (4 + 6) x 0.01
        (3.3, 4.55, [(0, 1)]),  # 1 + 0.2 + 5 x 0.01
    ]
    assert column(result, "finished_s") == [4.55, 3.3]


def test_orca_reserves_the_longest_output_possible():
    trace = trace_of(*[(0.0, 2, 2)] * 3)
    bounds = {"max_model_len": 12, "kv_blocks": 7}
    # ceil(12 / 4) = 3 blocks each, for 3 tokens that one block would hold: two fit 7.
    result = run(trace, "orca", **bounds)
    assert table(result) == [
        (0, 1, [(0, 2), (1, 2)]),
        (1, 2, [(0, 1), (1, 1)]),
        (2, 3, [(2, 2)]),
        (3, 4, [(2, 1)]),
    ]
    assert each(result, "free_kv_blocks") == [1, 1, 4, 4]
    assert column(result, "blocked_kv_blocks_s") == [0.0, 0.0, 2.0]
    paged = run(trace, "vllm", **bounds)
    assert table(paged) == [
        (0, 1, [(0, 2), (1, 2), (2, 2)]),
        (1, 2, [(0, 1), (1, 1), (2, 1)]),
    ]
    assert each(paged, "free_kv_blocks") == [4, 4]


def test_orca_lets_a_long_prompt_wait_for_a_whole_iteration():
    trace = trace_of((0.0, 4, 4), (1.0, 6, 1))
    result = run(trace, "orca", max_num_batched_tokens=6)
    assert table(result) == [
        (0, 1, [(0, 4)]),
        *[(t, t + 1, [(0, 1)]) for t in (1, 2, 3)],  # 6 tokens do not fit beside one
        (4, 5, [(1, 6)]),  # and completed with its prefill
    ]
    assert column(result, "blocked_token_budget_s") == [0.0, 3.0]
    assert column(result, "finished_s") == [4.0, 5.0]
    # A chunk of 5 fits.
    chunked = run(trace, "sarathi", max_num_batched_tokens=6)
    assert table(chunked)[1:] == [
        (1, 2, [(0, 1), (1, 5)]),
        (2, 3, [(0, 1), (1, 1)]),
        (3, 4, [(0, 1)]),
    ]
