"""Reads latency tables: CSV files of counts and times, with what real ones have wrong."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from vecsched.errors import InputError, did_you_mean

# A time this much off the median of itself and its two neighbours is taken for a mishap.
WILD = 2.0


def read_csv(path: Path) -> "LatencyTable":
    """Read a CSV file, whatever its line ends, blank lines and unnamed index column.

    Raises:
        InputError: it cannot be read.
    """
    try:
        frame = pd.read_csv(path, encoding="utf-8-sig", skipinitialspace=True)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as CSV: {error}", source=path) from None
    return LatencyTable(frame.rename(columns=str.strip), path)


class LatencyTable(NamedTuple):
    """A latency table and where it came from, for errors."""

    frame: pd.DataFrame
    path: Path

    def only(self, keep: pd.Series) -> "LatencyTable":
        """Return the table of the rows where `keep` is true."""
        return self._replace(frame=self.frame[keep])

    def of_gpus(self, column: str, gpus: int) -> "LatencyTable":
        """Return the table of the rows that were measured for so many GPUs.

        Raises:
            InputError: there is no such column, or no such row.
        """
        if column not in self.frame:
            raise InputError("missing column", source=self.path, field=column)
        own = self.only(self.frame[column] == gpus)
        if own.frame.empty:
            raise InputError("no row of so many GPUs", source=self.path, field=column, value=gpus)
        return own

    def columns(
        self, counts: Sequence[str], time: str, *, labels: Sequence[str] = ()
    ) -> pd.DataFrame:
        """Return some columns, checked; rows without a time are left out.

        Args:
            counts: columns of whole numbers >= 0, also spelled as 7.0.
            time: the column of durations, > 0 where it is not blank.
            labels: columns taken as they are.

        Raises:
            InputError: a column is missing, or a value is no count or no time.
        """
        wanted = [*labels, *counts, time]
        for name in wanted:
            if name not in self.frame:
                near = did_you_mean(name, map(str, self.frame.columns))
                raise InputError(f"missing column; {near}", source=self.path, field=name)
        rows = self.frame.loc[self.frame[time].notna(), wanted].copy()
        for name in counts:
            rows[name] = self._checked(rows[name], whole=True).astype(np.int64)
        rows[time] = self._checked(rows[time], whole=False)
        return rows

    def _checked(self, column: pd.Series, *, whole: bool) -> pd.Series:
        values = pd.to_numeric(column, errors="coerce").astype(np.float64)
        if whole:
            good, right = (
                (values >= 0) & (values < np.inf) & (values % 1 == 0),
                "a whole number >= 0",
            )
        else:
            good, right = (values > 0) & (values < np.inf), "a time > 0"
        if not good.all():
            place = int(np.argmin(good.to_numpy()))
            raise InputError(
                f"must be {right}",
                source=self.path,
                row=int(column.index[place]),
                field=str(column.name),
                value=column.iloc[place],
            )
        return values


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
