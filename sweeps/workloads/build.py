"""From columns read to a Trace, with times counted from the first arrival."""

from collections.abc import Mapping

import numpy as np

from sweeps.workloads.source import Source
from vecsched import Trace
from vecsched.errors import InputError


def first_arrival(arrivals: np.ndarray) -> float | int:
    """Return the earliest arrival, of the array's own type; NaN and inf are left to `Trace`."""
    finite = arrivals[np.isfinite(arrivals)]
    return finite.min() if len(finite) else 0


def seconds_since(origin: float | int, times: np.ndarray, per_second: int) -> np.ndarray:
    """Return float64 seconds from `origin`; exact up to the last rounding for integer times."""
    return (times - origin) / per_second


def make_trace(
    source: Source, columns: Mapping[str, np.ndarray], names: Mapping[str, str]
) -> Trace:
    """Make a trace of columns under our names.

    Args:
        source: where they come from.
        columns: arrays of shape (rows,), by the names of `Trace`.
        names: our names to those in the file, for messages.

    Raises:
        InputError: `Trace` rejects a value; names the file, and the field as the file does.
    """
    try:
        return Trace(**columns)
    except InputError as error:
        raise InputError(
            error.problem,
            source=source.path,
            row=error.row,
            field=names.get(error.field or "", error.field),
            value=error.value,
        ) from None
