"""Figures beside the frontier's own: what decides an objective, and what its best settings are.

As in `sweeps.plots`, they are matplotlib objects without global state, for `save_figure`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeps.effects import INTERACTIONS
from sweeps.frontier import (
    MAXIMISE,
    MINIMISE,
    POOR_SLO,
    POOR_SLO_ATTAINMENT,
    check_objectives,
    slo_mark,
)
from sweeps.knobs import varying_knobs
from sweeps.plot_view import natural_order, spans_decades
from sweeps.plots import GRID, INK, ORDERED, PALETTE, group_colours, words

_NEUTRAL = "#9a9a9a"
_FAN = 0.05  # height of all the lines through one level
_MOST_TICKS = 8  # of an axis with a place for each level


class _Scale(NamedTuple):
    """One axis of parallel coordinates.

    Attributes:
        heights: of each row, from 0 to 1; NaN if it has no value.
        ticks: heights and texts of what is written beside the axis.
    """

    heights: np.ndarray
    ticks: list[tuple[float, str]]


def effects_plot(effects: pd.DataFrame) -> Figure:
    """Draw the main effects as bars, a panel an objective.

    Args:
        effects: what `main_effects` found.

    Returns:
        The figure. Knobs stand in the order of the first objective, the interactions last, hatched.
    """
    objectives = [*dict.fromkeys(effects["objective"])]
    knobs = [*dict.fromkeys(effects["knob"])]
    knobs = [name for name in knobs if name != INTERACTIONS] + [INTERACTIONS]
    height = 1.4 + 0.32 * len(knobs)
    figure = Figure(figsize=(8.0, height), dpi=160, layout="constrained")
    panels = figure.subplots(1, max(len(objectives), 1), sharey=True, squeeze=False)[0]
    for axes, objective in zip(panels, objectives, strict=False):
        theirs = effects[effects["objective"] == objective].set_index("knob")["share"]
        shares = theirs.reindex(knobs).to_numpy(np.float64)
        bars = axes.barh(range(len(knobs)), np.nan_to_num(shares), color=PALETTE[0], height=0.7)
        bars[-1].set(facecolor="white", edgecolor=_NEUTRAL, hatch="////")
        for place, share in enumerate(shares):
            text = "-" if np.isnan(share) else f"{share:.0%}"
            axes.text(np.nan_to_num(share) + 0.02, place, text, va="center", size=8, color=INK)
        axes.set_title(words(objective).replace(" (", "\n(", 1), loc="left", size=10)
        axes.set_xlim(0, max(0.5, np.nan_to_num(shares).max()) * 1.2)
        axes.set_xlabel("share of the spread of ranks, all settings", color=INK, size=9)
        axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    panels[0].set_yticks(range(len(knobs)), [words(name) for name in knobs])
    panels[0].invert_yaxis()
    return figure


def parallel_plot(
    front: pd.DataFrame,
    maximise: Sequence[str] = MAXIMISE,
    minimise: Sequence[str] = MINIMISE,
    by: str | None = None,
    *,
    knobs: Sequence[str] | None = None,
) -> Figure:
    """Draw each row of a frontier as a line across its knobs and objectives.

    Levels of a knob are evenly spaced, and lines that share one run side by side. Objectives are to
    scale, with better always up. Lines have the colour of their group, or of the first objective;
    rows with poor SLO attainment are dashed.

    Args:
        front: what `pareto_front` found.
        maximise: columns where more is better.
        minimise: columns where less is better.
        by: column that splits the rows into groups.
        knobs: columns to draw in front of the objectives; without them, those that vary.

    Returns:
        The figure.

    Raises:
        InputError: an objective is no column of numbers.
    """
    knobs = varying_knobs(front) if knobs is None else [*knobs]
    objectives = check_objectives(front, maximise, minimise)
    scales = [_levels(front[name]) for name in knobs]
    scales += [_to_scale(front[name], flip=name in minimise) for name in objectives]
    figure = Figure(figsize=(max(8.0, 1.4 * len(scales)), 4.6), dpi=160, layout="constrained")
    axes = figure.add_subplot()
    poor = slo_mark(front) == POOR_SLO
    colours, legend = _colours(front, by, scales[len(knobs)].heights)
    heights = np.array([scale.heights for scale in scales]).T
    # Lines that share a level run side by side, or the last one drawn would hide the others.
    heights[:, : len(knobs)] += _FAN * np.linspace(-0.5, 0.5, len(front))[:, None]
    for line, colour, dashed in zip(heights, colours, poor, strict=True):
        style = "--" if dashed else "-"
        axes.plot(line, color=colour, linestyle=style, linewidth=1.4, marker="o", markersize=3)
    for place, scale in enumerate(scales):
        _draw_axis(axes, place, scale)
    titles = [*map(words, knobs), *(f"{words(name)}\n(up is better)" for name in objectives)]
    axes.set_xticks(range(len(titles)), [text.replace(" (", "\n(", 1) for text in titles], size=8)
    axes.set(yticks=[], xlim=(-0.4, len(titles) - 0.3), ylim=(-0.06, 1.06))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if poor.any():
        text = f"dashed: SLOs met by fewer than {POOR_SLO_ATTAINMENT:.0%} of requests"
        legend = [*legend, Line2D([], [], color=INK, linestyle="--", label=text)]
    if legend:
        figure.legend(handles=legend, loc="outside upper left", ncols=4, frameon=False, fontsize=8)
    return figure


def _levels(column: pd.Series) -> _Scale:
    """Give each level of a knob a place, null the lowest."""
    levels: list[object] = sorted(column.dropna().unique().tolist(), key=natural_order)
    if column.isna().any():
        levels = [None, *levels]
    places = {level: place / max(len(levels) - 1, 1) for place, level in enumerate(levels)}
    heights = np.array([places[None if pd.isna(value) else value] for value in column], np.float64)
    step = -(-len(levels) // _MOST_TICKS) or 1
    return _Scale(heights, [(places[level], _text(level)) for level in levels[::step]])


def _to_scale(column: pd.Series, flip: bool) -> _Scale:
    """Put an objective's values between its ends, the better one up; none is infinite."""
    values = column.to_numpy(np.float64)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return _Scale(np.full(len(values), np.nan), [])
    low, high = finite.min(), finite.max()
    shape = np.log if spans_decades(finite) else np.asarray
    with np.errstate(divide="ignore", invalid="ignore"):
        heights = (shape(values) - shape(low)) / (shape(high) - shape(low) if high > low else 1.0)
    heights = np.where(np.isfinite(values), heights, np.nan)
    ends = [(0.0, _text(low)), (1.0, _text(high))] if high > low else [(0.0, _text(low))]
    if flip:
        return _Scale(1.0 - heights, [(1.0 - height, text) for height, text in ends])
    return _Scale(heights, ends)


def _colours(front: pd.DataFrame, by: str | None, heights: np.ndarray) -> tuple[list[str], list]:
    """Return each row's colour, and what explains them: of its group, or by the first objective."""
    if by is None:
        shades = mpl.colormaps[ORDERED](0.75 * np.nan_to_num(heights))
        return [mpl.colors.to_hex(shade) for shade in shades], []
    colours = group_colours(front[by])
    legend = [
        Line2D([], [], color=colour, label=f"{words(by)} {_text(value)}")
        for value, colour in colours.items()
    ]
    return [colours.get(value, _NEUTRAL) for value in front[by]], legend


def _draw_axis(axes: Axes, place: int, scale: _Scale) -> None:
    axes.axvline(place, color=GRID, linewidth=1.0, zorder=0)
    for height, text in scale.ticks:
        axes.annotate(
            text,
            (place, height),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            size=7,
            color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
            zorder=4,
        )


def _text(value: object) -> str:
    if value is None:
        return "none"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
