"""A cost model from times of whole iterations."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from sweeps.calibrate.fitting import fit, flat, hinges, segments, table, to_clock
from sweeps.calibrate.iterations import FEATURES, Provenance, fit_with_error
from vecsched.cost import CostModel, Terms
from vecsched.errors import InputError, did_you_mean

COUNTS = (
    "num_prefill_tokens",
    "num_decode_seqs",
    "sum_context_tokens",
    "prefill_context_tokens",
)
# Sums of squares of larger counts would not be exact in float64.
LARGEST_COUNT = 10**7
# Six terms besides the token table's slopes, and five folds that must each leave enough rows.
FEWEST_ROWS = 20


def fit_iteration_table(
    frame: pd.DataFrame,
    provenance: Provenance,
    *,
    time_column: str = "predicted_iteration_time_s",
) -> CostModel:
    """Fit a cost model to a table of whole-iteration times.

    One token table serves all iterations (linear layers do not care whose tokens they are): it
    rises, and may bend at quantiles of the token counts (`fitting.hinges`). Beside it stand a fixed
    time, one more for iterations with a prefill, a time per decode, per KV token the decodes read,
    per unit of prefill attention and per KV token ahead of a prefill. All are >= 0 and fitted
    together for the least mean relative error. Rows that agree in all counts become one, with the
    median of their times.

    Args:
        frame: one row an iteration, with the whole-number columns `num_prefill_tokens` (taken as
            one chunk), `num_decode_seqs`, `sum_context_tokens` (KV tokens the decodes read, own
            token included), `prefill_context_tokens` (KV tokens before the chunk), and the time.
        provenance: name, source and licence for the model's file.
        time_column: the column that holds the duration, in seconds.

    Returns:
        The model; its `error` holds the relative error by kind of iteration, on the rows of the
        fit and, in five folds, on rows held out.

    Raises:
        InputError: a column is missing, a value is no count or no time, or there are fewer than 20
            distinct iterations, or none of decodes only, or none with a prefill.
    """
    check_table(frame, time_column)
    return fit_iterations(_iterations(frame, time_column), provenance)


def fit_iterations(rows: pd.DataFrame, provenance: Provenance) -> CostModel:
    """Fit a cost model, as `fit_iteration_table` does, to whole iterations.

    Args:
        rows: DataFrame as in the docstring of `sweeps.calibrate.iterations`.
        provenance: name, source and licence for the model's file.

    Raises:
        InputError: there are fewer than 20 distinct iterations, or none of decodes only, or none
            with a prefill.
    """
    iterations = _merged(rows)

    def fit_rows(keep: np.ndarray) -> CostModel:
        return _fit(iterations[keep], provenance)

    return fit_with_error(iterations, fit_rows)


def _iterations(frame: pd.DataFrame, time_column: str) -> pd.DataFrame:
    """Name the table's columns as `iterations` does."""
    prefill, decodes, context, before = (frame[name].astype(np.int64) for name in COUNTS)
    return pd.DataFrame(
        {
            "prefill_tokens": prefill,
            "decodes": decodes,
            "sequences": decodes + (prefill > 0),
            "context_tokens": context,
            "attention": prefill * (2 * before + prefill),
            "prefill_context": before,
            "seconds": frame[time_column].astype(np.float64),
        }
    )


def _merged(rows: pd.DataFrame) -> pd.DataFrame:
    """Make one row, with the median of their times, of those that agree in all counts."""
    merged = rows.groupby(list(FEATURES), as_index=False).median()
    with_prefill = int((merged["prefill_tokens"] > 0).sum())
    if len(merged) < FEWEST_ROWS or with_prefill in {0, len(merged)}:
        raise InputError(
            f"{len(merged)} distinct iterations, {with_prefill} of them with a prefill: "
            f"a fit needs {FEWEST_ROWS}, some with a prefill and some without",
            source="iteration table",
        )
    return merged


def check_table(frame: pd.DataFrame, time_column: str, source: str = "iteration table") -> None:
    """Check a table of whole iterations; errors name it as `source`.

    Raises:
        InputError: a column is missing, or a value is no count or no time.
    """
    for name in (*COUNTS, time_column):
        if name not in frame:
            near = did_you_mean(name, map(str, frame.columns))
            raise InputError(f"missing column; {near}", source=source, field=name)
        values = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
        if name == time_column:
            good, right = (values > 0) & (values < np.inf), "must be seconds > 0"
        else:
            good = (values >= 0) & (values <= LARGEST_COUNT) & (values == np.floor(values))
            right = f"must be a whole number from 0 to {LARGEST_COUNT}"
        _complain(frame[name], source, good, right)
    busy = (frame["num_prefill_tokens"] > 0) | (frame["num_decode_seqs"] > 0)
    _complain(
        frame["num_decode_seqs"], source, busy.to_numpy(), "an iteration must hold some token"
    )


def _complain(column: pd.Series, source: str, good: np.ndarray, right: str) -> None:
    if not good.all():
        row = int(np.argmin(good))
        field = str(column.name)
        raise InputError(right, source=source, row=row, field=field, value=column.iloc[row])


class _Slopes(NamedTuple):
    fixed: float
    prefill: float
    decode: float
    context: float
    attention: float
    prefill_context: float


def _fit(iterations: pd.DataFrame, provenance: Provenance) -> CostModel:
    prefill, decodes, _, context, attention, before = (
        iterations[name].to_numpy(np.int64) for name in FEATURES
    )
    tokens = prefill + decodes
    bends = hinges(tokens)
    others = (np.ones(len(tokens)), prefill > 0, decodes, context, attention, before)
    design = np.column_stack([*others, segments(tokens, bends)]).astype(np.float64)
    coefficients = fit(design, iterations["seconds"].to_numpy())
    slopes = _Slopes(*(to_clock(value) for value in coefficients[: len(others)]))
    terms = {
        "token_s": table(coefficients[len(others) :], bends, int(tokens.max())),
        "decode_s": ((0, 0.0), (1, slopes.decode)),
        "context_s": flat(slopes.context),
    }
    return CostModel(
        decode=Terms(fixed_s=slopes.fixed, **terms),
        mixed=Terms(fixed_s=to_clock(slopes.fixed + slopes.prefill), **terms),
        prefill_attention_s=slopes.attention,
        prefill_context_s=slopes.prefill_context,
        **provenance._asdict(),
    )
