"""Reads the operator profiles of LLMServingSim (`profiler/perf/<gpu>/<model>/<type>/`).

A profile holds microseconds of one call, of one layer, on one GPU of the tensor-parallel group in
the folder's name. `dense.csv` is by tokens, `per_sequence.csv` by sequences, `attention.csv` by
chunk, context, decodes and their context. What its files on uneven contexts (`skew.csv`,
`skew_fit.csv`) hold is not used: decodes are taken to read their mean context.
"""

from os import PathLike
from pathlib import Path

import numpy as np

from sweeps.calibrate.fitting import extended
from sweeps.calibrate.latency_csv import by_size, read_csv
from sweeps.calibrate.profile import Profile
from vecsched.errors import InputError

# How often an iteration runs an operator of `dense.csv`: these once, all others in every layer.
ONCE = ("embedding", "final_layernorm")
# Normalised before attention and before the feed-forward part; the profile has it once.
CALLS_IN_A_LAYER = {"layernorm": 2}
MICROSECOND = 1e-6
ATTENTION = {
    "prefill_chunk": "chunk",
    "kv_prefill": "prefill_context",
    "n_decode": "decodes",
    "kv_decode": "decode_context",
}


def read_llmservingsim(
    folder: str | PathLike[str], *, layers: int, tensor_parallel: int = 1
) -> Profile:
    """Read one profile.

    Args:
        folder: holds `tp<n>/`, or is that folder.
        layers: layers of the model; the profile is of one.
        tensor_parallel: GPUs that share the model.

    Raises:
        InputError: a file or a column is missing, a value is no count or no time, or the profile
            is of a mixture of experts, whose time depends on which experts are chosen.
    """
    folder = Path(folder)
    tables = folder / f"tp{tensor_parallel}"
    tables = tables if tables.is_dir() else folder
    if (tables / "moe.csv").exists():
        raise InputError("mixtures of experts cannot be calibrated yet", source=tables / "moe.csv")
    tokens, tokens_s = _sum(tables / "dense.csv", "tokens", layers)
    sequences, sequences_s = _sum(tables / "per_sequence.csv", "sequences", 1)
    attention = read_csv(tables / "attention.csv").columns([*ATTENTION], "time_us")
    times = attention.groupby([*ATTENTION])["time_us"].median()
    seconds = (layers * MICROSECOND * times).rename("attention_s")
    rows = seconds.reset_index().rename(columns=ATTENTION)
    return Profile(tokens, tokens_s, sequences, sequences_s, rows)


def _sum(path: Path, count: str, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts and the seconds of all operators in a table, each as often as it runs."""
    rows = read_csv(path).columns([count], "time_us", labels=["layer"])
    sizes = np.unique(rows[count])
    total = np.zeros(len(sizes))
    for operator, own in rows.groupby("layer"):
        in_a_layer = CALLS_IN_A_LAYER.get(str(operator), 1)
        calls = 1 if operator in ONCE else layers * in_a_layer
        total += calls * MICROSECOND * by_size(own, count, "time_us", sizes)
    return extended(sizes, total)
