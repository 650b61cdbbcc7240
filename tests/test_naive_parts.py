"""The oracle's cost and policies, worked by hand."""

import math

import naive
import pytest
from naive.cost import iteration_ps, table_value_ps
from naive.examples import UNIT_COST, request, small_config

# Cost.


@pytest.mark.parametrize(
    ("points", "values"),
    [
        ([], [0, 0, 0]),
        ([[0, 7e-12]], [7, 7, 7]),  # a lone point at 0 is a constant
        ([[3, 3e-12]], [0, 1, 2, 3, 4]),  # from 0 at 0, and the slope goes on
        # 0, 1.5 (upwards), 3, 3 1/3, 3 2/3, 4, 4 1/3
        ([[2, 3e-12], [5, 4e-12]], [0, 2, 3, 3, 4, 4, 4]),
        # 5, 3.5 (upwards), 2, 0.5 (upwards), -1
        ([[0, 5e-12], [2, 2e-12]], [5, 4, 2, 1, -1]),
    ],
)
def test_table_value(points, values):
    assert [table_value_ps(points, n) for n in range(len(values))] == values


def test_every_term_of_the_cost():
    terms = {
        "fixed_s": 1.0,
        "token_s": [[1, 0.1]],
        "sequence_s": [[1, 0.01]],
        "decode_s": [[1, 0.001]],
        "context_s": [[0, 1e-6], [1, 1e-6]],
    }
    cost = {
        "decode": terms,
        "mixed": {**terms, "fixed_s": 2.0},
        "prefill_attention_s": 1e-7,
        "prefill_context_s": 1e-8,
        "chunk_decode_s": 1e-9,
    }
    # Three decodes that read 10, 20, 30: 1 + 3 x 0.1 + 3 x 0.01 + 3 x 0.001 + 60 x 10^-6 s
    assert iteration_ps(cost, [], [10, 20, 30]) == 1_333_060_000_000
    # Chunks of 4 behind 8 and of 2 behind 0, and a decode that reads 10: 7 tokens, 3 sequences.
    # 2 + 0.7 + 0.03 + 0.001 + 10 x 10^-6; attention (4 x 20 + 2 x 2) x 10^-7 = 8.4 x 10^-6;
    # context 8 x 10^-8; chunk x decodes 6 x 10^-9
    assert iteration_ps(cost, [(4, 8), (2, 0)], [10]) == 2_731_018_486_000


# Policies.


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("fcfs", [0, 1, 2, 3]),
        ("shortest_prompt", [3, 1, 2, 0]),  # prompts 9, 4, 4, 2
        ("shortest_output", [0, 2, 1, 3]),  # outputs 2, 6, 3, 7
        ("shortest_total", [2, 3, 1, 0]),  # 11, 10, 7, 9
        ("longest_total", [0, 1, 3, 2]),
        ("priority", [1, 3, 0, 2]),
        ("deadline", [2, 1, 0, 3]),  # rows 0 and 3 have none
        ("edf", [2, 1, 0, 3]),
        ("aging(0)", [2, 3, 1, 0]),  # as shortest_total
        ("aging(10)", [0, 2, 1, 3]),  # 11 + 2.5, 10 + 5, 7 + 7.5, 9 + 10
        ("aging", [0, 1, 2, 3]),  # 100: 11 + 25, 10 + 50, 7 + 75, 9 + 100
        # SplitMix64's published first outputs for seed 0: e220..., 6e78..., 06c4..., f88b...
        ("random(0)", [2, 1, 0, 3]),
        ("random", [2, 1, 0, 3]),
    ],
)
def test_policy_order(policy, order):
    # One slot, and a request that keeps it until all four others wait.
    arrivals, lengths = [0.25, 0.5, 0.75, 1.0], [(9, 2), (4, 6), (4, 3), (2, 7)]
    priorities, deadlines = [1, 0, 1, 0], [None, 8.0, 7.0, math.nan]
    requests = [
        request(at, prompt, output, priority=priority, deadline_s=deadline)
        for at, (prompt, output), priority, deadline in zip(
            arrivals, lengths, priorities, deadlines, strict=True
        )
    ]
    holder = request(0, 1, 2, priority=-1, deadline_s=0.0)
    config = small_config(policy=policy, max_batch_size=1)
    result = naive.simulate([*requests, holder], config, UNIT_COST)
    admitted = [row for it in result["iterations"] for row in it["admitted"]]
    assert [row for row in admitted if row != 4] == order


def test_arrival_order_is_by_picosecond_then_row():
    # Rows 1 and 2 differ by less than a picosecond, row 0 comes last.
    requests = [request(1.0, 1, 2), request(0.25, 1, 2), request(0.25 - 1e-14, 1, 2)]
    result = naive.simulate(requests, small_config(max_batch_size=1), UNIT_COST)
    admitted = [row for it in result["iterations"] for row in it["admitted"]]
    assert admitted == [1, 2, 0]
