"""A trade-off as a headline and a few sentences: what is gained, who pays, which knobs."""

import math

import pandas as pd

from sweeps.frontier import POOR_SLO
from sweeps.knobs import SEED
from sweeps.report.phrases import listed, measured, named, number, percent, setting, words
from sweeps.report.question import Question
from sweeps.report.trades import Trade, Turn, changed

# Who gains and who pays, if it is not what was asked for.
_BOTH_ENDS = ("ttft_p50_s", "ttft_p99_s", "itl_p99_s", "slo_attainment")
_OF_TENANTS = ("ttft_p99_best_tenant_s", "ttft_p99_worst_tenant_s")
_MOST_KNOBS = 3  # in a headline


def headline(trade: Trade, question: Question, knobs: list[str]) -> str:
    """Return one line: what the one end of a frontier has for what, and which knobs decide."""
    x, y = question.objectives[:2]
    most, fair = trade.most, trade.fair
    if most.name == fair.name:
        bests = f"the {best(x, question)} {named(x)} and the {best(y, question)} {named(y)}"
        return capital(f"{_place(trade, question)}one setting has both {bests}")
    bargain = f"{_place(trade, question)}{_bargain(most, fair, question)}"
    return capital(", by ".join(filter(None, [bargain, _turned(most, fair, knobs)])))


def trade_off(trade: Trade, question: Question, knobs: list[str]) -> str:
    """Tell one frontier's ends: what can be had, with what, and what it leaves of the other."""
    x, y = question.objectives[:2]
    most, fair = trade.most, trade.fair
    place = _place(trade, question)
    if most.name == fair.name:
        return capital(
            f"{place}one setting is best in both: {measured(x, most[x])} of {named(x)} with "
            f"{named(y)} {measured(y, most[y])}{f' ({setting(most, knobs)})' if knobs else ''}."
        )
    turned = changed(most, fair, knobs)
    same = [knob for knob in knobs if knob not in turned]
    ends = [setting(row, turned) or "the same knobs" for row in (most, fair)]
    sentences = [
        f"{place}the {best(x, question)} {named(x)} is {measured(x, most[x])}, with {ends[0]}; "
        f"{named(y)} is then {measured(y, most[y])}{_poorly(most)}.",
        f"The {best(y, question)} {named(y)} is {measured(y, fair[y])}, with {ends[1]}; "
        f"{named(x)} is then {measured(x, fair[x])}{_poorly(fair)}.",
    ]
    if SEED in most.index and most[SEED] != fair[SEED] and pd.notna(most[SEED]):
        sentences.append("They ran with different seeds, so part of it is luck.")
    if same:
        sentences.append(f"Both have {setting(most, same)}.")
    return capital(" ".join(sentences))


def turn_text(turn: Turn, trade: Trade, question: Question, knobs: list[str]) -> str:
    """Tell what one knob alone trades on a frontier."""
    same = [knob for knob in knobs if knob != turn.knob]
    text = (
        f"{_place(trade, question)}{words(turn.knob)} {number(turn.most[turn.knob])} in place of "
        f"{number(turn.fair[turn.knob])}, all else equal, is "
        f"{_bargain(turn.most, turn.fair, question)}"
    )
    return capital(f"{text}{f' ({setting(turn.most, same)})' if same else ''}.")


def change(metric: str, start: float, end: float) -> str:
    """Return how a metric changes: "18 % more goodput", "43 times the TTFT p99"."""
    start, end = float(start), float(end)
    if not (math.isfinite(start) and math.isfinite(end) and start > 0 and end > 0):
        return f"{named(metric)} {measured(metric, end)} in place of {measured(metric, start)}"
    ratio = end / start
    if ratio >= 2:
        return f"{number(float(f'{ratio:.2g}'))} times the {named(metric)}"
    return f"{percent(abs(ratio - 1))} {'more' if ratio >= 1 else 'less'} {named(metric)}"


def best(objective: str, question: Question) -> str:
    """Return which end of an objective is the better one, in a word."""
    return "most" if objective in question.maximise else "least"


def capital(text: str) -> str:
    """Return a sentence with a capital letter."""
    return text[:1].upper() + text[1:]


def _turned(most: pd.Series, fair: pd.Series, knobs: list[str]) -> str:
    """Name the knobs that differ; of one or two their levels, too."""
    turned = changed(most, fair, knobs)
    if 1 <= len(turned) <= 2:
        return f"{setting(most, turned)} in place of {listed([number(fair[k]) for k in turned])}"
    others = ["others"] if len(turned) > _MOST_KNOBS else []
    return listed([*map(words, turned[:_MOST_KNOBS]), *others])


def _bargain(most: pd.Series, fair: pd.Series, question: Question) -> str:
    x, y = question.objectives[:2]
    return f"{change(x, fair[x], most[x])} for {change(y, fair[y], most[y])}"


def _place(trade: Trade, question: Question) -> str:
    return f"at {words(str(question.by))} {number(trade.group)}, " if question.by else ""


def who_pays(trade: Trade, question: Question) -> str:
    """Say what becomes of other metrics from the one end to the other; "" if there are no two."""
    if trade.most.name == trade.fair.name:
        return ""
    tenants = _OF_TENANTS if trade.most.get("tenants", 1) > 1 else ()
    metrics = [
        name
        for name in (*_BOTH_ENDS, *tenants)
        if name in trade.front and name not in question.objectives
    ]
    parts = [
        f"{named(name)} from {_amount(name, trade.fair[name])} to {_amount(name, trade.most[name])}"
        for name in metrics
        if pd.notna(trade.fair[name]) and pd.notna(trade.most[name])
    ]
    x, y = question.objectives[:2]
    way = f"{_place(trade, question)}from the best {named(y)} to the best {named(x)}"
    return capital(f"{way}: {listed(parts)}.") if parts else ""


def _poorly(row: pd.Series) -> str:
    """Say so, if too few requests met the objectives: being equally late is no fairness."""
    if row["mark"] != POOR_SLO:
        return ""
    return f", and {percent(row['slo_attainment'])} of the requests meet the objectives"


def _amount(metric: str, value: float) -> str:
    return percent(value) if metric == "slo_attainment" else measured(metric, value)


def bend(trade: Trade, question: Question, knobs: list[str]) -> str:
    """Tell the knee beside the end that is best in the first objective; "" if there is none."""
    x, y = question.objectives[:2]
    most, knee = trade.most, trade.knee
    # Of three objectives and more, it may lie elsewhere.
    if knee is None or not all(_is_between(knee[n], most[n], trade.fair[n]) for n in (x, y)):
        return ""
    turned = setting(knee, changed(most, knee, knobs))
    return capital(
        f"{_place(trade, question)}the frontier bends at {measured(x, knee[x])} of {named(x)} and "
        f"{named(y)} {measured(y, knee[y])}, with {turned or 'the same knobs'}. Compared with the "
        f"{best(x, question)} {named(x)}: {change(x, most[x], knee[x])} for "
        f"{change(y, most[y], knee[y])}."
    )


def _is_between(value: float, one: float, other: float) -> bool:
    return min(one, other) < value < max(one, other)
