"""A cost model from the operator profile of one model on one GPU.

An iteration is the sum of its operators: what depends on its tokens alone, what depends on its
sequences alone, and attention. Attention of decodes is affine in the KV tokens they read, with
coefficients of its own for each batch size. Attention of a prefill beside decodes is a measured
grid where the profile has one; where it has not, the two are priced apart, which is a lower bound.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from sweeps.calibrate.attention_grid import complete_grid, planes
from sweeps.calibrate.fitting import FOLDS, fit, folds, rising, to_clock, to_points
from sweeps.calibrate.iterations import ENGINE_OVERHEAD_S, Provenance, error_of, predict_s
from vecsched.cost import CostModel, Terms
from vecsched.errors import CostError
from vecsched.mixed_attention import AXES, MixedAttention

# Largest step of a table that interpolation may miss, relative to the whole iteration.
TOLERANCE = 0.002
# Decodes that read more than this together say nothing: it is the KV cache of an 8B model in 64 GB.
# A profile of one layer is measured far beyond what all layers' KV leaves room for.
MOST_KV_TOKENS = 2**19
# Time per KV token falls up to about this context. One line through shorter contexts too would be
# off at the longer ones, where engines spend their time. Chosen by cross-validation on three
# profiles (`docs/accuracy.md`).
LEAST_CONTEXT = 256
# What a line needs, and the four terms of prefill attention.
FEWEST_CONTEXTS = 2
FEWEST_PREFILLS = 4

Predictions = Iterator[tuple[np.ndarray, pd.DataFrame]]


class Profile(NamedTuple):
    """Seconds of a model's operators, all layers together, without duplicates.

    Attributes:
        tokens: counts, ascending.
        tokens_s: all that depends on the tokens of an iteration alone, at each count.
        sequences: counts, ascending.
        sequences_s: all that depends on its sequences alone; zeros if that was not measured.
        attention: a row a measurement: `chunk` of the one prefill or 0, `prefill_context`,
            `decodes`, `decode_context` (KV tokens each of them reads) and `attention_s`.
    """

    tokens: np.ndarray
    tokens_s: np.ndarray
    sequences: np.ndarray
    sequences_s: np.ndarray
    attention: pd.DataFrame

    def iterations(self, attention: pd.DataFrame, overhead_s: float) -> pd.DataFrame:
        """Put attention times and the other operators together to iterations (`iterations`)."""
        chunk, before, decodes, context = (attention[name] for name in AXES)
        sequences = decodes + (chunk > 0)
        return attention.assign(
            prefill_tokens=chunk,
            sequences=sequences,
            context_tokens=decodes * context,
            attention=chunk * (2 * before + chunk),
            seconds=overhead_s
            + np.interp(chunk + decodes, self.tokens, self.tokens_s)
            + np.interp(sequences, self.sequences, self.sequences_s)
            + attention["attention_s"],
        )


def from_profile(
    profile: Profile, provenance: Provenance, *, overhead_s: float = ENGINE_OVERHEAD_S
) -> CostModel:
    """Fit a cost model to an operator profile.

    Args:
        profile: what was measured.
        provenance: name, source and licence for the model's file.
        overhead_s: seconds an iteration takes beside its operators; 0: nothing but the profile.

    Returns:
        The model. Its `error` is that against sums of measured operators, by kind of iteration; its
        `held_out` that on rows left out of the fit (five folds), on each inner plane of the grid
        left out in turn, and on measurements that are no points of the grid.

    Raises:
        CostError: the profile has no decodes or no prefills, or too few of them.
    """
    rows = profile.iterations(profile.attention, overhead_s)
    prefill = (rows["chunk"] > 0).to_numpy()
    grid, put_right = complete_grid(rows[prefill])
    base = _tables(profile, overhead_s, provenance)

    def fit_rows(keep: np.ndarray) -> CostModel:
        model = _with_decodes(base, rows[keep & ~prefill])
        if grid is not None:
            return replace(model, mixed_attention=grid)
        return _with_prefills(model, rows[keep & prefill & (rows["decodes"] == 0)])

    model = fit_rows(np.ones(len(rows), bool))

    def held_out() -> Predictions:
        fold = folds(len(rows))
        fitted = ~prefill | (grid is None)
        for number in range(FOLDS):
            out = rows[(fold == number) & fitted]
            yield predict_s(fit_rows(fold != number), out), out
        if grid is not None:
            yield from _beside_the_grid(model, grid, profile, overhead_s)

    error = error_of(predict_s(model, rows), rows, held_out())
    if put_right:
        error["grid_points_put_right"] = put_right
    return replace(model, error=error)


def _beside_the_grid(
    model: CostModel, grid: MixedAttention, profile: Profile, overhead_s: float
) -> Predictions:
    """Predict measurements that the grid does not hold, and its own planes without them."""
    rows = profile.iterations(profile.attention, overhead_s)
    on = [rows[name].isin(getattr(grid, name)) for name in AXES]
    # Without decodes there is no decode context that could be on the axis.
    on[3] |= rows["decodes"] == 0
    off = rows[(rows["chunk"] > 0) & ~np.logical_and.reduce(on)]
    if not off.empty:
        yield predict_s(model, off), off
    for thinner, points in planes(grid):
        out = profile.iterations(points, overhead_s)
        yield predict_s(replace(model, mixed_attention=thinner), out), out


def _tables(profile: Profile, overhead_s: float, provenance: Provenance) -> CostModel:
    """Return the model of everything but attention."""
    # An iteration holds no more sequences than tokens: the same scale serves both.
    scale = np.interp(profile.sequences, profile.tokens, profile.tokens_s)
    has_sequences = bool(profile.sequences_s.any())
    terms = Terms(
        fixed_s=overhead_s,
        token_s=rising(profile.tokens, profile.tokens_s, profile.tokens_s, TOLERANCE),
        sequence_s=rising(profile.sequences, profile.sequences_s, scale, TOLERANCE)
        if has_sequences
        else (),
    )
    return CostModel(decode=terms, mixed=terms, **provenance._asdict())


def _with_decodes(model: CostModel, rows: pd.DataFrame) -> CostModel:
    """Add attention of decodes: a time and a slope over KV tokens for each batch size."""
    sizes, base, slopes = [], [], []
    usual = rows["decode_context"] >= LEAST_CONTEXT
    usual &= rows["context_tokens"] <= MOST_KV_TOKENS
    rows = rows[usual]
    for decodes in np.unique(rows["decodes"]).tolist():
        group = rows[rows["decodes"] == decodes]
        if len(group) >= FEWEST_CONTEXTS:
            design = np.column_stack([np.ones(len(group)), group["context_tokens"]])
            time, slope = fit(design, group["attention_s"].to_numpy(), group["seconds"].to_numpy())
            sizes.append(decodes)
            base.append(time)
            slopes.append(slope)
    if not sizes:
        raise CostError(f"no batch size has decode attention at {FEWEST_CONTEXTS} contexts or more")
    # Larger batches never take less time; below and beyond those measured the slope stays.
    levels = np.maximum.accumulate(base)
    slope_at = [0, *sizes, sizes[-1] + 1]
    return replace(
        model,
        decode=replace(
            model.decode,
            decode_s=to_points(sizes, levels),
            context_s=to_points(slope_at, [slopes[0], *slopes, slopes[-1]]),
        ),
    )


def _with_prefills(model: CostModel, rows: pd.DataFrame) -> CostModel:
    """Add attention of prefills without a grid; decodes beside them are priced as if alone."""
    if len(rows) < FEWEST_PREFILLS:
        raise CostError(f"{len(rows)} prefill attention times: a fit needs {FEWEST_PREFILLS}")
    features = (rows["prefill_tokens"], rows["attention"], rows["prefill_context"])
    design = np.column_stack([np.ones(len(rows)), *features])
    coefficients = fit(design, rows["attention_s"].to_numpy(), rows["seconds"].to_numpy())
    fixed, per_token, per_work, per_context = map(to_clock, coefficients)
    # Attention's time per token joins the mixed token table, which counts decodes too: what it adds
    # to them is taken off their own table.
    tokens = [(n, s + per_token * n) for n, s in model.mixed.token_s]
    decodes = [(n, s - per_token * n) for n, s in model.decode.decode_s]
    return replace(
        model,
        mixed=Terms(
            fixed_s=to_clock(model.mixed.fixed_s + fixed),
            token_s=to_points(*zip(*tokens, strict=True)),
            sequence_s=model.mixed.sequence_s,
            decode_s=to_points(*zip(*decodes, strict=True)),
            context_s=model.decode.context_s,
        ),
        prefill_attention_s=per_work,
        prefill_context_s=per_context,
    )
