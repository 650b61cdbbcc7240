"""What a fit sees of an iteration, what a cost model says it lasts, and how far the two are apart.

Iterations are a DataFrame with the columns (all whole numbers but the last):

- `prefill_tokens`: prompt tokens of all prefill chunks together.
- `decodes`: requests that decode one token each.
- `sequences`: decodes and prefill chunks.
- `context_tokens`: KV tokens that the decodes read, each one's own included.
- `attention`: sum over prefill chunks of chunk * (2 * context before it + chunk), which is
  proportional to the work of their causal attention.
- `prefill_context`: sum over prefill chunks of the KV tokens before them.
- `seconds`: duration of the whole iteration, as measured or put together from kernels.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sweeps.calibrate.fitting import FOLDS, folds
from vecsched.clock import to_seconds
from vecsched.cost import CostModel
from vecsched.mixed_attention import interpolate_ps

FEATURES = (
    "prefill_tokens",
    "decodes",
    "sequences",
    "context_tokens",
    "attention",
    "prefill_context",
)
# What vLLM adds to an iteration beside its kernels: scheduling, input preparation, sampling,
# handing out tokens. It is the CPU's time and does not follow the GPU's speed, so it is one
# constant for every model, GPU and run. Found on a run of Llama-3.1-8B on an RTX PRO 6000, vLLM
# 0.19: with it the means of simulated and measured latency agree within one percent
# (`docs/accuracy.md`).
ENGINE_OVERHEAD_S = 0.001
# A row that a model misses by more than a fifth is taken for an outlier: counted in every figure of
# the error, and set apart in one more.
OUTLIER = 0.2


class Provenance(NamedTuple):
    """Where a cost model's figures come from: kept in its file."""

    name: str
    source: str
    licence: str = ""


def predict_s(model: CostModel, iterations: pd.DataFrame) -> np.ndarray:
    """Return the seconds that a cost model gives to each iteration, float64 (rows,).

    The sums are those of the engine, in its whole picoseconds (`vecsched.cost` has the formula).
    """
    prefill, decodes, sequences, context, attention, prefill_context = (
        iterations[name].to_numpy(np.int64) for name in FEATURES
    )
    tokens = prefill + decodes
    ps = model.tables(int(tokens.max()), int(sequences.max()))
    decode_only = ps.decode_ps[decodes] + ps.decode_context_ps[decodes] * context
    with_prefill = (
        ps.fixed_ps
        + ps.token_ps[tokens]
        + ps.sequence_ps[sequences]
        + ps.mixed_decode_ps[decodes]
        + ps.mixed_context_ps[decodes] * context
        + ps.prefill_attention_ps * attention
        + ps.prefill_context_ps * prefill_context
        + ps.chunk_decode_ps * prefill * decodes
    )
    if model.mixed_attention is not None:
        mixed = prefill > 0
        chunk = prefill[mixed].astype(np.float64)
        before = np.maximum((attention[mixed] / chunk - chunk) / 2, 0.0)
        each = context[mixed] / np.maximum(decodes[mixed], 1)
        with_prefill[mixed] += interpolate_ps(
            ps.attention, (chunk, before, decodes[mixed], each)
        ).astype(np.int64)
    return to_seconds(np.where(prefill > 0, with_prefill, decode_only))


def error_by_kind(predicted_s: np.ndarray, iterations: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Summarise |predicted / given - 1| by kind of iteration.

    Returns:
        For `all`, `decode_only`, `prefill_only` and `mixed`, where there are rows: `rows`, `mean`,
        `median`, `max`, and if some rows are missed by more than 20 %, `outliers` (how many) and
        `max_of_others`. Shares of one, rounded to four digits.
    """
    miss = np.abs(predicted_s / iterations["seconds"].to_numpy() - 1)
    prefill, decode = iterations["prefill_tokens"] > 0, iterations["decodes"] > 0
    kinds = {
        "all": prefill | decode,
        "decode_only": decode & ~prefill,
        "prefill_only": prefill & ~decode,
        "mixed": prefill & decode,
    }
    return {kind: summarise(miss[rows]) for kind, rows in kinds.items() if rows.any()}


def summarise(miss: np.ndarray) -> dict[str, Any]:
    """Return rows, mean, median and max of relative errors (rows,), outliers set apart."""
    figures = {"mean": miss.mean(), "median": np.median(miss), "max": miss.max()}
    others = miss[miss <= OUTLIER]
    if 0 < len(others) < len(miss):
        figures["max_of_others"] = others.max()
    summary: dict[str, Any] = {"rows": len(miss)}
    summary |= {name: round(float(value), 4) for name, value in figures.items()}
    return summary if len(others) == len(miss) else summary | {"outliers": len(miss) - len(others)}


def error_of(
    predicted_s: np.ndarray,
    iterations: pd.DataFrame,
    held_out: Iterable[tuple[np.ndarray, pd.DataFrame]],
) -> dict[str, Any]:
    """Return what a model's file says about its error.

    Args:
        predicted_s: the model's seconds for `iterations`.
        iterations: all rows, DataFrame as in the module's docstring.
        held_out: seconds for rows that the fit behind them has not seen, and those rows.
    """
    parts = list(held_out)
    unseen = pd.concat([rows for _, rows in parts], ignore_index=True)
    unseen_s = np.concatenate([seconds for seconds, _ in parts])
    error: dict[str, Any] = {"figure": "abs(model / given - 1) of an iteration's duration"}
    error |= error_by_kind(predicted_s, iterations)
    error["held_out"] = {"folds": FOLDS, **error_by_kind(unseen_s, unseen)}
    return error


def fit_with_error(
    iterations: pd.DataFrame, fit_rows: Callable[[np.ndarray], CostModel]
) -> CostModel:
    """Fit a cost model to all rows; its error tells how it meets them, and rows held out.

    Args:
        iterations: the rows, DataFrame as in the module's docstring.
        fit_rows: fits a model to the rows that a boolean mask (rows,) keeps.
    """
    model = fit_rows(np.ones(len(iterations), bool))
    fold = folds(len(iterations))
    outs = [iterations[fold == number] for number in range(FOLDS)]
    held_out = ((predict_s(fit_rows(fold != number), out), out) for number, out in enumerate(outs))
    return replace(model, error=error_of(predict_s(model, iterations), iterations, held_out))
