"""The ends of each frontier, what lies between, and the one knob that trades most."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sweeps.frontier import POOR_SLO
from sweeps.knees import knee_points
from sweeps.knobs import SEED
from sweeps.report.question import Question


class Trade(NamedTuple):
    """The ends of one group's frontier.

    Attributes:
        group: the group's value; None if there is only one group.
        settings: how many rows the group has.
        front: its frontier.
        most: the row that is best in the first objective.
        fair: the row that is best in the second.
        knee: where the frontier bends; None if it does not.
    """

    group: Any
    settings: int
    front: pd.DataFrame
    most: pd.Series
    fair: pd.Series
    knee: pd.Series | None


class Turn(NamedTuple):
    """Two settings on one frontier that differ in one knob.

    Attributes:
        knob: the knob.
        most: the row that is better in the first objective.
        fair: the row that is better in the second.
    """

    knob: str
    most: pd.Series
    fair: pd.Series


def trades_of(points: pd.DataFrame, front: pd.DataFrame, question: Question) -> list[Trade]:
    """Return the ends and the knee of each group's frontier."""
    counts = {value: len(rows) for value, rows in question.groups(points)}
    trades = []
    for value, rows in question.groups(front):
        knees = knee_points(rows, question.maximise, question.minimise)
        ends = [question.best(rows, name) for name in question.objectives[:2]]
        knee = None if knees.empty else knees.iloc[0]
        trades.append(Trade(value, counts[value], rows, ends[0], ends[1], knee))
    return trades


def width(trade: Trade, question: Question) -> float:
    """Return how much there is to trade: the area between a frontier's ends, in powers of e.

    A frontier that is long in one objective and a point in the other leaves nothing to choose. Nor
    does an end that serves nobody well: the area counts by the lower SLO attainment of the two.
    """
    served = [row.get("slo_attainment", 1.0) for row in (trade.most, trade.fair)]
    ends = [pd.DataFrame([row])[[*question.objectives[:2]]] for row in (trade.most, trade.fair)]
    area = float(_areas(ends[0].to_numpy(np.float64), ends[1].to_numpy(np.float64))[0])
    return area * float(np.nan_to_num(min(served), nan=1.0))


def widest_turn(trade: Trade, question: Question, knobs: list[str]) -> Turn | None:
    """Return the one knob that trades most, all else equal, on a frontier; None if none does.

    Args:
        trade: the frontier.
        question: the objectives.
        knobs: all that settings differ by, the seed too: it must be equal, but is no knob to turn.
    """
    x, y = question.objectives[:2]
    poor = (trade.front["mark"] == POOR_SLO).to_numpy()
    signs = [1.0 if name in question.maximise else -1.0 for name in (x, y)]
    values = trade.front[[x, y]].to_numpy(np.float64)
    codes = [pd.factorize(trade.front[name])[0] for name in knobs]
    levels = np.array(codes, np.int64).reshape(len(knobs), len(values)).T
    best, found = 0.0, None
    for place, here in enumerate(values):
        if poor[place]:
            continue  # more of what serves hardly anybody well is no gain
        alone = (levels != levels[place]).sum(axis=1) == 1
        if SEED in knobs:
            alone &= levels[:, knobs.index(SEED)] == levels[place, knobs.index(SEED)]
        gains = (here - values) * signs
        areas = np.where(alone & (gains[:, 0] > 0) & (gains[:, 1] < 0), _areas(values, here), 0.0)
        other = int(areas.argmax())
        if areas[other] > best:
            best, found = areas[other], (place, other)
    if found is None:
        return None
    most, fair = (trade.front.iloc[place] for place in found)
    return Turn(changed(most, fair, knobs)[0], most, fair)


def changed(one: pd.Series, other: pd.Series, knobs: list[str]) -> list[str]:
    """Return the knobs that differ; null equals null."""
    return [k for k in knobs if not (one[k] == other[k] or (pd.isna(one[k]) and pd.isna(other[k])))]


def _areas(ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return |log ratio| of the one objective times that of the other; 0 where one is not > 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(ones / others))
    return np.nan_to_num(ratios, posinf=0.0).prod(axis=1)
