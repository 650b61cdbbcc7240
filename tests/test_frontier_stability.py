"""Probabilities of being on the frontier: luck, merit, pairing, and what cannot be told."""

import math
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.frontier import pareto_front
from sweeps.stability import frontier_probability
from vecsched.errors import InputError

X, Y = "goodput_requests_per_s", "slowdown_p99"


def sweep(runs, **columns):
    """A row a configuration and seed from {policy: [(x, y) on seed 0, on seed 1, ...]}."""
    rows = [
        {"policy": policy, "seed": seed, X: float(x), Y: float(y), "status": "ok"}
        for policy, points in runs.items()
        for seed, (x, y) in enumerate(points)
    ]
    return pd.DataFrame(rows).assign(**columns)


def probabilities(frame, **options):
    found = frontier_probability(frame, **options)
    return dict(zip(found["policy"], found["probability"], strict=True))


def test_two_seeds_by_hand():
    # Slowdown is the same: more goodput is on the frontier. With two seeds a draw is 00, 01, 10 or
    # 11. Means of a: 4, 2, 2, 0; of b, 1 always: a wins unless the draw is 11, in 3 of 4; b in 1.
    frame = sweep({"a": [(4, 1), (0, 1)], "b": [(1, 1), (1, 1)]})
    found = frontier_probability(frame, draws=10_000)
    assert found[X].tolist() == [2.0, 1.0]
    assert found["seeds"].tolist() == [2, 2]
    assert found["probability"].tolist() == pytest.approx([0.75, 0.25], abs=0.02)
    assert found["probability"].sum() == 1.0  # never both


def test_the_result_is_a_row_a_configuration():
    frame = sweep({"a": [(1, 1), (3, 3)], "b": [(2, 5), (4, 7)]}, load=1.0, block_size=16)
    found = frontier_probability(frame.set_index(pd.Index(list("pqrs"))), by="load")
    assert found.index.tolist() == ["p", "r"]
    assert found.columns.tolist() == ["load", "policy", "seeds", X, Y, "probability"]
    assert found[[X, Y]].to_numpy().tolist() == [[2.0, 2.0], [3.0, 6.0]]
    assert pareto_front(found)["probability"].tolist() == [1.0, 1.0]


def test_a_true_winner_is_certain_and_a_lucky_one_is_not():
    # Better on every seed: in every draw. And of twenty that differ by luck alone, none is sure to
    # be the best, though one of them has the best mean.
    luck = np.random.default_rng(1).random((20, 10))
    runs = {f"lucky {i}": [(1 + value, 1) for value in row] for i, row in enumerate(luck)}
    chances = probabilities(sweep(runs))
    front = pareto_front(frontier_probability(sweep(runs)))
    assert len(front) == 1
    assert max(chances.values()) < 0.8
    assert sum(chances.values()) == pytest.approx(1.0)
    chances = probabilities(sweep(runs | {"best": [(3, 1)] * 10}))
    assert chances["best"] == 1.0
    assert set(chances.values()) == {0.0, 1.0}


def test_seeds_are_drawn_for_all_configurations_alike():
    # Seeds differ by up to 100, the configurations by 1 on each. Drawn apart, b would often win.
    hard = [0, 100, 20, 60]
    frame = sweep({"a": [(x + 1, 1) for x in hard], "b": [(x, 1) for x in hard]})
    assert probabilities(frame) == {"a": 1.0, "b": 0.0}
    shuffled = frame.sample(frac=1.0, random_state=0)
    assert probabilities(shuffled) == {"a": 1.0, "b": 0.0}


def test_twins_are_both_on_the_frontier():
    points = [(0.1, 0.7), (0.3, 0.2), (0.7, 0.6)]
    assert probabilities(sweep({"a": points, "b": points})) == {"a": 1.0, "b": 1.0}


