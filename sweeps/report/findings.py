"""What a sweep found, in words: the trade-off, what decides, cliffs, warnings, what failed.

Every sentence is computed, and says nothing that the tables and figures of the page do not show.
"""

from typing import NamedTuple

import pandas as pd

from sweeps.effects import INTERACTIONS, main_effects
from sweeps.knobs import SEED
from sweeps.plots import words
from sweeps.report.cautions import blind_spot, equal_misery, failures, luck
from sweeps.report.jumps import Jump, jumps_of
from sweeps.report.phrases import counted, listed, named, number, percent
from sweeps.report.question import Question
from sweeps.report.source import SweepFile
from sweeps.report.surety import probabilities
from sweeps.report.telling import bend, headline, trade_off, turn_text, who_pays
from sweeps.report.trades import Trade, trades_of, widest_turn, width

_DECISIVE = 0.05  # a knob that explains less of the spread is not named
_LITTLE = 0.01  # a frontier that spans less of its first objective leaves little to win
_NAMED = 3  # knobs in a sentence
# What readers ask for beside the objectives.
_COMPANIONS = ("slo_attainment", "ttft_p99_s", "tpot_p99_s", "itl_p99_s", "output_tokens_per_s")


class Finding(NamedTuple):
    """A finding: what kind it is, and its sentences."""

    title: str
    text: str
    is_warning: bool = False


class Found(NamedTuple):
    """All that was found.

    Attributes:
        headline: what can be had for what, in one line.
        tally: how many settings that is about.
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
    tally: str
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
    knobs = [name for name in sweep.varying if name != question.by]
    turned = [name for name in knobs if name != SEED]
    findings = [
        *_told("Who gains, who pays", who_pays(widest, question)),
        *_told("Where it bends", bend(widest, question, turned)),
        *_one_knob(widest, question, knobs),
        *_little_to_win(trades, question),
        *_warned(
            "What the objectives do not see", blind_spot(sweep.ended_well, widest, question, turned)
        ),
        *_decisive(effects, question),
        *_cliffs(jumps),
        *_warned("Equal misery", equal_misery(sweep, front)),
        *_warned("Luck", *luck(surety)),
        *_warned("Left out", failures(sweep, question)),
    ]
    return Found(
        headline(widest, question, turned),
        _tally(sweep, question, front),
        trade_off(widest, question, turned),
        findings,
        trades,
        effects,
        jumps,
        widest,
        front,
        shown,
        surety,
    )


def _companions(sweep: SweepFile, question: Question) -> list[str]:
    """Return the companions that say something: some are undefined, or the same everywhere."""
    return [
        name
        for name in _COMPANIONS
        if name in sweep.frame
        and name not in question.objectives
        and sweep.frame[name].nunique() > 1
    ]


def _tally(sweep: SweepFile, question: Question, front: pd.DataFrame) -> str:
    objectives = " against ".join(named(name) for name in question.objectives)
    many = counted(len(sweep.frame), "setting")
    verb = "is" if len(front) == 1 else "are"
    at = f", at equal {words(question.by)}" if question.by else ""
    if sweep.metadata.get("purpose"):
        at += ", each at the load that it has capacity for"
    return f"{len(front):,} of {many} {verb} on the frontier of {objectives}{at}"


def _told(title: str, text: str) -> list[Finding]:
    return [Finding(title, text)] if text else []


def _warned(title: str, text: str, is_warning: bool = True) -> list[Finding]:
    return [Finding(title, text, is_warning)] if text else []


def _one_knob(trade: Trade, question: Question, knobs: list[str]) -> list[Finding]:
    turn = widest_turn(trade, question, knobs)
    ends = (trade.most.name, trade.fair.name)
    if turn is None or (turn.most.name, turn.fair.name) == ends:
        return []  # the headline says so already
    return [Finding("One knob alone", turn_text(turn, trade, question, knobs))]


def _little_to_win(trades: list[Trade], question: Question) -> list[Finding]:
    """Name the groups in which the whole frontier is next to the best in the first objective."""
    x = question.objectives[0]
    few = [
        number(trade.group)
        for trade in trades
        if abs(trade.most[x] - trade.fair[x]) < _LITTLE * abs(trade.most[x])
    ]
    if not few or question.by is None:
        return []
    text = (
        f"At {words(question.by)} {listed(few)}, {named(x)} is within {percent(_LITTLE)} of its "
        f"best all along the frontier: take what is best in {named(question.objectives[1])}."
    )
    return [Finding("Little to win", text)]


def _decisive(effects: pd.DataFrame, question: Question) -> list[Finding]:
    sentences: list[str] = []
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
        among = "" if sentences else " over all settings, good and bad"
        sentences.append(f"Of the spread of {named(objective)}{among}, {listed(shares)}.")
    return [Finding("What decides", " ".join(sentences))] if sentences else []


def _cliffs(jumps: list[Jump]) -> list[Finding]:
    if not jumps:
        return []
    worst = jumps[0]
    others = f" {counted(len(jumps) - 1, 'more cliff')} below." if len(jumps) > 1 else ""
    return [Finding("A cliff" if len(jumps) == 1 else "Cliffs", f"{worst.sentence}{others}")]
