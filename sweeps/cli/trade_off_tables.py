"""What was asked about a frontier, as `vecsched frontier` prints it."""

from typing import Any

import pandas as pd

from sweeps.cli.output import note, print_table, show
from sweeps.cli.trade_offs import Frontier, Questions
from sweeps.frontier import dominated_by

_TOP = 20  # rows that are printed of a long table; --json has all of them
_TOP_CLIFFS = 5  # of an objective
_UNLIKELY = 0.5


def show_answers(found: Frontier, asked: Questions, tables: dict[str, pd.DataFrame]) -> None:
    """Print what `answers` returned."""
    if "neighbours" in tables:
        _show_neighbours(found, asked.row, tables["neighbours"])
    if "effects" in tables:
        _show_effects(found, tables["effects"])
    if "cliffs" in tables:
        _show_cliffs(tables["cliffs"])
    if "probability" in tables:
        _show_probability(tables["probability"])


def print_frame(title: str, frame: pd.DataFrame) -> None:
    """Print a table of all columns, without row labels."""
    cells = frame.astype(object)
    print_table(title, [*frame], cells.where(cells.notna(), None).to_numpy().tolist())


def _show_neighbours(found: Frontier, row: Any, near: pd.DataFrame) -> None:
    rivals = dominated_by(found.points, found.maximise, found.minimise, found.by)[row]
    if row not in found.front.index:
        why = f"{rivals:,} points dominate it" if rivals else "another row has the same objectives"
        note(f"row {row} is not on the frontier: {why}")
    changes = [
        ", ".join(f"{name} {show(old)} -> {show(new)}" for name, (old, new) in each.items())
        for each in near["changes"]
    ]
    shown = near.assign(changes=changes).reset_index(names="row")
    print_frame(f"nearest to row {row} on the frontier; a gain below 0 is a cost", shown)


def _show_effects(found: Frontier, effects: pd.DataFrame) -> None:
    """Print a column an objective, in the order of the first."""
    group = [] if found.by is None else [found.by]
    wide = effects.pivot(index=[*group, "knob"], columns="objective", values="share")
    first = effects[effects["objective"] == found.objectives[0]][[*group, "knob", "levels"]]
    # The interactions are of no knob, so they have no levels.
    first = first.assign(levels=first["levels"].where(first["levels"] > 0))
    shares = wide[[*found.objectives]].map(lambda share: f"{share:6.1%}", na_action="ignore")
    shown = first.join(shares, on=[*group, "knob"])
    print_frame("share of the spread of ranks that each knob explains alone", shown)


def _show_cliffs(found: pd.DataFrame) -> None:
    places = [
        ", ".join(f"{name} {show(value)}" for name, value in where.items())
        for where in found["where"]
    ]
    factors = [
        f"x{show(ratio)}" if ratio >= 1 else f"/{show(1 / ratio)}" for ratio in found["ratio"]
    ]
    shown = found.assign(where=places, ratio=factors).rename(columns={"ratio": "factor"})
    shown = shown.groupby("objective", sort=False).head(_TOP_CLIFFS)
    print_frame("steps of one knob, all else equal, that change an objective by a factor", shown)
    if len(found) > len(shown):
        note(f"{len(found) - len(shown):,} lesser cliffs are not shown (--json)")


def _show_probability(sure: pd.DataFrame) -> None:
    likely = sure[sure["probability"] > 0]
    best = sure["on_frontier_of_means"]
    lucky = int((sure["probability"][best] < _UNLIKELY).sum())
    print_frame("on the frontier, when the seeds are drawn anew", likely.head(_TOP))
    if len(likely) > _TOP:
        note(f"{len(likely) - _TOP:,} more are possible (--json)")
    note(f"of {int(best.sum()):,} on the frontier of means, {lucky:,} are there by luck: below 50%")