def test_groups_do_not_meddle():
    one = sweep({"a": [(4, 1), (0, 1)], "b": [(1, 1), (1, 1)]}, load=1.0)
    two = sweep({"a": [(9, 1), (9, 1)], "b": [(1, 1), (1, 2)]}, load=2.0)
    alone = frontier_probability(one, by="load")
    both = frontier_probability(pd.concat([two, one], ignore_index=True), by="load")
    assert both["load"].tolist() == [1.0, 1.0, 2.0, 2.0]
    assert both["probability"].tolist() == [*alone["probability"], 1.0, 0.0]
    # Without groups the loads are configurations that compete.
    together = frontier_probability(pd.concat([two, one], ignore_index=True))
    assert together["probability"].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_who_lacks_a_seed_takes_no_part():
    frame = sweep({"a": [(9, 1), (9, 1)], "b": [(1, 1), (1, 1)], "c": [(8, 1), (8, 1)]})
    frame.loc[1, "status"] = "error"
    frame.loc[5, Y] = np.inf
    found = frontier_probability(frame)
    assert found["seeds"].tolist() == [1, 2, 1]
    assert found["probability"].tolist()[1] == 1.0
    assert found[["probability", X, Y]].loc[[0, 4]].isna().all(axis=None)
    dropped = frontier_probability(frame.drop(index=1))
    assert dropped["seeds"].tolist() == [1, 2, 1]
    nobody = frontier_probability(frame.assign(status="error"))
    assert nobody["probability"].isna().all()
    assert frontier_probability(frame[:0]).empty


def test_three_objectives():
    # b is worst but in jain, by luck of seed 1: 0.5 or 0.5, 0.75, 1 against 0.6: in 3 of 4 draws.
    frame = sweep({"a": [(2, 1), (2, 1)], "b": [(1, 2), (1, 2)]})
    frame["jain"] = [0.6, 0.6, 0.5, 1.0]
    found = frontier_probability(frame, [X, "jain"], [Y], draws=10_000)
    assert found["probability"].tolist() == [1.0, pytest.approx(0.75, abs=0.02)]


def test_the_same_seed_gives_the_same_result():
    luck = np.random.default_rng(2).random((6, 5, 2))
    frame = sweep({str(i): row for i, row in enumerate(luck)})
    once = frontier_probability(frame, draws=50)
    pd.testing.assert_frame_equal(frontier_probability(frame, draws=50), once)
    other = frontier_probability(frame, draws=50, seed=1)
    assert other["probability"].tolist() != once["probability"].tolist()


VALUES = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=6))
@settings(deadline=None, max_examples=50)
def test_somebody_is_on_the_frontier_and_nobody_who_is_always_beaten(runs):
    frame = sweep({str(i): points for i, points in enumerate(runs)})
    chances = frontier_probability(frame, draws=20)["probability"].tolist()
    assert sum(chances) >= 1.0 - 1e-9
    for i, mine in enumerate(runs):
        assert 0.0 <= chances[i] <= 1.0
        beaten = [
            all(x > a and y < b for (a, b), (x, y) in zip(mine, other, strict=True))
            for other in runs
        ]
        if any(beaten):
            assert chances[i] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[f["seed"] == 0], "'seed': one seed cannot tell luck from merit"),
        (lambda f: f.assign(seed=None), "'seed': one seed cannot tell luck from merit"),
        (lambda f: f.drop(columns="seed"), "'seed': no such column"),
        (lambda f: f.assign(policy="a"), "point 2 repeats the configuration and seed of another"),
        (lambda f: f.drop(columns="policy"), "point 2 repeats"),
    ],
)
def test_what_cannot_be_told(change, message):
    frame = sweep({"a": [(1, 1), (2, 2)], "b": [(1, 1), (2, 2)]})
    with pytest.raises(InputError, match=message):
        frontier_probability(change(frame))


def test_at_least_one_draw():
    with pytest.raises(InputError, match="'draws': 0: must be 1 or more"):
        frontier_probability(sweep({"a": [(1, 1), (2, 2)]}), draws=0)


def test_a_thousand_configurations_take_seconds():
    gains = np.random.default_rng(0).random(1000)
    noise = np.random.default_rng(1).random((1000, 10, 2)) / 50
    runs = {str(i): [(x + a, x * x + b) for a, b in noise[i]] for i, x in enumerate(gains)}
    frame = sweep(runs)
    start = time.process_time()
    found = frontier_probability(frame)
    assert time.process_time() - start < 10  # 0.4 s on an idle laptop
    assert math.isclose(found["probability"].max(), 1.0, abs_tol=0.05)
