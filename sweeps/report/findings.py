"""What a sweep found, in words: the trade-off, what decides, cliffs, warnings, what failed.

Every sentence is computed, and says nothing that the tables and figures of the page do not show.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from sweeps.explain import INTERACTIONS, main_effects
from sweeps.frontier import POOR_SLO, POOR_SLO_ATTAINMENT, left_out, slo_mark
from sweeps.plots import words
from sweeps.report.jumps import Jump, jumps_of
from sweeps.report.phrases import (
    counted,
    listed,
    measured,
    named,
    number,
    percent,
)
from sweeps.report.question import Question
from sweeps.report.source import SweepFile
from sweeps.report.surety import probabilities
from sweeps.report.trades import Trade, trade_off, trades_of, width

_DECISIVE = 0.05  # a knob that explains less of the spread is not named
_SURE = 0.5  # a setting on the frontier in a smaller share of draws owes it to its seed
_NAMED = 3  # knobs in a sentence
# What readers ask for beside the objectives.
_COMPANIONS = ("slo_attainment", "ttft_p99_s", "tpot_p99_s", "output_tokens_per_s")


class Finding(NamedTuple):
    """A finding: what kind it is, and its sentences."""

    title: str
    text: str
    is_warning: bool = False


class Found(NamedTuple):
    """All that was found.

    Attributes:
        headline: one line.
        lead: the trade-off, in a few sentences.
        findings: what else.
        trades: one a group.
        effects: see `main_effects`.
        jumps: the cliffs.
        widest: the trade that the lead tells of.
        front: the frontier.
        shown: the metrics of the tables: the objectives and their companions.
        surety: see `probabilities`.
    """

    headline: str
    lead: str
    findings: list[Finding]
    trades: list[Trade]
    effects: pd.DataFrame
    jumps: list[Jump]
    widest: Trade
    front: pd.DataFrame
    shown: list[str]
    surety: dict[int, float]


def find(sweep: SweepFile, question: Question, front: pd.DataFrame) -> Found:
    """Put a sweep's answer to a question into words.

    Args:
        sweep: the sweep.
        question: the objectives.
        front: the frontier.
    """
    shown = [*question.objectives, *_companions(sweep, question)]
    trades = trades_of(sweep.ended_well, front, question)
    effects = main_effects(sweep.frame, shown)
    jumps = jumps_of(sweep.frame)
    widest = max(trades, key=lambda trade: width(trade, question))
    surety = probabilities(sweep, question, front)
    findings = [
        *_decisive(effects, question),
        *_cliffs(jumps),
        *_equal_misery(sweep, front),
        *_luck(surety),
        *_failures(sweep, question),
    ]
    knobs = [name for name in sweep.varying if name != question.by]
    headline, lead = _headline(sweep, question, front), trade_off(widest, question, knobs)
    return Found(headline, lead, findings, trades, effects, jumps, widest, front, shown, surety)


def _companions(sweep: SweepFile, question: Question) -> list[str]:
    """Return the companions that say something: some are undefined, or the same everywhere."""
    return [
        name
        for name in _COMPANIONS
        if name in sweep.frame
        and name not in question.objectives
        and sweep.frame[name].nunique() > 1
    ]


def _headline(sweep: SweepFile, question: Question, front: pd.DataFrame) -> str:
    objectives = " against ".join(named(name) for name in question.objectives)
    many = counted(len(sweep.frame), "setting")
    verb = "is" if len(front) == 1 else "are"
    at = f", at equal {words(question.by)}" if question.by else ""
    return f"{len(front):,} of {many} {verb} on the frontier of {objectives}{at}"


def _decisive(effects: pd.DataFrame, question: Question) -> list[Finding]:
    sentences = []
    for objective in question.objectives:
        of_this = effects[(effects["objective"] == objective) & (effects["share"] >= _DECISIVE)]
        knobs = of_this[of_this["knob"] != INTERACTIONS].head(_NAMED)
        if knobs.empty:
            continue
        shares = [
            f"{words(knob)} explains {percent(share)}"
            if first
            else f"{words(knob)} {percent(share)}"
            for first, knob, share in zip(
                [True, *[False] * len(knobs)], knobs["knob"], knobs["share"], strict=False
            )
        ]
        sentences.append(f"Of the spread of {named(objective)}, {listed(shares)}.")
    return [Finding("What decides", " ".join(sentences))] if sentences else []


def _cliffs(jumps: list[Jump]) -> list[Finding]:
    if not jumps:
        return []
    worst = jumps[0]
    others = f" {counted(len(jumps) - 1, 'more cliff')} below." if len(jumps) > 1 else ""
    return [Finding("A cliff" if len(jumps) == 1 else "Cliffs", f"{worst.sentence}{others}")]


def _equal_misery(sweep: SweepFile, front: pd.DataFrame) -> list[Finding]:
    poor = int((front["mark"] == POOR_SLO).sum())
    if not poor:
        return []
    slo = sweep.metadata["spec"].get("slo", {})
    bounds = [f"{named(name)} within {measured(name, value)}" for name, value in slo.items()]
    text = (
        f"{poor:,} of the {len(front):,} settings on the frontier met the objectives"
        f"{f' ({listed(bounds)})' if bounds else ''} for fewer than "
        f"{percent(POOR_SLO_ATTAINMENT)} of the requests. They are drawn hollow: being equally "
        "late is no fairness."
    )
    return [Finding("Equal misery", text + _most_equal(sweep.ended_well), is_warning=True)]


def _luck(surety: dict[int, float]) -> list[Finding]:
    """Say how much of the frontier would be there with other seeds."""
    if not surety:
        return []
    doubtful = sum(chance < _SURE for chance in surety.values())
    text = (
        "Each setting ran with several seeds, and each run counts for itself. When the seeds are "
        f"drawn anew and their means compared, {doubtful:,} of the {len(surety):,} on the frontier "
        f"are on it in fewer than {percent(_SURE)} of the draws: luck more than merit."
    )
    return [Finding("Luck", text, is_warning=doubtful > 0)]


def _most_equal(points: pd.DataFrame) -> str:
    """Say so, if the highest Jain index belongs to a setting that serves hardly anybody well."""
    if "jain_slowdown" not in points or points["jain_slowdown"].isna().all():
        return ""
    place = np.nanargmax(points["jain_slowdown"].to_numpy(np.float64))
    if slo_mark(points).iloc[place] != POOR_SLO:
        return ""
    row = points.iloc[place]
    return (
        f" The highest Jain index of slowdown, {number(row['jain_slowdown'])}, belongs to a "
        f"setting with a TTFT p99 of {measured('ttft_p99_s', row['ttft_p99_s'])} "
        f"(point {row['point']:,})."
    )


def _failures(sweep: SweepFile, question: Question) -> list[Finding]:
    lost = left_out(sweep.frame, question.objectives)
    if not lost:
        return []
    failed, undefined = len(sweep.failed), lost.get("undefined", 0)
    parts = []
    if failed:
        parts.append(f"{counted(failed, 'setting')} failed, the first with {_first_error(sweep)}.")
    if undefined:
        parts.append(
            f"{counted(undefined, 'setting')} lack a value of {listed(list(question.objectives))}."
        )
    return [Finding("Left out", " ".join(parts), is_warning=True)]


def _first_error(sweep: SweepFile) -> str:
    return str(sweep.failed["error"].iloc[0]).rstrip(".")
