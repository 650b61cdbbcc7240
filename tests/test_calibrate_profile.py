"""Operator profiles: units, layers, blanks, duplicates, wild points; the grid among them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from sweeps.calibrate import (
    Gpu,
    Provenance,
    Request,
    calibrate,
    find_shape,
    from_profile,
    predict_s,
    read_all_reduce,
    read_llmservingsim,
    read_llmservingsim_v0,
    read_vidur,
    ring,
    roofline,
    with_all_reduce,
)
from sweeps.calibrate.attention_grid import complete_grid, planes
from sweeps.calibrate.fitting import extended
from vecsched.errors import CostError, InputError
from vecsched.mixed_attention import AXES

MINE = Provenance("mine", "made up")
CHUNKS, BEFORE, DECODES, CONTEXTS = (16, 32, 64), (0, 256, 512), (1, 2, 4), (256, 512, 1024, 2048)


def attention_us(chunk, before, decodes, context):
    """Multilinear on purpose, so that a grid meets it everywhere."""
    return 8 + 0.1 * chunk + 0.001 * chunk * before + decodes * context * 0.01 + chunk * decodes


@pytest.fixture
def profile(tmp_path):
    """A profile of two layers' model: dense 10 + n us an operator, lm_head 100 us a sequence."""
    folder = tmp_path / "perf" / "tp1"
    folder.mkdir(parents=True)
    sizes = (1, 2, 4, 8, 16, 32, 64, 128)
    dense = ["layer,tokens,time_us"]
    for layer in ("embedding", "layernorm", "qkv_proj", "final_layernorm"):
        dense += [f"{layer},{n},{10 + n}" for n in sizes]
    (folder / "dense.csv").write_text("\r\n".join(dense))  # and no newline at the end
    rows = [f"lm_head,{n},{100 * n}" for n in (1, 2, 4, 8)]
    (folder / "per_sequence.csv").write_text("\n".join(["layer,sequences,time_us", *rows, ""]))
    points = [(0, 0, n, c) for n, c in product(DECODES, CONTEXTS)]
    points += [(c, b, 0, 0) for c, b in product(CHUNKS, BEFORE)]
    points += list(product(CHUNKS, BEFORE, DECODES, CONTEXTS))
    points += [(24, 100, 3, 700)]  # off the grid
    head = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"
    lines = [",".join(map(str, (*p, attention_us(*p)))) for p in points]
    (folder / "attention.csv").write_text("\n".join([head, *lines, ""]))
    (tmp_path / "perf" / "meta.yaml").write_text("model: meta-llama/Llama-3.1-8B\n")
    return tmp_path / "perf"


def iteration(model, chunk=0, before=0, decodes=0, context=0):
    rows = {
        "prefill_tokens": chunk,
        "decodes": decodes,
        "sequences": decodes + (chunk > 0),
        "context_tokens": decodes * context,
        "attention": chunk * (2 * before + chunk),
        "prefill_context": before,
    }
    return predict_s(model, pd.DataFrame([rows]))[0]


def test_a_profile_of_llmservingsim(profile):
    model = from_profile(read_llmservingsim(profile, layers=2), MINE, overhead_s=0.001)
    # 64 + 4 tokens: embedding and final norm once, layer norm twice in each of 2 layers, qkv once
    # in each: 8 calls of 10 + 68 us. 5 sequences: 500 us. Attention in each layer. 1 ms beside.
    expected_us = 8 * 78 + 500 + 2 * attention_us(64, 512, 4, 2048) + 1000
    assert iteration(model, 64, 512, 4, 2048) == pytest.approx(expected_us * 1e-6, rel=1e-6)
    # Between the points, and with no decode beside.
    assert iteration(model, 40, 300, 3, 300) == pytest.approx(
        (8 * 53 + 400 + 2 * attention_us(40, 300, 3, 300) + 1000) * 1e-6, rel=1e-3
    )
    assert iteration(model, 32, 256) == pytest.approx(
        (8 * 42 + 100 + 2 * attention_us(32, 256, 0, 0) + 1000) * 1e-6, rel=1e-6
    )
    # Decodes alone are a line over the KV tokens.
    assert iteration(model, 0, 0, 2, 777) == pytest.approx(
        (8 * 12 + 200 + 2 * attention_us(0, 0, 2, 777) + 1000) * 1e-6, rel=1e-4
    )
    assert model.error["all"]["max"] < 0.002
    assert model.error["held_out"]["mixed"]["max"] < 0.002
    # Off the grid: 1. Planes: chunk 32, context 256, decodes 1 and 2, decode context 512 and 1024.
    planes_of = 3 * 4 * 4 + 3 * 4 * 4 + 2 * 3 * 3 * 4 + 2 * 3 * 3 * 4
    inner = planes_of - 3 * 4 - 3 * 4 - 2 * 3 * 3  # those at 0 decodes are prefills only
    assert model.error["held_out"]["mixed"]["rows"] == 1 + inner + 0


