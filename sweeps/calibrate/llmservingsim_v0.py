"""Reads the older operator profiles of LLMServingSim (`profiler/v0/perf_models/<gpu>/<model>/`).

`layers.csv` has nanoseconds by operator and tokens, `attention.csv` milliseconds in Vidur's
columns, where those of the phase that did not run are blank. Both are of one layer, on one GPU.

- The KV cache of a prefill counts the chunk itself: it is never smaller than the chunk, and 1,024
  tokens with a cache of 1,024 take what 1,024 without any context take in `layers.csv`.
- `layers.csv` has attention too, of whole prompts; `attention.csv` is the finer measurement.
- The product that makes the logits was measured by tokens, and runs once a sequence.
"""

import numpy as np
import pandas as pd

from sweeps.calibrate.fitting import extended
from sweeps.calibrate.given import Given, tables_of
from sweeps.calibrate.latency_csv import LatencyTable, by_size, read_csv
from sweeps.calibrate.profile import Profile
from sweeps.calibrate.vidur import GPUS, attention_rows
from vecsched.errors import InputError

NANOSECOND = 1e-9
ONCE = ("embedding", "final_layernorm")
BY_SEQUENCE = "lm_head"
IN_THE_OTHER_FILE = "attn"
TIME = "latency(ns)"


def read_llmservingsim_v0(given: Given, *, layers: int, tensor_parallel: int = 1) -> Profile:
    """Read one profile.

    Args:
        given: the folder that holds `layers.csv` and `attention.csv`, or both paths.
        layers: layers of the model; the profile is of one.
        tensor_parallel: GPUs that share the model; what they send each other is not in the profile
            (`sweeps.calibrate.all_reduce`).

    Raises:
        InputError: a file or a column is missing, a value is no count or no time, or no row is of
            so many GPUs.
    """
    layers_csv, attention_csv = tables_of(given).need("layers.csv", "attention.csv")
    table = read_csv(layers_csv).of_gpus("tp_size", tensor_parallel)
    rows = table.columns(["input"], TIME, labels=["layer_name"])
    names = rows["layer_name"]
    if BY_SEQUENCE not in set(names):
        raise InputError(f"there is no {BY_SEQUENCE}", source=table.path, field="layer_name")
    tokens, tokens_s = _sum(rows[~names.isin([BY_SEQUENCE, IN_THE_OTHER_FILE])], layers)
    sequences, sequences_s = _sum(rows[names == BY_SEQUENCE], 1)
    attention = read_csv(attention_csv).of_gpus(GPUS, tensor_parallel)
    return Profile(tokens, tokens_s, sequences, sequences_s, _attention(attention, layers))


def _sum(rows: pd.DataFrame, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts and the seconds of all operators, each as often as it runs."""
    sizes = np.unique(rows["input"])
    total = np.zeros(len(sizes))
    for operator, own in rows.groupby("layer_name"):
        calls = 1 if operator in ONCE else layers
        total += calls * NANOSECOND * by_size(own, "input", TIME, sizes)
    return extended(sizes, total)


def _attention(table: LatencyTable, layers: int) -> pd.DataFrame:
    rows = attention_rows(table, layers)
    before = rows["prefill_context"] - rows["chunk"]
    if (before < 0).any():
        raise InputError(
            "must count the chunk's own tokens",
            source=table.path,
            field="kv_cache_size",
            value=int(rows["prefill_context"].iloc[int(np.argmax(before < 0))]),
        )
    return rows.assign(prefill_context=before)
