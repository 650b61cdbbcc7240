"""Reads the operator profiles of Vidur (`data/profiling/compute/<gpu>/<model>/`).

A profile holds milliseconds of one call, of one layer, on one GPU of a tensor-parallel group:
`mlp.csv` by tokens, `attention.csv` by batch of prefill chunks or of decodes. The columns of the
phase that a row is not of are 0.0 or blank. Neither the product that makes the logits nor the
sampler is in it.
"""

import re

import numpy as np
import pandas as pd

from sweeps.calibrate.fitting import extended
from sweeps.calibrate.given import Given, tables_of
from sweeps.calibrate.latency_csv import LatencyTable, by_size, read_csv
from sweeps.calibrate.profile import Profile
from vecsched.errors import InputError
from vecsched.mixed_attention import AXES

MILLISECOND = 1e-3
# Residuals are added after attention and after the feed-forward part; embedding comes once.
CALLS_IN_A_LAYER = {"add": 2}
ONCE = ("emb",)
GPUS = "num_tensor_parallel_workers"
BATCH = ("batch_size", "prefill_chunk_size", "kv_cache_size")
# Beside attention itself, by the tokens of a row.
AROUND_ATTENTION = ("attn_input_reshape", "attn_kv_cache_save", "attn_output_reshape")


def read_vidur(given: Given, *, layers: int, tensor_parallel: int = 1) -> Profile:
    """Read one profile.

    Args:
        given: the folder that holds `mlp.csv` and `attention.csv`, or both paths.
        layers: layers of the model; the profile is of one.
        tensor_parallel: GPUs that share the model; what they send each other is not in the profile
            (`sweeps.calibrate.all_reduce`).

    Raises:
        InputError: a file or a column is missing, a value is no count or no time, or no row is
            left.
    """
    linear, attention = (
        read_csv(path).of_gpus(GPUS, tensor_parallel)
        for path in tables_of(given).need("mlp.csv", "attention.csv")
    )
    tokens, tokens_s = _linear(linear, layers)
    return Profile(
        tokens=tokens,
        tokens_s=tokens_s,
        sequences=np.array([1, 2]),
        sequences_s=np.zeros(2),
        attention=attention_rows(attention, layers),
    )


def attention_rows(table: LatencyTable, layers: int) -> pd.DataFrame:
    """Return attention as `Profile` has it, for all layers; batches of several prefills left out.

    Args:
        table: Vidur's columns; those of the phase that a row is not of are 0.0 or blank.
        layers: layers of the model.

    Raises:
        InputError: a column is missing, or a value is no count or no time.
    """
    around = [name for operator, name in _medians(table).items() if operator in AROUND_ATTENTION]
    beside = table.frame[around].fillna(0.0).sum(axis=1)
    phases = []
    for phase in ("prefill", "decode"):
        column = f"time_stats.attn_{phase}.median"
        if column not in table.frame:
            raise InputError("missing column", source=table.path, field=column)
        rows = table.only(table.frame[column] != 0).columns(BATCH, column)
        rows["ms"] = rows[column] + beside.loc[rows.index]
        phases.append(_rows(rows, phase, layers))
    return pd.concat(phases, ignore_index=True)


def _linear(table: LatencyTable, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts and the seconds of all operators but attention, as often as they run."""
    parts = {
        operator: table.columns(["num_tokens"], column)
        for operator, column in _medians(table).items()
    }
    if not parts:
        raise InputError("no column time_stats.<operator>.median", source=table.path)
    sizes = np.unique(np.concatenate([rows["num_tokens"] for rows in parts.values()]))
    total = np.zeros(len(sizes))
    for operator, rows in parts.items():
        calls = 1 if operator in ONCE else layers * CALLS_IN_A_LAYER.get(operator, 1)
        column = rows.columns[-1]
        total += calls * MILLISECOND * by_size(rows, "num_tokens", column, sizes)
    return extended(sizes, total)


def _rows(rows: pd.DataFrame, phase: str, layers: int) -> pd.DataFrame:
    batch, chunk, context = (rows[name] for name in BATCH)
    if phase == "prefill":
        places = {"chunk": chunk, "prefill_context": context, "decodes": 0, "decode_context": 0}
    else:
        # The cache holds the tokens before the one that is made, which reads itself too.
        places = {
            "chunk": 0,
            "prefill_context": 0,
            "decodes": batch,
            "decode_context": context + 1,
        }
    table = pd.DataFrame({**places, "attention_s": layers * MILLISECOND * rows["ms"]})
    alone = table[(phase == "decode") | (batch == 1)]
    return alone.groupby([*AXES])["attention_s"].median().reset_index()


def _medians(table: LatencyTable) -> dict[str, str]:
    """Return the column of medians for each operator of a table."""
    found = (re.fullmatch(r"time_stats\.(.+)\.median", str(name)) for name in table.frame)
    return {match[1]: match[0] for match in found if match}