def test_the_folder_of_one_group_will_do(profile):
    assert read_llmservingsim(profile / "tp1", layers=2).tokens[0] == 1


def rewrite(path, change):
    path.write_text(change(path.read_text()))


def test_blanks_duplicates_and_spikes_change_nothing(profile):
    clean = from_profile(read_llmservingsim(profile, layers=2), MINE)
    tables = profile / "tp1"
    rewrite(tables / "dense.csv", lambda t: t.replace("qkv_proj,16,26", "qkv_proj,16,9999"))
    rewrite(tables / "dense.csv", lambda t: t + "\nqkv_proj,8,\nqkv_proj,8,18\n\n")
    point = (32, 256, 2, 512)
    time = attention_us(*point)
    rewrite(
        tables / "attention.csv",
        lambda t: t.replace(f"32,256,2,512,{time}", f"32,256,2,512,{time * 50}"),
    )
    dirty = from_profile(read_llmservingsim(profile, layers=2), MINE)
    assert dirty.error["grid_points_put_right"] == 1
    assert iteration(dirty, *point) == pytest.approx(iteration(clean, *point), rel=1e-3)
    assert iteration(dirty, 0, 0, 4, 1000) == pytest.approx(
        iteration(clean, 0, 0, 4, 1000), rel=1e-3
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("dense.csv", "tokens", "token", "missing column; did you mean 'token'?"),
        ("dense.csv", "qkv_proj,2,12", "qkv_proj,2,-12", "must be a time > 0"),
        ("dense.csv", "qkv_proj,2,12", "qkv_proj,2.5,12", "must be a whole number >= 0"),
        ("attention.csv", "n_decode", "decode", "missing column"),
    ],
)
def test_bad_profiles(profile, file, old, new, message):
    rewrite(profile / "tp1" / file, lambda text: text.replace(old, new, 1))
    with pytest.raises(InputError, match=message.replace("?", r"\?")) as caught:
        read_llmservingsim(profile, layers=2)
    assert file in str(caught.value)


def test_experts_of_balanced_routing(profile):
    # Of 4 experts each token wakes 1: one token 1, two tokens 4 * (1 - 0.75^2) = 1.75 of them, four
    # tokens 4 * (1 - 0.75^4) = 2.734375. 10 us a woken expert, 1 us a token.
    points = [(n, e) for n in (1, 2, 4) for e in (1, 2, 4) if e <= n]
    lines = [f"{n},{e},{10 * e + n}" for n, e in points]
    moe = "\n".join(["tokens,activated_experts,time_us", *lines, ""])
    without = read_llmservingsim(profile, layers=2)
    (profile / "tp1" / "moe.csv").write_text(moe)
    added_us = (read_llmservingsim(profile, layers=2).tokens_s - without.tokens_s) * 1e6
    assert without.tokens[:3].tolist() == [1, 2, 4]
    expected = [2 * (10 + 1), 2 * (17.5 + 2), 2 * (27.34375 + 4)]
    assert added_us[:3] == pytest.approx(expected)


def test_a_group_that_no_folder_is_of(profile):
    with pytest.raises(InputError, match="there is no tp4 in it, only tp1"):
        read_llmservingsim(profile, layers=2, tensor_parallel=4)


def test_tables_may_be_given_one_by_one(profile):
    tables = profile / "tp1"
    files = [tables / f"{name}.csv" for name in ("attention", "per_sequence", "dense")]
    one_by_one = read_llmservingsim(files, layers=2)
    assert one_by_one.tokens_s.tolist() == read_llmservingsim(profile, layers=2).tokens_s.tolist()
    # The profile's `meta.yaml` is above them.
    model = calibrate(Request(paths=tuple(files), provenance=MINE))
    assert model == calibrate(Request(paths=(profile,), provenance=MINE))


def test_the_profile_names_its_model(profile):
    # Llama-3.1-8B has 32 layers: (2 + 32 * 3) calls of 11 us, 100 us and 32 times attention.
    model = calibrate(Request(paths=(profile,), provenance=MINE, overhead_s=0.0))
    expected_us = (2 + 32 * 3) * 11 + 100 + 32 * attention_us(0, 0, 1, 1024)
    assert iteration(model, 0, 0, 1, 1024) == pytest.approx(expected_us * 1e-6, rel=1e-4)


