"""Reads latency tables: CSV files of counts and times, with what real ones have wrong."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from vecsched.errors import InputError, did_you_mean

# A time this much off the median of itself and its two neighbours is taken for a mishap.
WILD = 2.0


def read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file, whatever its line ends, blank lines and unnamed index column.

    Raises:
        InputError: it cannot be read.
    """
    try:
        frame = pd.read_csv(path, encoding="utf-8-sig", skipinitialspace=True)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as CSV: {error}", source=path) from None
    return frame.rename(columns=str.strip)


def read_columns(
    path: Path, counts: Sequence[str], time: str, *, labels: Sequence[str] = ()
) -> pd.DataFrame:
    """Read some columns of a table; rows without a time are left out.

    Args:
        path: the file.
        counts: columns of whole numbers >= 0, also spelled as 7.0.
        time: the column of durations, > 0 where it is not blank.
        labels: columns taken as they are.

    Raises:
        InputError: the file or a column is missing, or a value is no count or no time.
    """
    frame = read_csv(path)
    for name in (*labels, *counts, time):
        if name not in frame:
            raise InputError(
                f"missing column; {did_you_mean(name, map(str, frame.columns))}",
                source=path,
                field=name,
            )
    frame = frame[[*labels, *counts, time]]
    frame = frame[frame[time].notna()]
    for name in counts:
        frame[name] = _checked(frame, name, path, whole=True).astype(np.int64)
    frame[time] = _checked(frame, time, path, whole=False)
    return frame


def by_size(rows: pd.DataFrame, count: str, time: str, sizes: np.ndarray) -> np.ndarray:
    """Return a time for each size: the median of duplicates, wild ones put right, linear between.

    Args:
        rows: measurements of one operator.
        count: name of the column of sizes.
        time: name of the column of durations.
        sizes: int64 (n,), ascending.
    """
    times = rows.groupby(count)[time].median()
    values = times.to_numpy(np.float64)
    middle = values.copy()
    middle[1:-1] = np.median([values[:-2], values[1:-1], values[2:]], axis=0)
    wild = (values > WILD * middle) | (WILD * values < middle)
    return np.interp(sizes, times.index, np.where(wild, middle, values))


def _checked(frame: pd.DataFrame, name: str, path: Path, *, whole: bool) -> pd.Series:
    values = pd.to_numeric(frame[name], errors="coerce").astype(np.float64)
    good = (values >= 0) & (values < np.inf) if whole else (values > 0) & (values < np.inf)
    good &= (values % 1 == 0) if whole else True
    if not good.all():
        place = int(np.argmin(good.to_numpy()))
        raise InputError(
            "must be a whole number >= 0" if whole else "must be a time > 0",
            source=path,
            row=int(frame.index[place]),
            field=name,
            value=frame[name].iloc[place],
        )
    return values
