"""The trade-off in words: what the ends of a frontier are, and what lies between."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sweeps.knees import knee_points
from sweeps.report.phrases import measured, named, number, outcome, setting, words
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


def trade_off(trade: Trade, question: Question, knobs: list[str]) -> str:
    """Tell one frontier's ends, its knee, and what the first objective costs in the second."""
    x, y = question.objectives[:2]
    most, fair = trade.most, trade.fair
    place = f"At {words(str(question.by))} {number(trade.group)}, " if question.by else ""
    if most.name == fair.name:
        return _capital(
            f"{place}one setting is best in both: {measured(x, most[x])} of {named(x)} with "
            f"{named(y)} {measured(y, most[y])}{f' ({setting(most, knobs)})' if knobs else ''}."
        )
    text = (
        f"{place}the {_best(x, question)} {named(x)} is {measured(x, most[x])}, with "
        f"{setting(most, knobs)}. Then {outcome(y, most[y])}. "
        f"The {_best(y, question)} {named(y)} is {measured(y, fair[y])}, with "
        f"{setting(fair, _changed(most, fair, knobs)) or 'the same knobs'}: "
        f"it leaves {measured(x, fair[x])} of {named(x)}."
    )
    knee = trade.knee
    if knee is not None and knee.name not in (most.name, fair.name):
        text += (
            f" The frontier bends at {measured(x, knee[x])} and {measured(y, knee[y])}, with "
            f"{setting(knee, _changed(most, knee, knobs))}."
        )
    return _capital(text)


def _changed(one: pd.Series, other: pd.Series, knobs: list[str]) -> list[str]:
    """Return the knobs that differ; null equals null."""
    return [k for k in knobs if not (one[k] == other[k] or (pd.isna(one[k]) and pd.isna(other[k])))]


def _best(objective: str, question: Question) -> str:
    return "most" if objective in question.maximise else "least"


def width(trade: Trade, question: Question) -> float:
    """Return by how many powers of e the ends of a frontier differ, all objectives together."""
    ends = trade.front[list(question.objectives)].agg(["min", "max"]).to_numpy(np.float64)
    least, most = np.abs(ends)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nan_to_num(np.abs(np.log(most / least)), posinf=0.0).sum())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
