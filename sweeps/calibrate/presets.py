"""The cost models that ship with vecsched, made again from the measurements they came from.

`write_presets(measurements, folder)` makes `vecsched/presets/*.json`, byte for byte.
"""

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from sweeps.calibrate.aiconfigurator import read_aiconfigurator
from sweeps.calibrate.iteration_table import fit_iteration_table
from sweeps.calibrate.iterations import Provenance, predict_s
from sweeps.calibrate.llmservingsim import read_llmservingsim
from sweeps.calibrate.models import find_shape
from sweeps.calibrate.operators import OperatorTables, from_operators
from sweeps.calibrate.profile import from_profile
from sweeps.calibrate.vidur import read_vidur
from vecsched.cost import CostModel
from vecsched.errors import InputError

LLAMA_3_1_8B = find_shape("llama-3.1-8b")
QWEN3_32B_TP2 = find_shape("qwen3-32b", tensor_parallel=2)
H100_CACHE_BYTES = 50e6

A100 = Provenance(
    name="llama3-8b-a100",
    source=(
        "Llama-3-8B, bf16, one A100: iteration times predicted, not measured, by Vidur "
        "(github.com/microsoft/vidur, commit 7d47513) from its profiles of linear layers and an "
        "attention table of about 100 rows; file llama3_8b_a100.vidur_predicted.csv"
    ),
    licence="MIT",
)
H100 = Provenance(
    name="llama3-8b-h100",
    source=(
        "Llama-3.1-8B, bf16, one H100 SXM: kernel times of vLLM 0.19.0 measured by aiconfigurator "
        "(github.com/ai-dynamo/aiconfigurator, commit 095f58a), files gemm_perf, "
        "context_attention_perf and generation_attention_perf in systems/data/h100_sxm; small "
        "kernels from h100_sxm.yaml; 1 ms of engine overhead an iteration"
    ),
    licence="Apache-2.0, Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES",
)
# Operator profiles: folder, and the preset's provenance.
LLMSERVINGSIM = (
    "kernel times of vLLM 0.19.0 measured by LLMServingSim (github.com/casys-kaist/LLMServingSim, "
    "commit 5daddb2, profiler/perf), one layer times 32; 1 ms of engine overhead an iteration"
)
PROFILES = {
    "RTXPRO6000_Llama-3.1-8B_bf16": Provenance(
        name="llama3-8b-rtxpro6000",
        source=f"Llama-3.1-8B, bf16, one RTX PRO 6000: {LLMSERVINGSIM}",
        licence="MIT",
    ),
    "RTX4090_Llama-3.1-8B_bf16": Provenance(
        name="llama3-8b-rtx4090",
        source=f"Llama-3.1-8B, bf16, one RTX 4090: {LLMSERVINGSIM}",
        licence="MIT",
    ),
}
A30 = Provenance(
    name="qwen2-7b-a30",
    source=(
        "Qwen-2-7B, bf16, one A30, attention by FlashInfer: kernel times measured with Vidur's "
        "profiler (github.com/AKafakA/vidur_opt_scheduler, commit 20bdc49), one layer times 28; "
        "without the product that makes the logits and the sampler, which it does not measure; "
        "nothing was measured of mixed attention; 1 ms of engine overhead an iteration"
    ),
    licence="MIT",
)
# The only end-to-end run of a dense model in vLLM on H100 without quantisation in silicon_refs.csv.
REFERENCE = "qwen_qwen3_32b_qwen_qwen3_32b_h100_sxm_vllm_agg_1024x1024_c32_tp2_epnone_37"


def build_presets(measurements: str | PathLike[str]) -> dict[str, CostModel]:
    """Make the shipped cost models from the folder of measurements, by name.

    Args:
        measurements: holds `iteration_table/llama3_8b_a100.vidur_predicted.csv`; from
            aiconfigurator, `aiconfigurator/h100_sxm/`, `h100_sxm.yaml` and `silicon_refs.csv`; from
            LLMServingSim the folders in `PROFILES`; `vidur/compute/a30/Qwen/Qwen-2-7B/`.

    Raises:
        InputError: a file is missing or is not what it should be.
    """
    folder = Path(measurements)
    times = _read_csv(folder / "iteration_table" / "llama3_8b_a100.vidur_predicted.csv")
    tables = read_aiconfigurator(
        folder / "aiconfigurator" / "h100_sxm", cache_bytes=H100_CACHE_BYTES
    )
    h100 = from_operators(tables, LLAMA_3_1_8B, H100)
    end_to_end = compare_end_to_end(tables, folder / "aiconfigurator" / "silicon_refs.csv")
    h100 = replace(h100, error={**h100.error, "end_to_end": end_to_end})
    models = [fit_iteration_table(times, A100), h100]
    for name, provenance in PROFILES.items():
        profile = read_llmservingsim(folder / "llmservingsim" / name, layers=LLAMA_3_1_8B.layers)
        models.append(from_profile(profile, provenance))
    a30 = folder / "vidur" / "compute" / "a30" / "Qwen" / "Qwen-2-7B"
    models.append(from_profile(read_vidur(a30, layers=find_shape("qwen2-7b").layers), A30))
    return {model.name: model for model in models}


def write_presets(measurements: str | PathLike[str], folder: str | PathLike[str]) -> list[Path]:
    """Write each shipped cost model to `<folder>/<name>.json`; return the paths."""
    models = build_presets(measurements)
    paths = {name: Path(folder) / f"{name}.json" for name in models}
    for name, model in models.items():
        model.save(paths[name])
    return list(paths.values())


def compare_end_to_end(tables: OperatorTables, references: Path) -> dict[str, Any]:
    """Compare the same kernels and the same overhead with a real run of another model.

    The run: Qwen3-32B, bf16, two H100, vLLM 0.12.0, 32 requests in flight, 1,024 tokens in and out.
    Between its first token and its last a request sits through 1,023 iterations. Each of the 31
    others is prefilled once meanwhile, with the other 31 decoding. The mean context is half-way,
    1,024 + 512.
    """
    runs = _read_csv(references)
    run = runs[runs["id"] == REFERENCE]
    if len(run) != 1:
        raise InputError("no such run, or several", source=references, field="id", value=REFERENCE)
    model = from_operators(
        tables, QWEN3_32B_TP2, Provenance("qwen3-32b-h100-tp2", "aiconfigurator")
    )
    prompt, output, flight = 1024, 1024, 32
    decodes = pd.Series([flight, flight - 1])
    prefill = pd.Series([0, prompt])
    iterations = pd.DataFrame(
        {
            "prefill_tokens": prefill,
            "decodes": decodes,
            "sequences": flight,
            "context_tokens": decodes * (prompt + output // 2),
            "attention": prefill**2,
            "prefill_context": 0,
        }
    )
    decode_s, mixed_s = predict_s(model, iterations)
    others, gaps = flight - 1, output - 1
    tpot_ms = 1e3 * ((gaps - others) * decode_s + others * mixed_s) / gaps
    measured_ms = float(run["silicon_tpot_ms"].iloc[0])
    return {
        "run": REFERENCE,
        "tpot_measured_ms": round(measured_ms, 2),
        "tpot_model_ms": round(float(tpot_ms), 2),
        "difference": round(float(tpot_ms) / measured_ms - 1, 4),
    }


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as CSV: {error}", source=path) from None
