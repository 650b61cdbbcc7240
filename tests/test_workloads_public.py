"""The public trace files, read whole: their published statistics must come out."""

import numpy as np
import pytest

from sweeps.workloads import describe, read_trace
from vecsched.errors import InputError

# File: format, options, and statistics as published, in all their digits.
PUBLISHED = {
    "azure2023/AzureLLMInferenceTrace_code.csv": (
        "azure",
        {},
        {
            "requests": 8_819,
            "span_s": 3435.948,
            "rate_per_s": 2.566,
            "gap_cv": 13.15,
            "dispersion": 13.2,
            "prompt_tokens": (2047.8, 1469, 7436, 7437),
            "output_tokens": (27.9, 13, 251, 1899),
            "prompt_tokens_zero": 0,
            "output_tokens_zero": 0,
            "backward_steps": 0,
        },
    ),
    "azure2023/AzureLLMInferenceTrace_conv.csv": (
        "azure",
        {},
        {
            "requests": 19_366,
            "span_s": 3501.722,
            "rate_per_s": 5.530,
            "gap_cv": 1.09,
            "dispersion": 1.39,
            "prompt_tokens": (1154.7, 1020, 4142, 14050),
            "output_tokens": (211.1, 129, 601, 1000),
            "output_tokens_zero": 0,
            "backward_steps": 0,
        },
    ),
    "mooncake/conversation_trace.jsonl": (
        "mooncake",
        {},
        {
            "requests": 12_031,
            "span_s": 3536.999,
            "rate_per_s": 3.401,
            "gap_cv": 3.03,
            "dispersion": 7.89,
            "prompt_tokens": (12035, 6909, 85400, 126195),
            "output_tokens": (342.6, 350, 1119, 2000),
            "ties": 12_031 - 1_180,  # so many distinct times
            "backward_steps": 0,
        },
    ),
    "mooncake/dynamo_mooncake_tiny.jsonl": (
        "mooncake",
        {},
        {"requests": 16, "span_s": 3.052, "ties": 14},
    ),
    "ragpulse/0_trace.jsonl": (
        "ragpulse",
        {"tenant": "session_id"},
        {
            "requests": 7_106,
            "span_s": 604_603,
            "rate_per_s": 0.0118,
            "gap_cv": 3.06,
            "dispersion": 1.01,
            "prompt_tokens": (2943.6, 3140, 5438, 7712),
            "output_tokens": (283.2, 234, 891, 2183),
            "ties": 90,
            "backward_steps": 1,
            "tenants": 3_990,
        },
    ),
    "weka/trace_0012.json": (
        "weka",
        {},
        {"requests": 14, "prompt_tokens_mean": 46390, "output_tokens_zero": 0},
    ),
    "weka/trace_0022.json": ("weka", {}, {"requests": 7}),
    "weka/trace_0026.json": ("weka", {}, {"requests": 3}),
    "weka/trace_0091.json": ("weka", {}, {"requests": 10, "output_tokens_zero": 1}),
    "weka": ("weka", {"rate_per_s": 0.01}, {"requests": 34, "tenants": 4}),
    "vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv": (
        "vidur",
        {"rate_per_s": 2},
        {
            "requests": 28_257,
            "prompt_tokens": (2588, 2730, 3933, 4054),
            "output_tokens": (291, 167, 3271, 4056),
            "prompt_tokens_zero": 0,
        },
    ),
    "splitwise-sim/test_trace.csv": (
        "splitwise_sim",
        {},
        {"requests": 3, "span_s": 3, "prompt_tokens_max": 4096, "tenants": 1},
    ),
    "llmservingsim/sharegpt-llama-3.1-8b-300-sps10.no_tok_ids.jsonl": (
        "llmservingsim",
        {},
        {
            "requests": 300,
            "span_s": 29.14,
            "rate_per_s": 10.26,
            "gap_cv": 0.94,
            "prompt_tokens_mean": 857.5,
            "prompt_tokens_p50": 732,
            "prompt_tokens_p99": 2765,
            "output_tokens_mean": 652.5,
            "output_tokens_p50": 632,
            "output_tokens_p99": 784,
        },
    ),
    "llmservingsim/workload_me2_01_mixed.jsonl": (
        "llmservingsim",
        {},
        {
            "requests": 608,
            "span_s": 60.9,
            "rate_per_s": 9.97,
            "prompt_tokens_mean": 9218,
            "output_tokens_mean": 3021,
            "output_tokens_max": 15890,
        },
    ),
    "llmservingsim/example_trace.jsonl": ("llmservingsim", {}, {"requests": 10}),
}