# The grid


def rows_of(*grids):
    points = list(dict.fromkeys(point for grid in grids for point in product(*grid)))
    frame = pd.DataFrame(points, columns=list(AXES))
    return frame.assign(attention_s=1e-6 * (1 + frame.sum(axis=1)))


def test_of_two_grids_the_wider_one_is_taken():
    wide = ((16, 64, 256), (0, 64, 512), (1, 4), (16, 64, 1024))
    dense = ((16, 24, 32, 48, 96), (0, 64, 128, 192, 256, 512), (1, 4), (64, 128, 256, 512, 1024))
    grid, put_right = complete_grid(rows_of(wide, dense))
    assert tuple(getattr(grid, name) for name in AXES) == wide
    assert put_right == 0


def test_a_hole_costs_one_line_of_the_grid():
    rows = rows_of(((16, 32), (0, 64, 128), (1, 2), (16, 32)))
    holed = rows[
        ~((rows["prefill_context"] == 64) & (rows["decodes"] == 1) & (rows["chunk"] == 16))
    ]
    grid, _ = complete_grid(holed)
    assert np.prod(grid.seconds.shape) >= 12
    assert complete_grid(rows[rows["decodes"] == 1]) == (None, 0)


def test_planes_leave_out_inner_points_only():
    grid, _ = complete_grid(rows_of(((16, 32, 64), (0, 64), (1, 2), (16, 32))))
    [(thinner, points)] = planes(grid)
    assert thinner.chunk == (16, 64)
    assert points["chunk"].unique().tolist() == [32]
    assert len(points) == 8


def test_beyond_the_largest_size_the_slope_of_the_upper_half_goes_on():
    # From 8 at 4 to 20 at 8: 3 a unit, so 20 + 8 * 3 = 44 at 16, whatever the last step.
    at, seconds = extended(np.array([1, 4, 7, 8]), np.array([1.0, 8.0, 19.0, 20.0]))
    assert (at[-1], seconds[-1]) == (16, 44.0)


# Vidur


@pytest.fixture
def vidur(tmp_path):
    """Milliseconds, two GPU groups, descending sizes with a duplicate, one blank."""
    mlp = pd.DataFrame(
        [
            {
                "time_stats.emb.median": 1.0,
                "time_stats.mlp_up_proj.median": 0.1 + 0.01 * n if n != 8 else np.nan,
                "time_stats.add.median": 0.5,
                "time_stats.mlp_up_proj.max": 99.0,
                "num_tokens": n,
                "num_tensor_parallel_workers": gpus,
            }
            for gpus in (1, 2)
            for n in (64, 32, 16, 8, 8, 4, 1)
        ]
    )
    mlp.to_csv(tmp_path / "mlp.csv")  # with an unnamed index column
    common = {"num_tensor_parallel_workers": 1, "time_stats.attn_kv_cache_save.median": 0.001}
    prefills = [
        {"batch_size": 1, "prefill_chunk_size": c, "kv_cache_size": k}
        | {"time_stats.attn_prefill.median": 0.01 + 1e-6 * c * (2 * k + c)}
        for c, k in product((32, 64, 128), (0, 256, 512))
    ]
    decodes = [
        {"batch_size": n, "prefill_chunk_size": 0, "kv_cache_size": k - 1}
        | {"time_stats.attn_decode.median": 0.02 + 1e-5 * n * k}
        for n, k in product((1, 2, 4), (256, 512, 1024, 2048))
    ]
    frame = pd.DataFrame([row | common for row in [*prefills, *decodes]])
    return tmp_path, frame


@pytest.mark.parametrize("unused", [0.0, np.nan])
def test_a_profile_of_vidur(vidur, unused):
    folder, frame = vidur
    frame.fillna(unused).to_csv(folder / "attention.csv", index=False)
    model = from_profile(read_vidur(folder, layers=3), MINE, overhead_s=0.0)
    # 4 tokens: embedding 1 ms, 3 layers of 0.14 and two additions of 0.5. Attention 3 times 0.021
    # and 1e-5 a KV token.
    expected_ms = 1 + 3 * (0.14 + 2 * 0.5) + 3 * (0.021 + 1e-5 * 4 * 700)
    assert iteration(model, 0, 0, 4, 700) == pytest.approx(expected_ms * 1e-3, rel=1e-5)
    expected_ms = 1 + 3 * (0.74 + 2 * 0.5) + 3 * (0.011 + 1e-6 * 64 * (2 * 256 + 64))
    assert iteration(model, 64, 256) == pytest.approx(expected_ms * 1e-3, rel=1e-5)
    assert model.mixed_attention is None


