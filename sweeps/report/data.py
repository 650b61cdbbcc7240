"""What the page's scripts know: the sweep's rows, its frontier, and what was made of them."""

import math
from typing import Any

import matplotlib as mpl
import pandas as pd

from sweeps.explain import neighbours
from sweeps.frontier import POOR_SLO_ATTAINMENT
from sweeps.plots import ORDERED, PALETTE, words
from sweeps.report.again import Again
from sweeps.report.columns import packed
from sweeps.report.commands import setting_command
from sweeps.report.curves import LATENCIES, SHARES
from sweeps.report.findings import Found
from sweeps.report.question import Question, better
from sweeps.report.source import SweepFile

_SHADES = 9  # of the scale for groups that are numbers
_UNUSED = ("status", "error", "key", "engine_version")

# From a row's number in the sweep to its place among those that ended well.
Places = dict[Any, int]


def data_of(sweep: SweepFile, question: Question, found: Found, again: Again) -> dict[str, Any]:
    """Return plain values for JSON; rows are numbered among those that ended well.

    Args:
        sweep: the sweep.
        question: the objectives.
        found: the findings.
        again: what was simulated again.
    """
    frame = sweep.ended_well
    places: Places = {int(row): place for place, row in enumerate(frame.index)}
    table = sweep.table.take(list(places)).drop_columns(list(_UNUSED))
    exact = {*sweep.varying, *question.objectives, "load", "seed"}
    directions = {name: better(name) for name in sweep.metrics}
    directions |= dict.fromkeys(question.maximise, 1) | dict.fromkeys(question.minimise, -1)
    return {
        **packed(table, exact),
        "rows": len(frame),
        "labels": {name: words(name) for name in table.column_names},
        "better": {name: sign for name, sign in directions.items() if sign},
        "metrics": sweep.metrics,
        "knobs": sweep.varying,
        "objectives": question.objectives,
        "shown": found.shown,
        "by": question.by,
        "front": [places[row] for row in found.front.index],
        "knees": [places[t.knee.name] for t in found.trades if t.knee is not None],
        "surety": {places[row]: chance for row, chance in found.surety.items()},
        "first": _first(found, places),
        "neighbours": _neighbours(found.front, question, places),
        "effects": [
            {name: _plain(value) for name, value in row.items()}
            for row in found.effects.to_dict("records")
        ],
        "slo": sweep.metadata["spec"].get("slo", {}),
        "poor": POOR_SLO_ATTAINMENT,
        "palette": PALETTE,
        "scale": {"light": _shades(0.0, 0.75), "dark": _shades(0.45, 1.0)},
        "shares": [round(float(share), 6) for share in SHARES],
        "latencies": LATENCIES,
        "curves": {places[row]: curves for row, curves in again.curves.items()},
        "missing": again.missing,
        "command": setting_command(sweep),
    }


def _first(found: Found, places: Places) -> int:
    """Return the setting that is shown first: the knee of the widest trade-off, or its end."""
    row = found.widest.most if found.widest.knee is None else found.widest.knee
    return places[row.name]


def _neighbours(
    front: pd.DataFrame, question: Question, places: Places
) -> dict[int, list[dict[str, Any]]]:
    """Return the nearest settings on the same frontier, and what differs, from what to what."""
    told: dict[int, list[dict[str, Any]]] = {}
    for _, rows in question.groups(front):
        for row in rows.index:
            near = neighbours(rows, row, question.maximise, question.minimise)["changes"]
            told[places[row]] = [
                {
                    "row": places[other],
                    "changes": [[knob, *map(_plain, pair)] for knob, pair in changes.items()],
                }
                for other, changes in near.items()
            ]
    return told


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


def _shades(low: float, high: float) -> list[str]:
    steps = [low + (high - low) * n / (_SHADES - 1) for n in range(_SHADES)]
    return [mpl.colors.to_hex(mpl.colormaps[ORDERED](step)) for step in steps]
