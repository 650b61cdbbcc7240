"""Hand-worked runs of `orca`, and of `max_model_len` in every discipline: iterations of 1 s."""

import math

import naive
import pytest
from naive.examples import UNIT_COST, column, request, seconds, small_config, table


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


# Orca.


def test_orca_computes_whole_prompts_beside_decodes():
    # Row 2 fits beside nothing. Row 1 does beside one decode, whatever the chunk size.
    requests = [request(0, 6, 3), request(1, 7, 2), request(1, 8, 1)]
    result = run(requests, discipline="orca", prefill_chunk_size=2)
    assert table(result) == [
        (0, 1, [(0, 6)]),
        (1, 2, [(0, 1), (1, 7)]),
        (2, 3, [(0, 1), (1, 1)]),
        (3, 4, [(2, 8)]),  # completed with its prefill
    ]
    assert each(result, "finished") == [[], [], [0, 1], [2]]
    assert each(result, "blocked_row") == [None, 2, 2, None]
    assert each(result, "blocked_reason") == ["", "token_budget", "token_budget", ""]
    at_the_door = run([request(0, 9, 1)], discipline="orca", prefill_chunk_size=2)
    assert column(at_the_door, "reason") == ["token_budget"]


def test_orca_reserves_the_longest_possible():
    # max_model_len 10 is 3 blocks for each, whatever it wants, and leaves 6 tokens of 20.
    requests = [request(0, 4, 20), request(0, 2, 2), request(0, 2, 2, kv_blocks=1)]
    requests = [{"kv_blocks": None, **r} for r in requests]
    bounds = {"discipline": "orca", "kv_blocks": 6}
    result = run(requests, max_model_len=10, **bounds)
    assert table(result) == [
        (0, 1, [(0, 4), (1, 2)]),
        (1, 2, [(0, 1), (1, 1)]),
        (2, 3, [(0, 1), (2, 2)]),
        (3, 4, [(0, 1), (2, 1)]),
        (4, 5, [(0, 1)]),
        (5, 6, [(0, 1)]),
    ]
    assert each(result, "free_kv_blocks") == [0, 0, 0, 0, 3, 3]
    assert each(result, "blocked_reason") == ["kv_blocks", "kv_blocks", "", "", "", ""]
    # Else the outputs are reserved: ceil(24 / 4) = 6, then ceil(4 / 4) = 1, and the trace's 1.
    result = run(requests, **bounds)
    assert each(result, "free_kv_blocks") == [*[0] * 20, *[4] * 2]
    assert seconds(column(result, "admitted_ps")) == [0, 20, 20]


def test_orca_bounds_prefill_and_completes_with_it():
    requests = [request(0, 4, 1), request(0, 3, 2), request(0, 2, 1)]
    result = run(requests, discipline="orca", max_prefill_tokens=5)
    assert scheduled(result) == [[(0, 4)], [(1, 3), (2, 2)], [(1, 1)]]
    assert seconds(column(result, "finished_ps")) == [1, 3, 2]
    assert column(result, "slowdown")[0] == 1.0
    # Strict computes it in chunks and keeps row 0 for an empty iteration.
    result = run(requests, discipline="strict", max_prefill_tokens=5)
    assert seconds(column(result, "finished_ps")) == [2, 3, 3]


# `max_model_len`, in every discipline.


@pytest.mark.parametrize(
    "discipline", ["strict", "static", "vllm", "sarathi", "prefill_first", "orca"]
)
def test_the_model_length_cuts_outputs(discipline):
    # 10 tokens in all: 6 of 9 for row 0, as asked for row 1, none for rows 2 and 3.
    requests = [request(0, 4, 9), request(0, 4, 2), request(0, 10, 1), request(0, 10, 0)]
    bounds = {"max_num_batched_tokens": 10, "max_tokens": 8, "max_model_len": 10}
    result = run(requests, discipline=discipline, prefill_chunk_size=10, **bounds)
    assert column(result, "reason") == ["", "", "max_model_len", "empty_output"]
    assert column(result, "output_tokens") == [6, 2, 1, 0]
    assert seconds(column(result, "finished_ps")) == [6, 2, 0, 0]
    assert column(result, "tpot_s")[:2] == [1.0, 1.0]
    assert column(result, "normalized_latency_s")[:2] == [1.0, 1.0]
    assert column(result, "slowdown")[:2] == [1.0, 1.0]
    assert result["summary"]["output_tokens_per_s"] == 8 / 6
    # Without it the outputs are 9, which is more than 8, and 2.
    bounds = {"max_num_batched_tokens": 10, "max_tokens": 8}
    result = run(requests, discipline=discipline, prefill_chunk_size=10, **bounds)
    assert column(result, "reason") == ["max_tokens", "", "", "empty_output"]
    assert math.isnan(result["requests"][0]["ttft_s"])
