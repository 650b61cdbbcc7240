"""The ready-made sweep `kv-gate` shows what strictness and optimism about KV blocks cost."""

import re

import pyarrow.parquet as pq
import pytest

from sweeps.run import run_sweep
from sweeps.space import Space
from sweeps.spec import SweepSpec, load_spec

TIGHT, AMPLE = 3000, 26000


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The sweep cut down to 3,000 requests, one load and two capacities.

    By discipline, capacity and variant; without prefix caching there is a True behind.
    """
    content = load_spec("kv-gate").as_written()
    content["trace"][0]["requests"] = 3000
    content["axes"] |= {"load": [1.4], "kv_blocks": [TIGHT, AMPLE]}
    path = tmp_path_factory.mktemp("gate") / "out.parquet"
    outcome = run_sweep(SweepSpec.from_mapping(content), path)
    assert (outcome.points, outcome.failed) == ((3 * 2 + 1) * 2, 0)
    rows = {}
    for row in pq.read_table(path).to_pylist():
        uncached = () if row["enable_prefix_caching"] else (True,)
        rows[row["discipline"], row["kv_blocks"], row["variant"], *uncached] = row
    return rows


def test_size_and_columns(rows):
    spec = load_spec("kv-gate")
    assert len(Space(spec, tuple(spec.cost_models()))) == 2 * 5 * (2 * 3 + 1)
    columns = next(iter(rows.values())).keys()
    for variant in spec.variants:
        named = set(re.findall(r"[a-z0-9]+(?:_[a-z0-9]+)+", variant.about))
        assert named
        assert named <= columns


@pytest.mark.parametrize("discipline", ["vllm", "sarathi"])
def test_a_small_cache(rows, discipline):
    optimist, known, longest = (
        rows[discipline, TIGHT, name] for name in ("on-demand", "full-known", "full-longest")
    )
    # All requests are served whatever the gate.
    assert {row["completed"] for row in (optimist, known, longest)} == {3000}
    # Optimism is paid in recomputation: at least one token in ten is computed again.
    tokens = optimist["mean_batch_tokens"] * optimist["iterations"]
    assert optimist["preemptions"] > 100
    assert optimist["recomputed_tokens"] > 0.1 * tokens
    assert optimist["itl_max_s"] > 2 * known["itl_max_s"]
    for strict in (known, longest):
        assert (strict["preemptions"], strict["recomputed_tokens"]) == (0, 0)
    # Strictness is paid in idle capacity: just as many blocks are held, by far fewer requests.
    assert min(row["kv_utilization"] for row in (optimist, known, longest)) > 0.9
    assert longest["batch_occupancy"] < 0.7 * optimist["batch_occupancy"]
    assert longest["blocked_kv_blocks_share"] > optimist["blocked_kv_blocks_share"]
    # Who knows the outputs pays neither price.
    assert known["output_tokens_per_s"] > optimist["output_tokens_per_s"]
    assert known["output_tokens_per_s"] > 1.1 * longest["output_tokens_per_s"]
    assert known["ttft_p50_s"] < longest["ttft_p50_s"]


@pytest.mark.parametrize("discipline", ["vllm", "sarathi"])
def test_a_large_cache(rows, discipline):
    optimist, longest = (rows[discipline, AMPLE, name] for name in ("on-demand", "full-longest"))
    # There is nothing to take back, and strictness still keeps requests out.
    assert optimist["preemptions"] == 0
    assert optimist["output_tokens_per_s"] > longest["output_tokens_per_s"]
    assert optimist["blocked_kv_blocks_share"] == 0 < longest["blocked_kv_blocks_share"]


def test_caching_makes_optimism_cheaper(rows):
    optimist, uncached = (rows["vllm", TIGHT, "on-demand", *off] for off in ((), (True,)))
    # No two prompts are alike, so preempted requests find blocks of their own, and only those.
    assert optimist["prefix_hit_rate"] > 0.1
    assert uncached["prefix_hit_rate"] is None
    assert optimist["output_tokens_per_s"] > 1.05 * uncached["output_tokens_per_s"]
    assert optimist["ttft_p50_s"] < uncached["ttft_p50_s"]
    # It is still dearer than to know the outputs.
    known = rows["vllm", TIGHT, "full-known"]
    assert known["output_tokens_per_s"] > optimist["output_tokens_per_s"]
    assert known["prefix_hit_rate"] is None
    # Where nobody is preempted there is nothing to find.
    optimist, uncached = (rows["vllm", AMPLE, "on-demand", *off] for off in ((), (True,)))
    assert optimist["prefix_hit_rate"] == 0
    assert optimist["output_tokens_per_s"] == uncached["output_tokens_per_s"]
