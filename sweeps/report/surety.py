"""How sure the frontier is, where each setting ran with several seeds."""

import pandas as pd

from sweeps.knobs import SEED
from sweeps.report.question import Question
from sweeps.report.source import SweepFile
from sweeps.stability import frontier_probability


def probabilities(sweep: SweepFile, question: Question, front: pd.DataFrame) -> dict[int, float]:
    """Return for each row of the frontier how often its setting is on it when seeds are drawn anew.

    Nothing where some group has one seed only: there is nothing to draw from.
    """
    groups = [rows for _, rows in question.groups(sweep.frame)]
    same = [name for name in sweep.varying if name != SEED]
    if not same or min(rows[SEED].nunique() for rows in groups) < 2:
        return {}
    sure = frontier_probability(sweep.frame, question.maximise, question.minimise, question.by)
    known = front[same].assign(row=front.index)
    joined = known.merge(sure[[*same, "probability"]], on=same).dropna(subset="probability")
    return dict(zip(joined["row"].tolist(), joined["probability"].tolist(), strict=True))
