"""Real runs: their clocks, their configuration, and how simulated latency compares."""

import json

import pytest

from sweeps.calibrate import Provenance, Request, calibrate, fit_run
from sweeps.measured_run import read_run
from sweeps.validate import compare, difference, validate
from sweeps.validation_plot import validation_plot
from vecsched import CostModel, simulate
from vecsched.errors import ConfigError, InputError

ENGINE = {"max_num_seqs": 2, "max_num_batched_tokens": 8, "tensor_parallel_size": 1}
# Iterations of 1 s, two slots. The engine's clock is 100 s when the wall clock is 5,000 s, and what
# arrives while an iteration runs is taken in at its end: 1 arrives at 0.25 and is queued at 1.
ROWS = [
    {"input_toks": 4, "output_toks": 2, "arrival_time": 5000.0, "queued_ts": 100.0,
     "first_token_ts": 101.0, "last_token_ts": 102.0},
    {"input_toks": 4, "output_toks": 1, "arrival_time": 5000.25, "queued_ts": 101.0,
     "first_token_ts": 102.0, "last_token_ts": 102.0},
]  # fmt: skip


@pytest.fixture
def run_of(tmp_path):
    """Write a run and read it."""

    def make(rows=ROWS, meta=None, **more):
        folder = tmp_path / "vllm"
        folder.mkdir(exist_ok=True)
        text = "\n".join(json.dumps(row) for row in rows)
        (folder / "requests.jsonl").write_text(f"{text}\n\n")
        about = {"model": "m", "vllm_version": "0.19.0", "engine_kwargs": ENGINE} | (meta or {})
        (folder / "meta.json").write_text(json.dumps(about))
        return read_run(tmp_path, **more)

    return make


def test_the_two_clocks_are_laid_over_each_other(run_of):
    run = run_of()
    assert run.trace.arrival_s.tolist() == [0.0, 0.25]
    assert run.latencies["ttft"].tolist() == [1.0, 1.0]
    assert run.latencies["e2e"].tolist() == [2.0, 1.0]
    assert run.latencies["tpot"].iloc[0] == 1.0
    assert run.latencies["tpot"].isna().tolist() == [False, True]
    assert run.makespan_s == 2.0


# A step ahead: the engine takes 1 in at 1, too, but has decided the iteration from 1 to 2 by then.
ROWS_AHEAD = [ROWS[0], ROWS[1] | {"first_token_ts": 103.0, "last_token_ts": 103.0}]


@pytest.mark.parametrize(
    ("rows", "ahead", "makespan_s"), [(ROWS, False, 2.0), (ROWS_AHEAD, True, 3.0)]
)
def test_a_simulation_of_the_same_iterations_agrees_in_all(run_of, rows, ahead, makespan_s):
    run = run_of(rows, changes={"async_scheduling": ahead})
    found = validate(run, CostModel.unit())
    assert found.makespan == (makespan_s, makespan_s)
    for row in compare(found):
        assert row["measured_s"] == row["simulated_s"]
        assert row["diff_percent"] == 0.0
    names = [(row["metric"], row["stat"]) for row in compare(found)]
    statistics = ("mean", "p50", "p90", "p95", "p99")
    assert names == [(m, s) for m in ("ttft", "tpot", "e2e") for s in statistics]


def test_difference_is_in_percent_of_the_measured():
    assert difference(2.0, 3.0) == {"measured_s": 2.0, "simulated_s": 3.0, "diff_percent": 50.0}


def test_without_a_wall_clock_requests_arrive_when_queued(run_of):
    rows = [{name: value for name, value in row.items() if name != "arrival_time"} for row in ROWS]
    assert run_of(rows).trace.arrival_s.tolist() == [0.0, 1.0]


def test_requests_that_made_no_token_are_replayed_but_not_measured(run_of):
    failed = ROWS[0] | {"output_toks": 0, "first_token_ts": None, "last_token_ts": None}
    found = validate(run_of([*ROWS, failed]), CostModel.unit())
    assert len(found.measured) == 2
    assert found.left_out == 1


