"""What a reader of a frontier should be warned of: misery, luck, blind spots, what is missing."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from sweeps.frontier import POOR_SLO, POOR_SLO_ATTAINMENT, left_out, slo_mark
from sweeps.report.phrases import counted, listed, measured, named, number, percent, setting
from sweeps.report.question import Question
from sweeps.report.source import SweepFile
from sweeps.report.trades import Trade, changed

_SURE = 0.5  # a setting on the frontier in a smaller share of draws owes it to its seed
# Metrics by how the names of their kind begin; where one of a kind is an objective the others are
# no blind spot.
_KINDS = {
    ("ttft_", "queue_wait_", "max_queue_wait_", "slowdown_", "e2e_", "normalized_"): (
        "ttft_p99_s",
        "slowdown_p99",
    ),
    ("itl_", "tpot_"): ("itl_p99_s", "tpot_p99_s"),
}
_BLIND = 3.0  # a metric that is so many times as high as it could be
# How much worse an alternative may be in the first objective, and in the second.
_NEAR, _FAR = 0.95, 0.2


class Blind(NamedTuple):
    """A metric that is no objective and pays for the frontier.

    Attributes:
        metric: its name.
        row: a landmark of the frontier where it is high.
        other: a setting that is not much worse in the objectives, and has it least.
        ratio: by how many times it is higher.
    """

    metric: str
    row: pd.Series
    other: pd.Series
    ratio: float


def equal_misery(sweep: SweepFile, front: pd.DataFrame) -> str:
    """Say how much of a frontier met the objectives too seldom; "" if nothing did."""
    poor = int((front["mark"] == POOR_SLO).sum())
    if not poor:
        return ""
    slo = sweep.metadata["spec"].get("slo", {})
    bounds = [f"{named(name)} within {measured(name, value)}" for name, value in slo.items()]
    text = (
        f"{poor:,} of the {len(front):,} settings on the frontier met the objectives"
        f"{f' ({listed(bounds)})' if bounds else ''} for fewer than "
        f"{percent(POOR_SLO_ATTAINMENT)} of the requests. They are drawn hollow: being equally "
        "late is no fairness."
    )
    return text + _most_equal(sweep.ended_well)


def blind_spot(points: pd.DataFrame, trade: Trade, question: Question, knobs: list[str]) -> str:
    """Tell the metric that the objectives do not see and that costs most; "" if none does."""
    x, y = question.objectives[:2]
    worst = max(_blind(points, trade, question), key=lambda spot: spot.ratio, default=None)
    if worst is None or worst.ratio < _BLIND:
        return ""
    metric, row, other, _ = worst
    seen = listed([named(name) for name in question.objectives])
    place = (
        f"At {named(str(question.by))} {number(row[question.by])}, point"
        if question.by
        else "Point"
    )
    turned = changed(row, other, knobs)
    return (
        f"{seen[:1].upper()}{seen[1:]} do not see {named(metric)}. {place} {row['point']:,} of the "
        f"frontier ({setting(row, turned)}) has {measured(metric, row[metric])}; point "
        f"{other['point']:,} ({setting(other, turned)}) has {measured(metric, other[metric])}, and "
        f"{measured(x, other[x])} of {named(x)} and {named(y)} {measured(y, other[y])} in place "
        f"of {measured(x, row[x])} and {measured(y, row[y])}. "
        f"If that matters to you, add --min {metric}."
    )


def luck(surety: dict[int, float]) -> tuple[str, bool]:
    """Say how much of the frontier would be there with other seeds, and whether that is doubtful.

    Args:
        surety: see `probabilities`.
    """
    if not surety:
        return "", False
    doubtful = sum(chance < _SURE for chance in surety.values())
    text = (
        "Each setting ran with several seeds, and each run counts for itself. When the seeds are "
        f"drawn anew and their means compared, {doubtful:,} of the {len(surety):,} on the frontier "
        f"are on it in fewer than {percent(_SURE)} of the draws: luck more than merit."
    )
    return text, doubtful > 0


def failures(sweep: SweepFile, question: Question) -> str:
    """Say what took no part, and why; "" if all did."""
    lost = left_out(sweep.frame, question.objectives)
    failed, undefined = len(sweep.failed), lost.get("undefined", 0)
    parts = []
    if failed:
        first = str(sweep.failed["error"].iloc[0]).rstrip(".")
        parts.append(f"{counted(failed, 'setting')} failed, the first with {first}.")
    if undefined:
        parts.append(
            f"{counted(undefined, 'setting')} lack a value of {listed(list(question.objectives))}."
        )
    return " ".join(parts)


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


def _blind(points: pd.DataFrame, trade: Trade, question: Question) -> Iterable[Blind]:
    """Return each blind metric at each landmark of a frontier, beside what it could be."""
    x, y = question.objectives[:2]
    peers = points if question.by is None else points[points[question.by] == trade.group]
    seen = question.objectives
    unseen = [names for kind, names in _KINDS.items() if not any(n.startswith(kind) for n in seen)]
    metrics = [name for names in unseen for name in names if name in points]
    for row in (trade.most, trade.fair, trade.knee):
        if row is None:
            continue
        keeps_x = _keeps(peers[x], row[x], _NEAR, question)
        near = peers[keeps_x & _keeps(peers[y], row[y], _FAR, question)]
        for metric in metrics:
            known = near[near[metric] > 0]
            if len(known):
                other = known.iloc[int(known[metric].to_numpy(np.float64).argmin())]
                yield Blind(metric, row, other, float(row[metric] / other[metric]))


def _keeps(values: pd.Series, best: float, share: float, question: Question) -> pd.Series:
    """Tell which values of an objective are at most so much worse than the best."""
    return values >= share * best if values.name in question.maximise else values <= best / share
