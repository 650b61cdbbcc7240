"""What is asked of a sweep: which metrics should be high, which low, and what is compared."""

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from sweeps.frontier import MAXIMISE, MINIMISE, pareto_front
from vecsched.errors import InputError

# Metrics with a better end, by their names; all others describe and do not judge.
_MORE = r"\w+_per_s(_steady)?|slo_attainment\w*|jain_\w+|completed|capacity_load|prefix_hit_rate"
_LESS = (
    r"(queue_wait|ttft|tpot|e2e|normalized_latency|itl|slowdown)_\w+|max_queue_wait_s|makespan_s|"
    r"blocked_\w+_share|starved_requests|wait_over_isolated_p99|long_over_short_wait|"
    r"(backlogged_)?service_difference_\w+|failed|timed_out|cancelled|preemptions|recomputed_tokens"
)


class Question(NamedTuple):
    """The objectives of a report.

    Attributes:
        maximise: columns where more is better.
        minimise: columns where less is better.
        by: column whose values have a frontier each; None: one frontier for all.
    """

    maximise: tuple[str, ...] = MAXIMISE
    minimise: tuple[str, ...] = MINIMISE
    by: str | None = None

    @property
    def objectives(self) -> tuple[str, ...]:
        """All of them; the first two are the axes of the figures."""
        return self.maximise + self.minimise

    def front(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frontier, see `pareto_front`.

        Raises:
            InputError: there is only one objective; a column does not exist, is no number or is
                named twice; no row has all objectives.
        """
        front = pareto_front(frame, self.maximise, self.minimise, self.by)
        if len(self.objectives) < 2:
            raise InputError(
                f"a report needs two objectives, not {self.objectives[0]!r} alone", field="min, max"
            )
        if front.empty:
            raise InputError(f"no point has all of {', '.join(self.objectives)}")
        return front

    def best(self, frame: pd.DataFrame, objective: str) -> pd.Series:
        """Return the first row that is best in one objective."""
        values = frame[objective].to_numpy(np.float64)
        return frame.iloc[values.argmax() if objective in self.maximise else values.argmin()]

    def groups(self, frame: pd.DataFrame) -> list[tuple[object, pd.DataFrame]]:
        """Return the values of `by` in ascending order, each with its rows; one None without it."""
        if self.by is None:
            return [(None, frame)]
        found = frame.groupby(self.by, dropna=False)
        return [(None if pd.isna(value) else value, rows) for value, rows in found]


def default_group(frame: pd.DataFrame) -> str | None:
    """Return what settings should be compared at equal values of: the load, if it varies."""
    return "load" if "load" in frame and frame["load"].nunique() > 1 else None


def better(metric: str) -> int:
    """Return 1 where more of a metric is better, -1 where less is, 0 where neither is."""
    if re.fullmatch(_MORE, metric):
        return 1
    return -1 if re.fullmatch(_LESS, metric) else 0