def test_the_scheduler_is_the_runs_own(run_of):
    meta = {
        "vllm_version": "0.28.1",
        "kv_cache": {"num_gpu_blocks": 101, "block_size": 4, "enable_prefix_caching": True},
        "resolved_config": {
            "scheduler_config": {
                "policy": "fcfs",
                "max_num_seqs": 3,
                "async_scheduling": False,
                "long_prefill_token_threshold": 4,
                "max_num_scheduled_tokens": None,
            }
        },
    }
    run = run_of(meta=meta)
    config = run.config
    assert (config.discipline, config.vllm_version) == ("vllm", "0.33")
    assert (config.kv_blocks, config.block_size, config.max_batch_size) == (100, 4, 3)
    assert config.long_prefill_token_threshold == 4
    assert (config.enable_prefix_caching, config.async_scheduling) == (True, False)
    assert run.notes == ()
    assert run_of().config.vllm_version == "0.19"
    assert "never run out" in run_of().notes[0]


@pytest.mark.parametrize(
    ("version", "caches", "ahead"),
    [("0.7.3", False, False), ("0.13.0", True, False), ("0.14.0", True, True)],
)
def test_what_a_run_does_not_say_is_as_its_release_has_it(run_of, version, caches, ahead):
    run = run_of(meta={"vllm_version": version})
    assert (run.config.enable_prefix_caching, run.config.async_scheduling) == (caches, ahead)
    switches = f"enable_prefix_caching={caches}, async_scheduling={ahead}".lower()
    assert run.notes[1] == f"not said by the run, so as vLLM {version} does by default: {switches}"


def test_what_is_told_holds_whatever_the_run_says(run_of):
    told = run_of(changes={"num_gpu_blocks": 8, "async_scheduling": False})
    assert (told.config.kv_blocks, told.config.async_scheduling) == (7, False)
    assert told.config.max_batch_size == ENGINE["max_num_seqs"]
    assert told.notes == (
        "not said by the run, so as vLLM 0.19.0 does by default: enable_prefix_caching=true",
        "not as in the run: async_scheduling=false",
    )
    other = run_of(changes={"kv_blocks": 7, "max_num_seqs": 3, "max_num_batched_tokens": 8})
    assert other.config.max_batch_size == 3
    assert other.notes[-1] == "not as in the run: max_batch_size=3"
    with pytest.raises(ConfigError, match="unknown field 'kv_block'; did you mean 'kv_blocks'"):
        run_of(changes={"kv_block": 7})


def test_a_share_of_the_blocks_needs_their_number(run_of):
    """A watermark of the run is left out where KV never runs out."""
    meta = {"vllm_version": "0.33.0", "engine_kwargs": ENGINE | {"watermark": 0.1}}
    assert run_of(meta=meta).config.watermark == 0.0
    assert run_of(meta=meta, changes={"kv_blocks": 100}).config.watermark == 0.1


def test_several_engines_are_not_one(run_of):
    for name in ("data_parallel_size", "pipeline_parallel_size"):
        with pytest.raises(InputError, match=f"{name}.*only one engine is simulated"):
            run_of(meta={"engine_kwargs": ENGINE | {name: 2}})


def test_settings_are_understood_under_all_their_names(run_of):
    """Given as `scheduling_policy`, resolved as `policy`; the cache says both of its sizes."""
    cache = {"num_gpu_blocks": 51, "num_gpu_blocks_override": 51}
    meta = {
        "engine_kwargs": ENGINE | {"scheduling_policy": "fcfs", "max_model_len": None, "seed": 7},
        "resolved_config": {"scheduler_config": {"policy": "priority"}, "cache_config": cache},
    }
    config = run_of(meta=meta).config
    assert (config.policy, config.kv_blocks, config.max_model_len) == ("priority", 50, None)


def test_what_connects_the_gpus(run_of, tmp_path):
    assert run_of().link is None
    (tmp_path / "config.json").write_text('{"link_bw": 16, "link_latency": 20000}')
    assert run_of().link == (16e9, pytest.approx(20e-6))
    (tmp_path / "config.json").write_text('{"link_bw": 0, "link_latency": 20000}')
    with pytest.raises(InputError, match="must be positive"):
        run_of()
    (tmp_path / "config.json").write_text('{"nodes": []}')
    assert run_of().link is None


@pytest.mark.parametrize(
    ("rows", "meta", "message"),
    [
        ([], {}, "holds no requests"),
        ([{"input_toks": 1}], {}, "missing from every request"),
        ([ROWS[0] | {"input_toks": "many"}], {}, "must be a number"),
        ([ROWS[0] | {"queued_ts": None}], {}, "no request was served"),
        (ROWS, {"engine_kwargs": {"max_num_seqs": 2}}, "engine_kwargs.max_num_batched_tokens"),
        (ROWS, {"engine_kwargs": None}, "must be a mapping with 'engine_kwargs'"),
        (ROWS, {"vllm_version": "nightly"}, "must be a release such as 0.19.0"),
    ],
)
def test_bad_runs(run_of, rows, meta, message):
    with pytest.raises(InputError, match=message):
        run_of(rows, meta)


