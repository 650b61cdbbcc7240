"""What the points of a sweep differ by: knobs that one turns, and conditions that one meets.

Conditions are the traffic: which trace, at what load, from which seed. Points are compared under
equal conditions. A knob is everything else that identifies a point: its variant, its cost model
(that is, the model and the hardware), and the fields of its configuration.
"""

from collections.abc import Sequence

import pandas as pd

from sweeps.frontier import columns_of
from sweeps.schema import CONFIG_FIELDS

SEED = "seed"
CONDITIONS = ("trace", "load", SEED)
KNOBS = ("variant", "cost", *CONFIG_FIELDS)


def varying_knobs(frame: pd.DataFrame) -> list[str]:
    """Return the knobs that the points of a sweep differ by.

    Args:
        frame: a row a point, as a sweep writes them.

    Returns:
        Those of `KNOBS` that are columns with two values or more, null being one, in the order of a
        sweep's columns. A knob of your own making, as a column, must be named where it is wanted.
    """
    return _varying(frame, KNOBS)


def varying_conditions(frame: pd.DataFrame) -> list[str]:
    """Return those of `CONDITIONS` that the points differ by."""
    return _varying(frame, CONDITIONS)


def chosen_knobs(frame: pd.DataFrame, knobs: Sequence[str] | None) -> list[str]:
    """Return the knobs that were named; if none were, those that vary.

    Raises:
        InputError: one is no column.
    """
    return varying_knobs(frame) if knobs is None else columns_of(frame, knobs)


def _varying(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in frame and frame[name].nunique(dropna=False) > 1]
