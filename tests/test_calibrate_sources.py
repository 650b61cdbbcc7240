"""Sources of a calibration: told by their files, several at once, and tables of other tools."""

import json

import numpy as np
import pandas as pd
import pytest

from sweeps.calibrate import (
    SOURCES,
    Provenance,
    Request,
    calibrate,
    find_shape,
    read_dynamo,
    read_splitwise,
    recognise,
)
from vecsched import CostModel
from vecsched.errors import CostError, InputError

MINE = Provenance("mine", "made up")


def request(*paths, **more):
    return Request(paths=tuple(paths), provenance=MINE, **more)


# Kinds


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("llmservingsim", ["dense.csv", "attention.csv", "per_sequence.csv"]),
        ("llmservingsim", ["tp1/dense.csv"]),
        ("llmservingsim", ["dense.csv"]),  # incomplete, and that is what will be said of it
        ("llmservingsim_v0", ["layers.csv", "attention.csv"]),
        ("vidur", ["mlp.csv", "attention.csv"]),
        ("aiconfigurator", ["gemm/x", "attention/x", "comm/x"]),
        ("dynamo", ["prefill_raw_data.npz", "decode_raw_data.npz"]),
        ("run", ["requests.jsonl", "meta.json"]),
        ("run", ["vllm/requests.jsonl", "vllm/meta.json"]),
    ],
)
def test_a_folder_is_told_by_what_is_in_it(tmp_path, kind, files):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert recognise((tmp_path,)) == kind
    if all("/" not in name for name in files):
        assert recognise(tuple(tmp_path / name for name in files)) == kind


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("roofline", "gpu.yaml", "gpu: {}"),
        ("iterations", "times.csv", "num_prefill_tokens,seconds\n"),
        ("splitwise", "t.csv", "prompt_size,batch_size, token_size,prompt_time,token_time\n"),
    ],
)
def test_a_file_is_told_by_its_ending_and_its_columns(tmp_path, kind, name, text):
    (tmp_path / name).write_text(text)
    assert recognise((tmp_path / name,)) == kind


def test_every_kind_is_told_by_some_test():
    told = {"llmservingsim", "llmservingsim_v0", "vidur", "aiconfigurator", "dynamo", "run"}
    assert told | {"roofline", "iterations", "splitwise"} == set(SOURCES)


def test_what_is_none_or_missing_is_named(tmp_path):
    (tmp_path / "x.json").touch()
    with pytest.raises(InputError, match="is no source that is known"):
        recognise((tmp_path / "x.json",))
    with pytest.raises(InputError, match="there is no such file"):
        recognise((tmp_path / "y.csv",))
    with pytest.raises(InputError, match="did you mean 'vidur'"):
        calibrate(request(tmp_path), "vidor")


# Several files


def iterations(rows=40, start=0):
    """Iterations of 1 ms, 10 us a token and 1 ns a KV token."""
    n = np.arange(start, start + rows)
    decodes = 1 + n % 7
    frame = pd.DataFrame(
        {
            "num_prefill_tokens": 64 * (n % 3),
            "num_decode_seqs": decodes,
            "sum_context_tokens": decodes * (100 + 13 * n),
            "prefill_context_tokens": 0,
        }
    )
    tokens = frame["num_prefill_tokens"] + decodes
    return frame.assign(seconds=1e-3 + 1e-5 * tokens + 1e-9 * frame["sum_context_tokens"])


def test_several_tables_are_taken_together(tmp_path):
    iterations(20).to_csv(tmp_path / "a.csv", index=False)
    iterations(20, 20).to_parquet(tmp_path / "b.parquet")
    iterations(40).to_csv(tmp_path / "both.csv", index=False)
    two = calibrate(request(tmp_path / "a.csv", tmp_path / "b.parquet"))
    assert two == calibrate(request(tmp_path / "both.csv"))
    assert two.error["all"]["rows"] == 40


def test_errors_name_the_table_among_several(tmp_path):
    iterations(20).to_csv(tmp_path / "a.csv", index=False)
    iterations(20).drop(columns="seconds").to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(InputError, match="missing column") as caught:
        calibrate(request(tmp_path / "a.csv", tmp_path / "b.csv"))
    assert caught.value.source == str(tmp_path / "b.csv")