def test_a_missing_run(tmp_path):
    with pytest.raises(InputError, match=r"meta\.json"):
        read_run(tmp_path)


def test_the_figure_has_a_panel_a_metric(run_of):
    figure = validation_plot(validate(run_of(), CostModel.unit()))
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "time to first token (s)",
        "time per output token (s)",
        "end to end (s)",
    ]


# A step ahead, who comes a moment too late waits an iteration longer: the search is rougher.
@pytest.mark.parametrize(("ahead", "most"), [(False, 0.01), (True, 0.03)])
def test_a_run_gives_back_the_factor_and_the_overhead_that_made_it(run_of, ahead, most):
    """A run simulated with twice the base's times and 3 ms beside."""
    base = CostModel.affine(0.01, 1e-4, 1e-4, 1e-7)
    truth = CostModel.affine(0.02 + 0.003, 2e-4, 2e-4, 2e-7)
    rows = [
        {"input_toks": 20 + 7 * i % 50, "output_toks": 5 + 3 * i % 17, "arrival_time": 0.05 * i}
        | {"queued_ts": 0.05 * i, "first_token_ts": 1.0, "last_token_ts": 1.0}
        for i in range(40)
    ]
    meta = {"engine_kwargs": ENGINE | {"max_num_seqs": 8, "max_num_batched_tokens": 64}}
    run = run_of(rows, meta, changes={"async_scheduling": ahead})
    ideal = validate(run, truth)
    measured = ideal.simulated
    run = run._replace(latencies=measured)
    fitted = fit_run([run], base, Provenance("mine", "made up"))
    assert fitted.error["e2e"]["mean"] < most
    assert fitted.error["held_out"]["e2e"]["mean"] < max(most, 0.02)
    makespans = [
        simulate(run.trace, run.config, cost).summary["makespan_s"] for cost in (fitted, truth)
    ]
    assert makespans[0] == pytest.approx(makespans[1], rel=0.01)


# The real one


@pytest.fixture(scope="module")
def real(shared):
    data = shared / "data" / "measurements"
    profile = data / "llmservingsim" / "RTXPRO6000_Llama-3.1-8B_bf16"
    run = read_run(data / "llmservingsim_vllm_runs" / "RTXPRO6000_Llama-3.1-8B")

    def differences(overhead_s, **changes):
        replayed = run._replace(config=run.config.replace(**changes))
        request = Request(paths=(profile,), provenance=Provenance("p", "p"), overhead_s=overhead_s)
        rows = compare(validate(replayed, calibrate(request)))
        return {(row["metric"], row["stat"]): row["diff_percent"] for row in rows}

    return run, differences


def test_measured_figures_are_those_of_the_runs_own_summary(real):
    run, _ = real
    means = run.latencies.mean()
    assert round(means["ttft"] * 1e3, 1) == 7097.2
    assert round(means["tpot"] * 1e3, 1) == 32.5
    assert round(means["e2e"] * 1e3, 1) == 28200.7


def test_the_real_run_had_both_of_its_releases_defaults(real):
    run, _ = real
    assert (run.config.enable_prefix_caching, run.config.async_scheduling) == (True, True)
    assert "as vLLM 0.19.0 does by default" in run.notes[1]


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize(
    ("overhead_s", "bounds"),
    [(0.0, {"tpot": 3, "e2e": 4, "ttft": 8}), (0.001, {"tpot": 1.5, "e2e": 2, "ttft": 5})],
)
def test_the_real_run_is_met(real, overhead_s, bounds, ahead):
    _, differences = real
    found = differences(overhead_s, async_scheduling=ahead)
    for metric, percent in bounds.items():
        assert abs(found[metric, "mean"]) <= percent
    if overhead_s > 0:
        tails = [found[m, p] for m in bounds for p in ("p90", "p95", "p99")]
        assert max(map(abs, tails)) <= 3


def test_a_cache_changes_nothing_where_kv_never_runs_out(real):
    """Nothing tells what the run's prompts had in common, and nobody is preempted."""
    _, differences = real
    assert differences(0.0, enable_prefix_caching=False) == differences(0.0)