def test_a_group_that_was_not_measured(vidur):
    folder, frame = vidur
    frame.to_csv(folder / "attention.csv", index=False)
    with pytest.raises(InputError, match="no row of so many GPUs"):
        read_vidur(folder, layers=3, tensor_parallel=4)


def test_a_profile_of_one_phase_only_is_refused(profile):
    tables = profile / "tp1"
    rewrite(
        tables / "attention.csv",
        lambda t: "\n".join(line for line in t.splitlines() if not line.startswith("0,")),
    )
    with pytest.raises(CostError, match="no batch size has decode attention"):
        from_profile(read_llmservingsim(profile, layers=2), MINE)


# LLMServingSim, older format


@pytest.fixture
def older(tmp_path):
    """Nanoseconds by operator; attention in ms, whose KV cache counts the chunk."""
    names = ("embedding", "q_proj", "attn", "final_layernorm", "lm_head")
    lines = [f"{name},{n},0,4,{1000 * n + 500}" for n in (1, 2, 8, 64, 128) for name in names]
    text = "\n".join(["layer_name,input,kv_cache,tp_size,latency(ns)", *lines, ""])
    (tmp_path / "layers.csv").write_text(text)
    common = {"num_tensor_parallel_workers": 4}
    prefills = [
        {"batch_size": 1, "prefill_chunk_size": c, "kv_cache_size": k, "is_prefill": True}
        | {"time_stats.attn_prefill.median": 0.01 + 1e-6 * c * (2 * (k - c) + c)}
        for c, k in product((32, 64), (64, 128, 512))
    ]
    decodes = [
        {"batch_size": n, "prefill_chunk_size": 0, "kv_cache_size": k - 1, "is_prefill": False}
        | {"time_stats.attn_decode.median": 0.02 + 1e-5 * n * k}
        for n, k in product((1, 2, 4), (256, 512, 1024, 2048))
    ]
    frame = pd.DataFrame([row | common for row in [*prefills, *decodes]])
    frame.to_csv(tmp_path / "attention.csv", index=False)  # the other phase's cells are blank
    return tmp_path


def test_an_older_profile_of_llmservingsim(older):
    profile = read_llmservingsim_v0(older, layers=3, tensor_parallel=4)
    model = from_profile(profile, MINE, overhead_s=0.0)
    # 2 tokens: embedding and final norm once, q_proj in 3 layers, 2.5 us each; lm_head for 2
    # sequences. `attn` is not counted: attention is 3 times 0.02 ms and 1e-5 ms a KV token.
    expected_us = 5 * 2.5 + 2.5 + 3 * (20 + 0.01 * 2 * 700)
    assert iteration(model, 0, 0, 2, 700) == pytest.approx(expected_us * 1e-6, rel=1e-4)
    # 64 tokens behind 64 have a cache of 128; one sequence.
    expected_us = 5 * 64.5 + 1.5 + 3 * (10 + 1e-3 * 64 * (2 * 64 + 64))
    assert iteration(model, 64, 64) == pytest.approx(expected_us * 1e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("layers.csv", "lm_head", "head", "there is no lm_head"),
        ("layers.csv", "latency(ns)", "latency(us)", "did you mean 'latency\\(us\\)'"),
        ("layers.csv", ",4,", ",2,", "no row of so many GPUs"),
        ("attention.csv", ",64,64,True", ",64,32,True", "must count the chunk's own tokens"),
    ],
)
def test_bad_older_profiles(older, file, old, new, message):
    text = (older / file).read_text()
    if file == "attention.csv":
        frame = pd.read_csv(older / file)
        frame.loc[frame["prefill_chunk_size"] == 64, "kv_cache_size"] = 32
        text = frame.to_csv(index=False)
    (older / file).write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_llmservingsim_v0(older, layers=3, tensor_parallel=4)


# What GPUs send each other


def test_a_ring_sends_two_times_all_but_its_own_part():
    # Four GPUs: 6 steps of 1 ms and a quarter of 4 MB at 1 GB/s each.
    assert ring(4, 1e9, 1e-3).at(np.array([0, 4e6])) == pytest.approx([0.006, 0.006 + 6 * 1e-3])
    assert ring(2, 1e9, 0.0).at(np.array([2**31])) == pytest.approx([2**31 / 1e9])  # beyond


