"""The report's figures as files, for papers."""

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from sweeps.files import reporting
from sweeps.plots import FORMATS, frontier_plot, save_figure
from sweeps.report.findings import Found
from sweeps.report.question import Question
from sweeps.report.source import SweepFile
from sweeps.trade_off_plots import effects_plot, parallel_plot


def write_figures(sweep: SweepFile, question: Question, found: Found, folder: Path) -> list[Path]:
    """Write frontier, main effects and parallel coordinates, each as PNG, SVG and PDF.

    Returns:
        The files: none of a figure that has nothing to show.

    Raises:
        StoreError: the folder cannot be made, or a file cannot be written.
    """
    with reporting(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return [
        save_figure(figure, folder / f"{name}{ending}")
        for name, figure in _figures(sweep, question, found)
        for ending in FORMATS
    ]


def _figures(sweep: SweepFile, question: Question, found: Found) -> Iterator[tuple[str, Figure]]:
    x, y = question.objectives[:2]
    yield (
        "frontier",
        frontier_plot(sweep.frame, found.front, x, y, question.by, maximise=question.maximise),
    )
    asked = found.effects[found.effects["objective"].isin(question.objectives)]
    if asked["share"].notna().any():
        yield "main-effects", effects_plot(asked)
    yield (
        "parallel",
        parallel_plot(found.front, question.maximise, question.minimise, question.by),
    )
