"""Fits a cost model to logs of real runs, so that simulated and measured latencies meet.

Two figures are fitted to a model that is given: a factor on all its times, and a constant that
every iteration takes beside. More would not be told apart by latencies.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from sweeps.calibrate.iterations import Provenance, summarise
from sweeps.measured_run import MeasuredRun
from sweeps.validate import METRICS, Validation, validate
from vecsched.cost import CostModel, Terms

# (factor, milliseconds beside): where the search starts, and between what.
START, LEAST, MOST = (1.0, 0.5), (0.1, 0.0), (10.0, 100.0)
# The simulated latencies jump with every scheduling decision: derivatives over a wide step.
STEP = 0.02
# A latency that is missed by more than this share counts less than its square.
LARGE_MISS = 0.2
MILLISECOND = 1e-3


class Adjustment(NamedTuple):
    """What runs say about a model: all times by `factor`, and `overhead_s` an iteration."""

    factor: float
    overhead_s: float

    def applied(self, model: CostModel) -> CostModel:
        """Return the model with all its times changed so."""
        grid = model.mixed_attention
        if grid is not None:
            grid = replace(grid, seconds=grid.seconds * self.factor)
        factors = ("prefill_attention_s", "prefill_context_s", "chunk_decode_s")
        return replace(
            model,
            decode=self._terms(model.decode),
            mixed=self._terms(model.mixed),
            mixed_attention=grid,
            **{name: self.factor * getattr(model, name) for name in factors},
        )

    def _terms(self, terms: Terms) -> Terms:
        tables = {
            name: tuple((n, self.factor * seconds) for n, seconds in getattr(terms, name))
            for name in ("token_s", "sequence_s", "decode_s", "context_s")
        }
        return Terms(fixed_s=self.factor * terms.fixed_s + self.overhead_s, **tables)


def fit_run(runs: Sequence[MeasuredRun], base: CostModel, provenance: Provenance) -> CostModel:
    """Adjust a cost model to runs by least squares over the latencies of their simulations.

    A miss is relative to the mean of its metric (`ttft`, `tpot`, `e2e`), all requests count alike,
    and large misses count less than their square (soft L1), so a few odd requests bend nothing.

    Args:
        runs: real runs, at least one; the model is the same for all.
        base: the model to adjust.
        provenance: name, source and licence for the model's file.

    Returns:
        The model; its `error` has, by metric, |simulated / measured - 1| of the requests. In
        `held_out` each half of them is predicted by a fit to the other half.

    Raises:
        InputError: no request was served in the run and in its simulation.
    """
    rows = np.arange(sum(len(found.measured) for found in _replayed(runs, base)))
    adjustment = _fit(runs, base, rows >= 0)
    model = adjustment.applied(base)
    error: dict[str, Any] = {
        "figure": "abs(simulated / measured - 1) of a request's latency",
        "factor": round(adjustment.factor, 6),
        "overhead_s": round(adjustment.overhead_s, 9),
        **_error(_misses(_replayed(runs, model))),
    }
    halves = [rows % 2 == half for half in (0, 1)]
    unseen = [
        _misses(_replayed(runs, _fit(runs, base, ~half).applied(base)))[:, half] for half in halves
    ]
    error["held_out"] = {"folds": 2, **_error(np.concatenate(unseen, axis=1))}
    return replace(model, error=error, **provenance._asdict())


def _replayed(runs: Sequence[MeasuredRun], model: CostModel) -> list[Validation]:
    return [validate(run, model) for run in runs]


def _fit(runs: Sequence[MeasuredRun], base: CostModel, keep: np.ndarray) -> Adjustment:
    def residuals(figures: np.ndarray) -> np.ndarray:
        adjusted = Adjustment(figures[0], figures[1] * MILLISECOND).applied(base)
        misses = []
        for found in _replayed(runs, adjusted):
            scale = found.measured[list(METRICS)].mean().to_numpy()
            misses.append((found.simulated - found.measured)[list(METRICS)].to_numpy() / scale)
        return np.nan_to_num(np.concatenate(misses)[keep]).ravel()

    found = least_squares(
        residuals,
        START,
        bounds=(LEAST, MOST),
        loss="soft_l1",
        f_scale=LARGE_MISS,
        diff_step=STEP,
        xtol=1e-4,
    )
    return Adjustment(float(found.x[0]), float(found.x[1]) * MILLISECOND)


def _misses(validations: Sequence[Validation]) -> np.ndarray:
    """Relative errors (metrics, requests of all runs), NaN where there is no latency."""
    ratios = [(found.simulated / found.measured)[list(METRICS)].to_numpy() for found in validations]
    return np.abs(np.concatenate(ratios) - 1).T


def _error(misses: np.ndarray) -> dict[str, Any]:
    return {
        metric: summarise(miss[np.isfinite(miss)])
        for metric, miss in zip(METRICS, misses, strict=True)
    }