def test_all_reduces_of_vidur(tmp_path):
    rows = [
        {"": n, "time_stats.all_reduce.median": ms, "rank": rank, "num_workers": gpus}
        | {"size": size, "collective": "all_reduce", "devices_per_node": node}
        for n, (gpus, node, size, rank, ms) in enumerate(
            [
                (2, 2, 2048, 0, 0.061),  # noise: above that of a larger size
                (2, 2, 10240, 0, 0.020),
                (2, 2, 10240, 1, 0.022),
                (2, 2, 20480, 0, 0.030),
                (2, 1, 20480, 0, 9.0),  # over the network
                (4, 4, 20480, 0, 8.0),
            ]
        )
    ]
    path = tmp_path / "all_reduce.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    times = read_all_reduce(path, 2)
    assert times.sizes.tolist() == [2048, 10240, 20480]
    assert times.seconds[1:] == pytest.approx([21e-6, 30e-6])
    # The slope of the last half goes on: 9 us in 10,240 bytes.
    assert times.at(np.array([40960])) == pytest.approx([48e-6])
    with pytest.raises(InputError, match="no row of so many GPUs"):
        read_all_reduce(path, 8)


def test_every_layer_sends_twice(older):
    profile = read_llmservingsim_v0(older, layers=80, tensor_parallel=4)
    shape = find_shape("llama-3.1-70b", 4)
    sent = with_all_reduce(profile, shape, ring(4, 1e9, 1e-3)).tokens_s - profile.tokens_s
    # 64 tokens of 8,192 numbers of 2 bytes.
    one = 6 * (1e-3 + 64 * 8192 * 2 / 4 / 1e9)
    assert sent[profile.tokens == 64] == pytest.approx(80 * 2 * one)
    request = Request(paths=(older,), provenance=MINE, model="llama-3.1-70b", tensor_parallel=4)
    more = replace(request, all_reduce=ring(4, 1e9, 1e-3))
    assert iteration(calibrate(more), 64) - iteration(calibrate(request), 64) == pytest.approx(
        80 * 2 * one, rel=1e-3
    )
    assert replace(more, tensor_parallel=1).all_reduces() is None


# Models and rooflines


def test_models_are_found_by_their_names(tmp_path):
    llama = find_shape("meta-llama/Llama-3.1-8B-Instruct")
    assert (llama.layers, llama.vocab) == (32, 128256)
    assert find_shape("/data/model/Qwen3-32B", tensor_parallel=2).attention_heads == (32, 4)
    with pytest.raises(InputError, match=r"did you mean 'llama-3\.1-8b'"):
        find_shape("llama-3.1-8")
    config = tmp_path / "config.json"
    config.write_text(
        '{"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, '
        '"intermediate_size": 128, "vocab_size": 100}'
    )
    assert (find_shape(config).kv_heads, find_shape(config).head_dim) == (4, 16)
    config.write_text('{"num_hidden_layers": 2}')
    with pytest.raises(InputError, match="cannot be read as a model's config"):
        find_shape(config)


def test_a_roofline_reads_the_weights_once_and_computes_every_product_once():
    gpu = Gpu(
        flops_per_s=1e15,
        memory_bytes_per_s=1e12,
        compute_efficiency=1.0,
        memory_efficiency=1.0,
        launch_s=1e-12,
    )
    model = from_profile(roofline(find_shape("llama-3.1-8b"), gpu), MINE, overhead_s=0.0)
    # One decode at 1,024: 7.5e9 parameters (all but the embedding) of 2 bytes at 1e12 a second, and
    # 1,024 KV tokens of 131,072 bytes.
    assert iteration(model, 0, 0, 1, 1024) == pytest.approx(15.0e-3 + 0.134e-3, rel=0.01)
    # 4,096 tokens at 1e15: 2 * 6.98e9 a token, causal attention 4 * 32 * 4096 * 4096 / 2 a token.
    # Norms, rotation and gate move 2 * (8 * 4096 + 2 * 40 * 128 + 3 * 14336) bytes a token, layer.
    seconds = 4096 * (2 * 6.98e9 + 32 * 4 * 4096 * 2048) / 1e15 + 0.001
    seconds += 32 * 4096 * 2 * (8 * 4096 + 2 * 40 * 128 + 3 * 14336) / 1e12
    assert iteration(model, 4096) == pytest.approx(seconds, rel=0.01)


def test_real_profiles(shared):
    folder = shared / "data" / "measurements" / "llmservingsim"
    for gpu in ("RTXPRO6000", "RTX4090"):
        request = Request(paths=(folder / f"{gpu}_Llama-3.1-8B_bf16",), provenance=MINE)
        model = calibrate(request)
        assert model.mixed_attention.seconds.shape == (8, 12, 9, 11)
        assert model.error["all"]["mean"] < 0.01
        assert model.error["held_out"]["all"]["mean"] < 0.015
