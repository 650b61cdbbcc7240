"""The page: data, findings, style and scripts put into one file."""

import json
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import jinja2
import pandas as pd
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from sweeps.files import atomic_file, reporting
from sweeps.report import phrases
from sweeps.report.again import Again
from sweeps.report.columns import DIGITS
from sweeps.report.commands import sweep_commands, sweep_file_name, sweep_file_text
from sweeps.report.data import data_of
from sweeps.report.findings import Found, find
from sweeps.report.question import Question
from sweeps.report.source import SweepFile

# In this order; each may use what stands before it.
SCRIPTS = (
    "model",
    "theme",
    "filters",
    "frontier",
    "parallel",
    "table",
    "effects",
    "curves",
    "setting",
    "page",
)
_STATIC = files("sweeps.report") / "static"
_FAILURES = 50  # rows of the table of failures


class Page(NamedTuple):
    """A page and what it says first.

    Attributes:
        html: the file's content.
        found: the findings in it.
    """

    html: str
    found: Found


def build_page(sweep: SweepFile, question: Question, front: pd.DataFrame, again: Again) -> Page:
    """Put the report together; the same arguments give the same text.

    Args:
        sweep: the sweep.
        question: the objectives.
        front: the frontier, `question.front(sweep.frame)`.
        again: what was simulated again for curves.
    """
    found = find(sweep, question, front)
    spec = sweep.metadata["spec"]
    data = json.dumps(
        data_of(sweep, question, found, again), separators=(",", ":"), allow_nan=False
    )
    template = _environment().from_string(_static("template.html"))
    html = template.render(
        sweep=sweep,
        name=spec.get("name") or sweep.path.stem,
        about=spec.get("about", ""),
        question=question,
        found=found,
        again=again,
        failures=sweep.failed.head(_FAILURES).to_dict("records"),
        commands=sweep_commands(sweep, question),
        file_name=sweep_file_name(sweep),
        file_text=sweep_file_text(sweep),
        digits=DIGITS,
        style=_static("report.css"),
        # Neither may end the element that it stands in: in JSON \u003c is the same as <, and
        # plotly.js is checked when it is read.
        data=data.replace("<", "\\u003c"),
        plotly=_plotly(),
        plotly_version=get_plotlyjs_version(),
        scripts="\n".join(_static(f"{name}.js") for name in SCRIPTS),
    )
    return Page(html, found)


def write_page(page: Page, path: Path) -> None:
    """Write the page, complete or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    with atomic_file(path) as file, reporting(path):
        file.write(page.html.encode("utf-8"))


def _static(name: str) -> str:
    return (_STATIC / name).read_text("utf-8")


def _plotly() -> str:
    """Return plotly.js, safe in a script element; `<\\/` is `</` in its strings and patterns."""
    return get_plotlyjs().replace("</script", "<\\/script")


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "words": phrases.words,
        "brief": phrases.brief,
        "named": phrases.named,
        "number": phrases.number,
        "measured": phrases.measured,
        "percent": phrases.percent,
    }
    environment.globals |= {"counted": phrases.counted, "setting": phrases.setting}
    return environment
