"""Where an objective jumps: one step of one knob, all else equal, that changes it by a factor.

A cliff that a reader should know of: with whole-chunk admission, a chunk as large as the token
budget fits beside no decode, and throughput falls by more than ten times.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sweeps.frontier import check_objectives, usable
from sweeps.knobs import SEED, chosen_knobs, varying_conditions, varying_knobs
from vecsched.errors import InputError

# The columns of `cliffs` before those that the points have in common.
_STEP = ["knob", "from", "to", "before", "after", "ratio"]


def cliffs(
    frame: pd.DataFrame,
    objective: str,
    knobs: Sequence[str] | None = None,
    *,
    factor: float = 2.0,
) -> pd.DataFrame:
    """Return the steps of one knob, all else equal, at which an objective jumps.

    Levels of a knob are neighbours if no point between them is otherwise the same. Only knobs with
    an order are looked at: numbers, and no before yes. Of a knob whose values are names any two are
    neighbours, and a large difference is an effect rather than a cliff: see `main_effects`. Null
    (mostly: no bound) is no number, so no step leads there.

    Points that differ in nothing but their seed are averaged first.

    Args:
        frame: a row a point, as a sweep writes them. Points that did not end well, or lack the
            objective, take no part.
        objective: a column of numbers, none of them below 0.
        knobs: the columns whose steps are looked at; without them, all of `varying_knobs`.
        factor: steps that change the objective by less are not listed; above 1.

    Returns:
        A row a step, from the worst jump down: `knob`, the levels `from` and `to` (ascending), the
        objective `before` and `after`, `ratio` = after / before, and the conditions and knobs that
        vary, with the values that both points have; the knob's own is null.

    Raises:
        InputError: a column does not exist; the objective is no number, or below 0 somewhere;
            `factor` is out of range.
    """
    check_objectives(frame, [objective], ())
    if not factor > 1:
        raise InputError("must be above 1", field="factor", value=factor)
    knobs = chosen_knobs(frame, knobs)
    points = frame[usable(frame, [objective])]
    if (points[objective] < 0).any():
        least = float(points[objective].min())
        raise InputError("must be 0 or more to change by a factor", field=objective, value=least)
    conditions = [name for name in varying_conditions(frame) if name != SEED]
    held = [*dict.fromkeys([*conditions, *varying_knobs(frame), *knobs])]
    held = [name for name in held if name != objective]  # for a knob may be an objective
    ordered = [
        name for name in knobs if name in held and pd.api.types.is_numeric_dtype(frame[name])
    ]
    columns = [*_STEP, *held]
    if not ordered or points.empty:
        return pd.DataFrame(columns=columns)
    means = points.groupby(held, dropna=False)[objective].mean().reset_index()
    found = pd.concat([_steps(means, objective, knob, held) for knob in ordered], ignore_index=True)
    low, high = (found[["before", "after"]].agg(end, axis=1) for end in ("min", "max"))
    steep = found[(high >= factor * low) & (high > low)]
    # A jump from 0 is beyond any factor; among those the largest is the worst.
    sizes = pd.DataFrame({"factor": high / low, "jump": high - low})
    worst = sizes.loc[steep.index].sort_values(["factor", "jump"], ascending=False, kind="stable")
    return steep.loc[worst.index, columns].reset_index(drop=True)


def named_cliffs(found: pd.DataFrame) -> pd.DataFrame:
    """Gather the steps of `cliffs` into cliffs: a step between the same levels is the same cliff.

    Args:
        found: rows of `cliffs`.

    Returns:
        A row a cliff, from the worst down: `knob`, `from`, `to`; `steps`, how many there are;
        `before`, `after` and `ratio` of the worst; and `where`, a dict of the conditions and knobs
        that have one and the same value at all of its steps, if there are two or more: it may be
        there and nowhere else that the cliff is.
    """
    held = [name for name in found if name not in _STEP]
    rows = []
    for _, steps in found.groupby(["knob", "from", "to", found["ratio"] > 1], sort=False):
        worst = steps.iloc[0].to_dict()
        where = {
            name: worst[name]
            for name in held
            if name != worst["knob"] and len(steps) > 1 and steps[name].nunique(dropna=False) == 1
        }
        rows.append({**worst, "steps": len(steps), "where": where})
    return pd.DataFrame(rows, columns=["knob", "from", "to", "steps", *_STEP[3:], "where"])


def _steps(means: pd.DataFrame, objective: str, knob: str, held: list[str]) -> pd.DataFrame:
    """Return every step from one level of a knob to the next, all else equal."""
    others = [name for name in held if name != knob]
    levels = means[means[knob].notna()].sort_values(knob, kind="stable", ignore_index=True)
    rows = levels.index.to_series()
    lower = rows.groupby([levels[name] for name in others], dropna=False) if others else rows
    below = lower.shift().dropna().astype(np.int64)
    before, after = levels.loc[below].reset_index(), levels.loc[below.index].reset_index()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = after[objective].to_numpy(np.float64) / before[objective].to_numpy(np.float64)
    steps = after[held].astype(object).assign(**{knob: None, "knob": knob})
    steps["from"], steps["to"] = before[knob].astype(object), after[knob].astype(object)
    return steps.assign(before=before[objective], after=after[objective], ratio=ratio)
