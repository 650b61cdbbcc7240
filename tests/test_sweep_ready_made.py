"""The sweeps that ship with vecsched run, and show what they say they show."""

import re

import pyarrow.parquet as pq
import pytest

from sweeps.run import run_sweep
from sweeps.space import Space
from sweeps.spec import SweepSpec, load_spec


def small(name: str, requests: int, load: float) -> SweepSpec:
    """A ready-made sweep cut down to fewer requests and one load."""
    content = load_spec(name).as_written()
    content["trace"][0]["requests"] = requests
    content["axes"]["load"] = [load]
    return SweepSpec.from_mapping(content)


def test_default_is_a_grid_with_a_cliff():
    spec = load_spec("default")
    space = Space(spec, tuple(spec.cost_models()))
    assert len(space) == 4 * 5 * 4 * 4 * 3 == 960
    configs = [choice.config for choice in space.choices()]
    # A chunk as large as the budget leaves no room for it beside a decode: one pair of twelve.
    cliff = [c for c in configs if c.prefill_chunk_size >= c.max_num_batched_tokens]
    assert len(cliff) * 12 == len(configs)


def test_smoke(tmp_path):
    outcome = run_sweep(load_spec("smoke"), tmp_path / "o.parquet")
    assert (outcome.points, outcome.failed) == (12, 0)


@pytest.fixture(scope="module")
def leanings(tmp_path_factory):
    path = tmp_path_factory.mktemp("leanings") / "o.parquet"
    run_sweep(small("leanings", requests=3000, load=1.4), path)
    return {row["variant"]: row for row in pq.read_table(path).to_pylist()}


def test_leanings_name_columns_that_exist(leanings):
    columns = set(leanings["static"])
    for variant in load_spec("leanings").variants:
        named = re.findall(r"[a-z0-9]+(?:_[a-z0-9]+)+", variant.about)
        assert len(named) >= 3
        assert set(named) <= columns


@pytest.mark.parametrize(
    ("variant", "than", "more", "less"),
    [
        ("static", "fill-slots", ["ttft_p50_s"], ["itl_p99_s", "output_tokens_per_s"]),
        ("fill-slots", "static", ["output_tokens_per_s", "itl_p99_s"], []),
        ("fill-slots", "shortest-only", ["ttft_p50_s", "slowdown_p50"], []),
        ("fill-slots", "strict-kv-gate", ["output_tokens_per_s", "batch_occupancy"], []),
        ("shortest-only", "fill-slots", ["slo_attainment"], ["e2e_mean_s", "slowdown_p50"]),
        ("shortest-only", "fill-slots", ["max_queue_wait_s", "long_over_short_wait"], []),
        ("shortest-only", "fill-slots", [], ["jain_slowdown"]),
        ("aging", "shortest-only", ["jain_slowdown"], ["max_queue_wait_s"]),
        ("aging", "shortest-only", ["e2e_mean_s"], ["slo_attainment"]),
        ("wait-deadline", "shortest-only", ["e2e_mean_s"], ["max_queue_wait_s", "slo_attainment"]),
        (
            "strict-kv-gate",
            "fill-slots",
            ["blocked_kv_blocks_share"],
            ["batch_occupancy", "output_tokens_per_s"],
        ),
    ],
)
def test_each_leaning_has_its_gain_and_its_risk(leanings, variant, than, more, less):
    this, other = leanings[variant], leanings[than]
    assert {column: this[column] > other[column] for column in more} == dict.fromkeys(more, True)
    assert {column: this[column] < other[column] for column in less} == dict.fromkeys(less, True)
