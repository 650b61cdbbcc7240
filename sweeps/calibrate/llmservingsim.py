"""Reads the operator profiles of LLMServingSim (`profiler/perf/<gpu>/<model>/<type>/`).

A profile holds microseconds of one call, of one layer, on one GPU of the tensor-parallel group in
the folder's name. `dense.csv` is by tokens, `per_sequence.csv` by sequences, `attention.csv` by
chunk, context, decodes and their context. What its files on uneven contexts (`skew.csv`,
`skew_fit.csv`) hold is not used: decodes are taken to read their mean context.

In a mixture of experts `moe.csv` has the feed-forward part, by tokens and by how many experts they
wake. Which ones is not known before a run, so routing is taken to be balanced: of E experts, k a
token, n tokens wake E * (1 - (1 - k / E)**n) on average.
"""

from pathlib import Path

import numpy as np

from sweeps.calibrate.fitting import extended
from sweeps.calibrate.given import Given, Tables, as_paths, tables_of
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


def read_llmservingsim(given: Given, *, layers: int, tensor_parallel: int = 1) -> Profile:
    """Read one profile.

    Args:
        given: a folder that holds `tp<n>/`, or is that folder; or the path of each table.
        layers: layers of the model; the profile is of one.
        tensor_parallel: GPUs that share the model; what they send each other is not in the profile
            (`sweeps.calibrate.all_reduce`).

    Raises:
        InputError: a file or a column is missing, or a value is no count or no time.
    """
    tables = _of_group(given, tensor_parallel)
    dense, sequences, attention = tables.need("dense.csv", "per_sequence.csv", "attention.csv")
    calls = read_csv(attention).columns([*ATTENTION], "time_us")
    times = calls.groupby([*ATTENTION])["time_us"].median()
    sizes, seconds = _sum(dense, "tokens", layers)
    if "moe.csv" in tables.files:
        seconds = seconds + layers * _experts(tables.files["moe.csv"], sizes)
    return Profile(
        *extended(sizes, seconds),
        *extended(*_sum(sequences, "sequences", 1)),
        (layers * MICROSECOND * times)
        .rename("attention_s")
        .reset_index()
        .rename(columns=ATTENTION),
    )


def _of_group(given: Given, tensor_parallel: int) -> Tables:
    """Return the tables for so many GPUs."""
    paths = as_paths(given)
    groups = sorted(paths[0].glob("tp*/")) if len(paths) == 1 else []
    if not groups:
        return tables_of(given)
    wanted = paths[0] / f"tp{tensor_parallel}"
    if wanted not in groups:
        known = ", ".join(group.name for group in groups)
        raise InputError(f"there is no tp{tensor_parallel} in it, only {known}", source=paths[0])
    return tables_of(wanted)


def _sum(path: Path, count: str, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts and the seconds of all operators in a table, each as often as it runs."""
    rows = read_csv(path).columns([count], "time_us", labels=["layer"])
    sizes = np.unique(rows[count])
    total = np.zeros(len(sizes))
    for operator, own in rows.groupby("layer"):
        in_a_layer = CALLS_IN_A_LAYER.get(str(operator), 1)
        calls = 1 if operator in ONCE else layers * in_a_layer
        total += calls * MICROSECOND * by_size(own, count, "time_us", sizes)
    return sizes, total


def _experts(path: Path, sizes: np.ndarray) -> np.ndarray:
    """Return the seconds of one layer's experts at each number of tokens, routing balanced."""
    rows = read_csv(path).columns(["tokens", "activated_experts"], "time_us")
    experts = rows["activated_experts"].max()
    asleep = 1 - rows["activated_experts"].min() / experts  # chance to sleep through one token
    counts = np.unique(rows["tokens"])
    seconds = np.empty(len(counts))
    for place, count in enumerate(counts):
        own = rows[rows["tokens"] == count]
        known = np.unique(own["activated_experts"])
        times = by_size(own, "activated_experts", "time_us", known)
        seconds[place] = MICROSECOND * np.interp(experts * (1 - asleep**count), known, times)
    return np.interp(sizes, counts, seconds)
