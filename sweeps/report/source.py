"""A sweep's output as the report reads it: exact rows, the same in pandas, and what made them."""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sweeps.errors import StoreError
from sweeps.knobs import CONDITIONS, KNOBS, varying_conditions, varying_knobs
from sweeps.schema import CONFIG_FIELDS
from sweeps.spec import SweepSpec
from sweeps.store import read_metadata
from vecsched import SchedulerConfig

_NO_METRIC = (*CONDITIONS, *KNOBS, "point", "key", "status", "error", "engine_version")


class SweepFile(NamedTuple):
    """A sweep's output.

    Attributes:
        path: where it is.
        table: its rows as they are in the file, whole numbers whole.
        frame: the same rows in pandas, numbered from 0.
        metadata: what `sweeps.store.read_metadata` returns.
    """

    path: Path
    table: pa.Table
    frame: pd.DataFrame
    metadata: dict[str, Any]

    @property
    def ended_well(self) -> pd.DataFrame:
        """The rows with metrics; they keep their numbers."""
        return self.frame[self.frame["status"] == "ok"]

    @property
    def failed(self) -> pd.DataFrame:
        """The rows with an error instead."""
        return self.frame[self.frame["status"] != "ok"]

    @property
    def metrics(self) -> list[str]:
        """The columns that are results, in order."""
        return [name for name in self.table.column_names if name not in _NO_METRIC]

    @property
    def varying(self) -> list[str]:
        """The conditions and knobs that the points differ by."""
        return [*varying_conditions(self.frame), *varying_knobs(self.frame)]

    def row(self, number: int) -> dict[str, Any]:
        """Return one row as plain values; what does not exist is None."""
        return self.table.slice(number, 1).to_pylist()[0]

    def spec(self, folder: Path = Path()) -> SweepSpec:
        """Return the sweep file it was made from; relative paths in it start at `folder`."""
        return SweepSpec.from_mapping(self.metadata["spec"], str(self.path), folder)


def read_sweep(path: Path) -> SweepFile:
    """Read a sweep's output, a file or a folder of parts.

    Raises:
        StoreError: it cannot be read, no sweep wrote it, or it holds no point that ended well.
    """
    metadata = read_metadata(path)
    try:
        table = pq.read_table(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error
    sweep = SweepFile(Path(path), table, table.to_pandas(), metadata)
    if sweep.ended_well.empty:
        first = f", first {sweep.frame['error'].iloc[0]}" if len(sweep.frame) else ""
        raise StoreError(
            f"{path}: none of its {len(sweep.frame):,} points ended well{first}; "
            "there is nothing to report"
        )
    return sweep


def config_of(row: dict[str, Any]) -> SchedulerConfig:
    """Return the configuration that a row is about.

    Raises:
        ConfigError: it is impossible, so the row was changed.
    """
    return SchedulerConfig.from_mapping({n: row[n] for n in CONFIG_FIELDS})