def run_folder(folder, offset):
    folder.mkdir()
    engine = {"max_num_seqs": 4, "max_num_batched_tokens": 64}
    meta = {"model": "m", "vllm_version": "0.19.0", "engine_kwargs": engine}
    (folder / "meta.json").write_text(json.dumps(meta))
    rows = [
        {"input_toks": 30, "output_toks": 5, "arrival_time": t, "queued_ts": t}
        | {"first_token_ts": t + 0.1 + offset, "last_token_ts": t + 0.3 + offset}
        for t in (0.0, 0.4, 0.9, 2.0)
    ]
    (folder / "requests.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_several_runs_are_fitted_at_once(tmp_path):
    base = CostModel.affine(0.04, 0, 0, 0)
    fast, slow = (run_folder(tmp_path / str(x), x) for x in (0.0, 0.02))
    both = calibrate(request(fast, slow, base=base))
    assert both.error["ttft"]["rows"] == 8
    factors = [calibrate(request(run, base=base)) for run in (fast, slow)]
    durations = [model.decode.fixed_s for model in (factors[0], both, factors[1])]
    assert durations == sorted(durations)
    assert durations[0] < durations[2]
    # A run's two files are the run.
    files = [fast / "requests.jsonl", fast / "meta.json"]
    assert calibrate(request(*files, base=base)) == factors[0]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["times.csv", "run"], r"do not go together \(times.csv: iterations, run: run\)"),
        (["run", "gpu.yaml"], r"do not go together \(run: run, gpu.yaml: roofline\)"),
        (["dense.csv", "times.csv"], "is no part of a source of kind llmservingsim: its tables"),
        (["mlp.csv", "dense.csv"], "mlp.csv: is no part of a source of kind llmservingsim"),
        (["mlp.csv", "sub/mlp.csv"], "has the same name as"),
        (["mlp.csv"], "there is no attention.csv, which this profile needs"),
        (["dense.csv"], "there is no per_sequence.csv and no attention.csv"),
        (["layers.csv"], "there is no attention.csv"),
    ],
)
def test_mixes_that_make_no_sense(tmp_path, names, message):
    run_folder(tmp_path / "run", 0.0)
    (tmp_path / "sub").mkdir()
    for name in names:
        if name != "run":
            (tmp_path / name).write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=message):
        calibrate(request(*(tmp_path / name for name in names), model="llama-3.1-8b"))


def test_what_takes_one_path_refuses_two(tmp_path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("gpu: {}")
    with pytest.raises(InputError, match="roofline: it takes one path"):
        calibrate(request(tmp_path / "a.yaml", tmp_path / "b.yaml"), "roofline")


def test_a_mixture_of_experts_needs_a_profile(tmp_path):
    path = tmp_path / "gpu.yaml"
    path.write_text("gpu: {flops_per_s: 1.0e+15, memory_bytes_per_s: 1.0e+12}")
    with pytest.raises(CostError, match="a mixture of 128 experts"):
        calibrate(request(path, model="Qwen/Qwen3-30B-A3B-Instruct-2507"))
    assert find_shape("Qwen/Qwen3-30B-A3B-Instruct-2507").layers == 48
    config = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    config |= {"intermediate_size": 128, "vocab_size": 100, "num_experts": 8}
    (tmp_path / "config.json").write_text(json.dumps(config | {"moe_intermediate_size": 32}))
    shape = find_shape(tmp_path / "config.json")
    assert (shape.experts, shape.ffn) == (8, 32)


# SplitwiseSim


POINTS = [(p, 1, 128) for p in (128, 256, 512, 1024, 2048, 4096, 8192)]
POINTS += [(512, b, 128) for b in (2, 4, 8, 16, 32, 64)]
POINTS += [(512, 1, t) for t in (256, 512, 1024, 2048)]


@pytest.fixture
def splitwise(tmp_path):
    """Prefills of 10 ms + 0.1 ms a token; decodes of 30 ms + 0.3 ms each. Twice each, ms."""
    rows = [
        {"model": "m", "hardware": gpu, "tensor_parallel": 8}
        | {"prompt_size": p, "batch_size": b, "token_size": t}
        | {"prompt_time": factor * (10 + 0.1 * p * b), "token_time": 30 + 0.3 * b}
        for gpu, factor in (("h100", 1.0), ("h100-pcap", 1.3), ("a100", 2.0))
        for p, b, t in POINTS
        for _ in range(2)
    ]
    path = tmp_path / "perf_model.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_a_table_of_splitwise_sim(splitwise):
    rows, left_out = read_splitwise(splitwise, model="m", hardware="h100", tensor_parallel=8)
    assert left_out == 0
    batch = rows[(rows["prefill_tokens"] == 4 * 512) & (rows["sequences"] == 4)].iloc[0]
    assert batch["seconds"] == pytest.approx(0.010 + 1e-4 * 2048)
    assert batch["attention"] == 4 * 512**2  # four prompts, not one
    # 1,024 steps behind 512: 1,024 KV tokens on average.
    decode = rows[rows["context_tokens"] == 512 + 512].iloc[0]
    assert decode["seconds"] == pytest.approx(0.0303)
    model = calibrate(request(splitwise, hardware="h100", tensor_parallel=8))
    assert model.error["all"]["mean"] < 0.05


def test_derived_rows_are_no_measurement(splitwise):
    with pytest.raises(InputError, match=r"is not measured: .* 1.3 times those of h100"):
        calibrate(request(splitwise, hardware="h100-pcap", tensor_parallel=8))


def test_impossible_points_are_left_out_and_counted(splitwise):
    frame = pd.read_csv(splitwise)
    bogus = (frame["hardware"] == "h100") & (frame["batch_size"] == 64)
    frame.loc[bogus, "prompt_time"] = 100.0  # against 1,648 ms of half the batch
    frame.to_csv(splitwise, index=False)
    model = calibrate(request(splitwise, hardware="h100", tensor_parallel=8))
    assert model.error["points_left_out"] == 1
    assert model.error["all"]["mean"] < 0.05


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "hardware.*must be one of a100, h100, h100-pcap"),
        ({"hardware": "b200"}, "must be one of"),
        ({"hardware": "h100", "model": "n"}, "must be one of m"),
        ({"hardware": "h100", "tensor_parallel": 2}, "no row of so many GPUs"),
    ],
)
def test_a_table_of_several_must_be_told_which(splitwise, more, message):
    with pytest.raises(InputError, match=message):
        calibrate(request(splitwise, **{"tensor_parallel": 8, **more}))


