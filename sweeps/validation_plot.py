"""The figure of a validation: cumulative distributions, measured beside simulated."""

import numpy as np
from matplotlib.figure import Figure

from sweeps.plots import GRID, INK, PALETTE
from sweeps.validate import METRICS, Validation

_LINES = {"measured": (INK, "-"), "simulated": (PALETTE[1], "--")}


def validation_plot(found: Validation) -> Figure:
    """Draw for each metric the share of requests that took no longer than so many seconds.

    Args:
        found: measured and simulated latencies.

    Returns:
        The figure, for `sweeps.plots.save_figure` or a notebook.
    """
    figure = Figure(figsize=(10.0, 3.4), dpi=160, layout="constrained")
    for axes, (metric, words) in zip(
        figure.subplots(1, len(METRICS), sharey=True), METRICS.items(), strict=True
    ):
        for name, (colour, style) in _LINES.items():
            values = np.sort(getattr(found, name)[metric].dropna().to_numpy(np.float64))
            share = np.arange(1, len(values) + 1) / max(len(values), 1)
            axes.step(values, share, where="post", color=colour, linestyle=style, label=name)
        axes.set_xlabel(f"{words} (s)", color=INK)
        axes.set_ylim(0, 1)
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("share of requests", color=INK)
    figure.axes[0].legend(frameon=False, loc="lower right")
    return figure