def expand(published):
    """Yield (statistic, value), a group of lengths as its four."""
    for key, value in published.items():
        if isinstance(value, tuple):
            for name, part in zip(("mean", "p50", "p99", "max"), value, strict=True):
                yield f"{key}_{name}", part
        else:
            yield key, value


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_statistics(shared, name):
    format, options, published = PUBLISHED[name]
    path = shared / "data/traces" / name
    trace = read_trace(path, **options)
    figures = describe(trace)
    for key, value in expand(published):
        digits = len(str(float(value)).split(".")[1]) if value % 1 else 0
        # Equal in all published digits; quantiles are published as whole tokens, rounded or cut.
        assert abs(figures[key] - value) <= 0.51 * 10.0**-digits, key
    assert trace.arrival_s.min() == 0
    named = read_trace(path, format, **options)
    assert named.arrival_s.tobytes() == trace.arrival_s.tobytes()


def test_the_replayed_requests_are_those_of_the_run(shared):
    trace = read_trace(
        shared / "data/traces/llmservingsim/sharegpt-llama-3.1-8b-300-sps10.no_tok_ids.jsonl"
    )
    run = shared / "data/measurements/llmservingsim_vllm_runs/RTXPRO6000_Llama-3.1-8B/vllm"
    log = read_trace(run / "requests.jsonl")
    assert log.prompt_tokens.tolist() == trace.prompt_tokens.tolist()
    assert log.id[:2].tolist() == ["bench-0", "bench-1"]
    # The wall clock of the run against the times it was to keep: the engine's loop blocks at times.
    assert abs(log.arrival_s - trace.arrival_s).max() < 0.2


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("naive_output_2.9", 322),
        ("aibrix_kvcache_dram_output_2.5", 277),
        ("naive_output_0.9", 99),
        ("aibrix_kvcache_external_output_0.1", 11),
    ],
)
def test_multi_round_qa(shared, name, rows):
    trace = read_trace(shared / f"data/results/multi-round-qa/{name}.csv")
    assert len(trace) == rows
    assert set(trace.prompt_tokens) == {21_073}
    assert 34 <= trace.output_tokens.min() <= trace.output_tokens.max() <= 100
    assert trace.backward_steps > 0  # rows stand in the order of completion


def test_vllm_tap(shared):
    trace = read_trace(shared / "data/measurements/vllm_tap_H200/gemma4_mm_trace.jsonl")
    assert len(trace) == 4
    assert trace.prompt_tokens[0] == 277


FORMATS = {
    "azure_2024.quoted-row.csv": ([2162], [5], {}),
    "burstgpt_1.quoted-rows.csv": ([472, 1087, 417], [18, 230, 276], {}),
    "burstgpt_3.quoted-rows.csv": ([906, 36, 1779, 935], [446, 29, 123, 178], {}),
    "qwen_bailian.quoted-row.jsonl": ([502], [1494], {}),
    "vllm_bench_serve_detailed.SYNTHETIC.json": ([1024] * 4, [4, 2, 0, 1], {}),
    "tap_spec_decode_trace.SYNTHETIC.jsonl": (
        [32] * 8,
        [43, 43, 47, 47, 43, 36, 45, 43],
        {"rate_per_s": 1},
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_quoted_rows_and_stubs(shared, name):
    prompts, outputs, options = FORMATS[name]
    trace = read_trace(shared / "data/formats" / name, **options)
    assert trace.prompt_tokens.tolist() == prompts
    assert trace.output_tokens.tolist() == outputs


def test_times_of_the_quoted_rows(shared):
    folder = shared / "data/formats"
    burst = read_trace(folder / "burstgpt_3.quoted-rows.csv").arrival_s
    assert burst.tolist() == [0.0, 51.0, 82.0, 144.0]
    bench = read_trace(folder / "vllm_bench_serve_detailed.SYNTHETIC.json").arrival_s
    assert np.allclose(bench, [0, 2e-4, 3e-4, 5e-4], atol=1e-9)


def test_sharegpt_stub(shared):
    trace = read_trace(shared / "data/formats/sharegpt_shape.SYNTHETIC.json", rate_per_s=1)
    assert trace.id.tolist() == ["SYNTH0_0", "SYNTH1_0", "SYNTH2_0", "SYNTH3_0"]
    # "What is paged attention?" has 24 characters, its answer 56.
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (6, 14)
    assert (trace.output_tokens > 0).tolist() == [True, True, False, False]
    assert trace.prompt_tokens[3] == 0


@pytest.mark.parametrize(
    "name",
    [
        "formats/guidellm_report_v2.MOCK_SERVER.json",
        "formats/vllm_bench_serve_summary.SYNTHETIC.json",
        "traces/ragpulse/5_web_search.jsonl",
        "results/inference-perf/vllm_batch_size/stage_0_lifecycle_metrics.json",
        "results/inference-perf/config.yaml",
        "measurements/inferencex_decode/glm-5",
    ],
)
def test_what_is_no_trace_is_refused(shared, name):
    with pytest.raises(InputError) as caught:
        read_trace(shared / "data" / name)
    assert str(caught.value).startswith(str(shared / "data" / name))