# Dynamo


def write_dynamo(folder, **changes):
    prompts = np.arange(1, 18) * 512
    usage = np.tile([0.0, 0.1, 0.2, 0.4], 4)
    context = np.repeat([400.0, 1000.0, 2000.0, 4000.0], 4)
    arrays = {
        "prefill_isl": prompts,
        "prefill_ttft": 10 + 0.02 * prompts,
        "x_kv_usage": usage,
        "y_context_length": context,
        "z_itl": 5 + 40 * usage,
        "max_kv_tokens": np.array([100_000]),
    } | changes
    for name, part in (("prefill", ("prefill",)), ("decode", ("x", "y", "z", "max"))):
        own = {key: value for key, value in arrays.items() if key.startswith(part)}
        np.savez(folder / f"{name}_raw_data.npz", **own)
    return folder


def test_arrays_of_dynamo(tmp_path):
    rows = read_dynamo(write_dynamo(tmp_path))
    assert len(rows) == 17 + 16
    # 0.2 of 100,000 tokens are 20 contexts of 1,000.
    twenty = rows[rows["decodes"] == 20].iloc[0]
    assert twenty["context_tokens"] == 20_000
    assert twenty["seconds"] == pytest.approx(0.013)
    assert (rows["decodes"] + rows["prefill_tokens"]).min() == 1  # an empty cache still has one
    model = calibrate(request(tmp_path))
    assert model.error["all"]["mean"] < 0.02


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"z_itl": np.array(["a"] * 16)}, "z_itl.*must hold positive numbers"),
        ({"prefill_ttft": np.zeros(17)}, "must hold positive numbers"),
        ({"prefill_ttft": np.full(17, np.nan)}, "must hold positive numbers"),
        ({"prefill_ttft": np.ones(3)}, "different lengths"),
    ],
)
def test_bad_arrays(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_dynamo(write_dynamo(tmp_path, **changes))


def test_files_that_are_no_arrays(tmp_path):
    write_dynamo(tmp_path)
    (tmp_path / "decode_raw_data.npz").write_text("text")
    with pytest.raises(InputError, match=r"cannot be read as \.npz"):
        read_dynamo(tmp_path)
    np.savez(tmp_path / "decode_raw_data.npz", x_kv_usage=[1.0])
    with pytest.raises(InputError, match=r"y_context_length.*there is no such array"):
        read_dynamo(tmp_path)


# Public files


def test_public_sources_fit(shared):
    data = shared / "data" / "measurements"
    splitwise = data / "splitwise-sim" / "perf_model.csv"
    v0 = data / "llmservingsim_v0" / "H100_Llama-3.1-70B_tp4"
    h100 = {"model": "llama2-70b", "hardware": "h100-80gb"}
    reduce = data / "vidur" / "network" / "h100_dgx" / "all_reduce.csv"
    cases = [
        (request(data / "dynamo_planner_H200"), 0.07),
        (request(splitwise, tensor_parallel=4, **h100), 0.06),
        (request(splitwise, tensor_parallel=2, **h100), 0.06),
        (request(v0, model="llama-3.1-70b", tensor_parallel=4, all_reduce=reduce), 0.02),
    ]
    for given, most in cases:
        assert calibrate(given).error["held_out"]["all"]["mean"] < most


def test_public_profiles_that_lack_a_table_say_so(shared):
    data = shared / "data" / "measurements"
    incomplete = {
        "llmservingsim/RTXPRO6000_Qwen3-30B-A3B_bf16": "no per_sequence.csv and no attention.csv",
        "vidur/compute/a100/meta-llama/Meta-Llama-3-8B": "no attention.csv",
        "vidur/compute/h100/meta-llama/Llama-2-70b-hf": "no attention.csv",
    }
    for folder, message in incomplete.items():
        with pytest.raises(InputError, match=message):
            calibrate(request(data / folder, model="llama-3-8b"))
