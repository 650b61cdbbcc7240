"""Figures as matplotlib objects: no global state, no window, colours that all eyes tell apart."""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeps.errors import StoreError
from sweeps.frontier import MAXIMISE, POOR_SLO, POOR_SLO_ATTAINMENT, slo_mark
from sweeps.plot_view import choose_scale, label_ends, look_at
from sweeps.store import atomic_file

# Okabe and Ito's palette without yellow and black: one vanishes on white, the other is for text.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
ORDERED = "viridis"  # for numbers, and for more groups than the palette holds
INK, GRID = "#222222", "#e4e4e4"
FORMATS = (".png", ".svg", ".pdf")

_WORDS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "slo": "SLO", "kv": "KV"}


class Group(NamedTuple):
    """The points drawn in one colour, and the name beside their frontier."""

    label: str
    colour: str
    points: pd.DataFrame
    front: pd.DataFrame


def frontier_plot(
    frame: pd.DataFrame,
    front: pd.DataFrame,
    x: str,
    y: str,
    by: str | None = None,
    *,
    maximise: Collection[str] = MAXIMISE,
) -> Figure:
    """Draw the points of a sweep, light, and the frontier of each group as a stepped line.

    Points with poor SLO attainment are hollow. Points that failed or are not finite are not drawn,
    nor those far away from the frontier; the title counts them.

    Args:
        frame: one row a point.
        front: what `pareto_front` made of it. If it took more than two objectives its points are
            drawn without the line, for seen along two of them it is no staircase.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        by: column that splits the points into groups of one colour each.
        maximise: the columns where more is better.

    Returns:
        The figure, for `save_figure` or a notebook.
    """
    figure = Figure(figsize=(8.0, 5.2), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    points, front = _drawable(frame, x, y), _drawable(front, x, y)
    groups = _groups(points, front, by)
    for group in groups:
        _scatter(axes, group.points[x], group.points[y], group)
        _staircase(axes, group, x, y, "steps-pre" if x in maximise else "steps-post")
    for axis, name in ((axes.xaxis, x), (axes.yaxis, y)):
        more = name in maximise
        axis.set_label_text(f"{words(name)}, {'more' if more else 'less'} is better", color=INK)
        # A logarithm shows small values at length: where they are the good ones, or where the
        # frontier itself has them.
        choose_scale(axis, (front if more else points)[name])
    far = look_at(axes, points, front, x, y)
    text = f"{len(front):,} of {len(points):,} settings are on the frontier"
    axes.set_title(f"{text}\n{far:,} lie beyond the figure" if far else text, loc="left", size=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    if len(groups) > 1:
        ends = [(each, each.front.nlargest(1, x)) for each in groups if len(each.front)]
        spots = np.array([end[[x, y]].iloc[0] for _, end in ends], np.float64).reshape(-1, 2)
        label_ends(figure, axes, [(each.label, each.colour) for each, _ in ends], spots)
    _legend(axes, points)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure in the format that the path's ending tells; the same figure, the same bytes.

    Raises:
        StoreError: the ending is unknown, or the file cannot be written.
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in FORMATS:
        raise StoreError(f"{target}: a figure's name must end in one of {', '.join(FORMATS)}")
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[kind]
    with atomic_file(target) as file, mpl.rc_context({"svg.hashsalt": "vecsched"}):
        figure.savefig(file, format=kind[1:], metadata=undated)
    return target


def words(column: str) -> str:
    """Return a column's name as an axis label with its unit: `ttft_p99_s` is "TTFT p99 (s)"."""
    name, unit = column, ""
    if rate := re.fullmatch(r"(?:(.+)_)?([a-z]+)_per_s(?:_(.+))?", column):
        name, unit = "_".join(filter(None, (rate[1], rate[3]))) or "throughput", f" ({rate[2]}/s)"
    elif column.endswith("_s"):
        name, unit = column[:-2], " (s)"
    elif column.startswith("slowdown_p"):
        unit = " (times its latency alone)"
    return " ".join(_WORDS.get(word, word) for word in name.split("_")) + unit


def group_colours(column: pd.Series) -> dict[Any, str]:
    """Return a colour for each value that a column has: a palette for names, shades for numbers."""
    values = sorted(column.dropna().unique().tolist())
    if len(values) <= len(PALETTE) and not pd.api.types.is_numeric_dtype(column):
        return dict(zip(values, PALETTE, strict=False))
    # The bright end of the scale is too light for lines on white.
    shades = mpl.colormaps[ORDERED](np.linspace(0, 0.75, len(values)))
    return dict(zip(values, map(mpl.colors.to_hex, shades), strict=True))


def _drawable(frame: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    finite = np.isfinite(frame[[x, y]].to_numpy(np.float64)).all(axis=1)
    if "status" in frame:
        finite &= (frame["status"] == "ok").to_numpy()
    return frame[finite].assign(mark=slo_mark)


def _groups(points: pd.DataFrame, front: pd.DataFrame, by: str | None) -> list[Group]:
    if by is None:
        return [Group("", PALETTE[0], points, front)]
    prefix = f"{words(by)} " if pd.api.types.is_numeric_dtype(points[by]) else ""
    return [
        Group(f"{prefix}{value}", colour, points[points[by] == value], front[front[by] == value])
        for value, colour in group_colours(points[by]).items()
    ]


def _scatter(axes: Axes, x: pd.Series, y: pd.Series, group: Group) -> None:
    poor = group.points["mark"] == POOR_SLO
    for members, face in ((poor, "none"), (~poor, group.colour)):
        axes.scatter(
            x[members],
            y[members],
            s=9,
            facecolors=face,
            edgecolors=group.colour,
            linewidths=0.7,
            alpha=0.3,
            rasterized=len(poor) > 2000,  # keeps the SVG of a large sweep small
        )


def _staircase(axes: Axes, group: Group, x: str, y: str, step: str) -> None:
    front = group.front.sort_values([x, y])
    rise = np.diff(front[y])
    if (rise >= 0).all() or (rise <= 0).all():
        axes.plot(front[x], front[y], drawstyle=step, color=group.colour, linewidth=1.8)
    poor = front["mark"] == POOR_SLO
    for members, face, edge in ((poor, "white", group.colour), (~poor, group.colour, "white")):
        spots = (front[x][members], front[y][members])
        axes.scatter(*spots, s=34, facecolors=face, edgecolors=edge, linewidths=1.2, zorder=4)


def _legend(axes: Axes, points: pd.DataFrame) -> None:
    """Explain hollow marks above the plot, where there are any."""
    if not (points["mark"] == POOR_SLO).any():
        return
    text = f"hollow: SLOs met by fewer than {POOR_SLO_ATTAINMENT:.0%} of requests"
    mark = Line2D([], [], marker="o", linestyle="", color=INK, markerfacecolor="white", label=text)
    place = {"bbox_to_anchor": (1, 1), "borderaxespad": 0.3, "handletextpad": 0.2}
    axes.legend(handles=[mark], loc="lower right", frameon=False, fontsize=9, **place)
