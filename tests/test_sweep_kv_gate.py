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
    """The sweep cut down to 3,000 requests, one load and two capacities."""
    content = load_spec("kv-gate").as_written()
    content["trace"][0]["requests"] = 3000
    content["axes"] |= {"load": [1.4], "kv_blocks": [TIGHT, AMPLE]}
    path = tmp_path_factory.mktemp("gate") / "out.parquet"
    outcome = run_sweep(SweepSpec.from_mapping(content), path)
    assert (outcome.points, outcome.failed) == (3 * 2 * 2, 0)
    table = pq.read_table(path).to_pylist()
    return {(row["discipline"], row["kv_blocks"], row["variant"]): row for row in table}


def test_size_and_columns(rows):
    spec = load_spec("kv-gate")
    assert len(Space(spec, tuple(spec.cost_models()))) == 2 * 2 * 5 * 3
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
