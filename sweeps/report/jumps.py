"""Cliffs in words: one knob's step that costs much of the throughput, wherever it does."""

from typing import Any, NamedTuple

import pandas as pd

from sweeps.cliffs import cliffs, named_cliffs
from sweeps.report.phrases import counted, listed, measured, named, number, words

# Throughput is what falls off a cliff. Latencies change by large factors everywhere.
_METRICS = ("output_tokens_per_s", "requests_per_s")


class Jump(NamedTuple):
    """A cliff, told from its better side.

    Attributes:
        metric: what falls.
        knob: the knob that is turned.
        better, worse: its levels on the two sides.
        high, low: the metric there, where the fall is worst.
        pairs: how many pairs of settings, all else equal, are on the two sides.
        where: the knobs and conditions that have one and the same value in all of them.
    """

    metric: str
    knob: str
    better: Any
    worse: Any
    high: float
    low: float
    pairs: int
    where: dict[str, Any]

    @property
    def sentence(self) -> str:
        """The cliff in words."""
        place = f"With {self.place}, " if self.where else ""
        text = (
            f"{place}{words(self.knob)} {number(self.worse)} in place of {number(self.better)} "
            f"takes {named(self.metric)} from {measured(self.metric, self.high)} down to "
            f"{measured(self.metric, self.low)} at worst, and to half or less in "
            f"{counted(self.pairs, 'pair')} of settings."
        )
        return text[:1].upper() + text[1:]

    @property
    def place(self) -> str:
        """Where it is, in words."""
        settings = [f"{words(name)} {number(value)}" for name, value in self.where.items()]
        return listed(settings) or "anywhere"


def jumps_of(frame: pd.DataFrame) -> list[Jump]:
    """Return the steps of a knob that halve the throughput, or worse; the worst first."""
    for metric in _METRICS:
        if metric in frame:
            found = named_cliffs(cliffs(frame, metric))
            if len(found):
                return [_jump(metric, row) for row in found.to_dict("records")]
    return []


def _jump(metric: str, row: dict[Any, Any]) -> Jump:
    sides = [(row["from"], row["before"]), (row["to"], row["after"])]
    (better, high), (worse, low) = sides if row["ratio"] < 1 else sides[::-1]
    return Jump(
        metric=metric,
        knob=row["knob"],
        better=better,
        worse=worse,
        high=high,
        low=low,
        pairs=row["steps"],
        where=row["where"],
    )
