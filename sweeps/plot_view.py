"""What part of the data a figure shows: scales, limits, and labels that find room."""

import re
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

_LOG_SPAN = 30.0  # an axis is logarithmic if its values span more than this
_BEYOND = 0.4  # how far a figure goes beyond the frontier's ends, as a share of their distance
_LABEL_WIDTH, _LABEL_HEIGHT = 90.0, 12.0  # points that a direct label takes up


def spans_decades(values: pd.Series | np.ndarray) -> bool:
    """Tell whether values want a logarithmic axis: all above 0, and far apart."""
    return bool(len(values) and values.min() > 0 and values.max() > _LOG_SPAN * values.min())


def choose_scale(axis: XAxis | YAxis, values: pd.Series) -> None:
    """Make an axis logarithmic where its values want it."""
    if spans_decades(values):
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def look_at(axes: Axes, points: pd.DataFrame, front: pd.DataFrame, x: str, y: str) -> int:
    """Show the frontier and what lies around it; return how many points are beyond."""
    inside = np.ones(len(points), bool)
    for axis, name in ((axes.xaxis, x), (axes.yaxis, y)):
        scale = np.log10 if axis.get_scale() == "log" else np.asarray
        every, best = scale(points[name].to_numpy(float)), scale(front[name].to_numpy(float))
        if len(best) < 2 or np.ptp(best) == 0:
            continue
        margin = _BEYOND * np.ptp(best)
        low, high = max(every.min(), best.min() - margin), min(every.max(), best.max() + margin)
        inside &= (low <= every) & (every <= high)
        room = 0.04 * (high - low)
        ends = np.array([low - room, high + room])
        axis.axes.set(**{f"{axis.axis_name}lim": 10**ends if scale is np.log10 else ends})
    return int((~inside).sum())


def label_ends(figure: Figure, axes: Axes, labels: list[tuple[str, str]], ends: np.ndarray) -> None:
    """Write labels to the right of points; one that would cover another moves down.

    Args:
        figure: all of it, which settles the scales.
        axes: where to.
        labels: text and colour of each.
        ends: the points, float64 (labels, 2).
    """
    figure.draw_without_rendering()
    spots = axes.transData.transform(ends) * 72 / figure.dpi
    placed: list[np.ndarray] = []
    for i in np.argsort(-spots[:, 1], kind="stable"):
        near = [spot[1] for spot in placed if abs(spot[0] - spots[i, 0]) < _LABEL_WIDTH]
        drop = max(0.0, spots[i, 1] - min(near, default=np.inf) + _LABEL_HEIGHT)
        placed.append(spots[i] - (0, drop))
        axes.annotate(
            labels[i][0],
            ends[i],
            xytext=(7, -drop),
            textcoords="offset points",
            va="center",
            color=labels[i][1],
            weight="bold",
            size=9,
            path_effects=[withStroke(linewidth=3, foreground="white")],  # lines may pass behind it
            zorder=5,
        )


def natural_order(level: object) -> Any:
    """Return a key that orders numbers in texts by size: aging(30) comes before aging(100)."""
    if not isinstance(level, str):
        return level
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", level)]
