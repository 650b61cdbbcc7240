"""`vecsched report`: a sweep as one page that explains itself, and its figures for papers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sweeps.cli.command import AsJson, Command, Debug, Maximise, Minimise, SweepOutput
from sweeps.cli.output import note, print_json
from sweeps.cli.progress import sweep_progress
from sweeps.objectives import or_default
from sweeps.report.again import Again, most_telling, simulate_again
from sweeps.report.figures import write_figures
from sweeps.report.findings import Found
from sweeps.report.page import build_page, write_page
from sweeps.report.question import Question, default_group
from sweeps.report.source import SweepFile, read_sweep
from vecsched.simulation import is_compiled

app = typer.Typer(add_completion=False)


@app.command(cls=Command)
def report(
    *,
    file: SweepOutput,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page, .html; by default beside the file."),
    ] = None,
    maximise: Maximise = None,
    minimise: Minimise = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A frontier for each of its values; by default load, if it varies.",
        ),
    ] = None,
    curves: Annotated[
        int,
        typer.Option(
            min=0, help="So many settings are simulated again, for curves of what happened."
        ),
    ] = 12,
    traces: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the sweep file was, for its traces; default: beside OUT.parquet, or here.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write the figures there, too, as PNG, SVG and PDF for papers."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write what a sweep found as one HTML page, which needs no network and nothing installed.

    Without --max and --min: most goodput_requests_per_s against least slowdown_p99.
    """
    page_file = output or file.with_suffix(".html")
    if page_file.suffix != ".html":
        raise typer.BadParameter(f"{page_file} must end in .html", param_hint="--output")
    sweep = read_sweep(file)
    question = Question(*or_default(maximise, minimise), by or default_group(sweep.frame))
    front = question.front(sweep.frame)
    rows = most_telling(front, question, curves)
    again = _simulate(sweep, rows, [traces] if traces else [file.parent, Path()])
    page = build_page(sweep, question, front, again)
    write_page(page, page_file)
    written = write_figures(sweep, question, page.found, figures) if figures else []
    told = _as_dict(sweep, question, page.found, again)
    if as_json:
        print_json(told | {"page": page_file, "figures": written})
    else:
        typer.echo(page.found.headline)
        texts = [f"{each.title}: {each.text}" for each in page.found.findings]
        for text in (page.found.lead, f"{page.found.tally}.", *texts):
            typer.echo(f"\n{text}")
    for path in [page_file, *written]:
        note(f"written: {path}")


def _simulate(sweep: SweepFile, rows: list[int], folders: list[Path]) -> Again:
    """Simulate some settings again, with progress, and say what could not be."""
    if rows and not is_compiled():
        note("compiling the kernels (the first time only)")
    with sweep_progress() as progress:
        progress.start(len(rows), workers=1)
        again = simulate_again(sweep, rows, folders, lambda: progress.advance(1, 0))
    if again.curves:
        note(
            f"{len(again.curves):,} settings simulated again: "
            f"all {again.metrics} metrics of each equal its row"
        )
    for reason, count in again.missing.items():
        note(f"no curves of {count:,} settings: {reason}")
    return again


def _as_dict(sweep: SweepFile, question: Question, found: Found, again: Again) -> dict[str, Any]:
    """Return the findings for machines."""
    x, y = question.objectives[:2]
    return {
        **question._asdict(),
        "points": len(sweep.frame),
        "failed": len(sweep.failed),
        "front": len(found.front),
        "headline": found.headline,
        "tally": found.tally,
        "lead": found.lead,
        "findings": [finding._asdict() for finding in found.findings],
        "trades": [
            {
                "group": trade.group,
                "settings": trade.settings,
                "front": len(trade.front),
                **{
                    name: None if row is None else {c: row[c] for c in ("point", x, y)}
                    for name, row in (
                        ("best_first", trade.most),
                        ("best_second", trade.fair),
                        ("knee", trade.knee),
                    )
                },
            }
            for trade in found.trades
        ],
        "simulated_again": len(again.curves),
        "without_curves": again.missing,
    }
