"""The tables of requests that a sweep keeps with `--per-request`: a file a point, found by key.

They are a dataset partitioned by `key` beside the sweep's output, `out.requests/key=0123...`. Read
one with `pandas.read_parquet("out.requests", filters=[("key", "==", key)])`.
"""

import io
import shutil
from collections.abc import Iterable
from pathlib import Path

from sweeps.files import atomic_file, reporting
from vecsched import Result

_FILE = "requests.parquet"


def encode(result: Result) -> bytes:
    """Return a run's table of requests as the bytes of a Parquet file.

    Workers do this, so that they hand over a hundredth of what the table takes in memory.
    """
    buffer = io.BytesIO()
    result.requests.to_parquet(buffer, index=False, compression="zstd")
    return buffer.getvalue()


class RequestTables:
    """The dataset of one sweep.

    Attributes:
        folder: where it is.
    """

    def __init__(self, output: Path) -> None:
        self.folder = output.with_name(f"{output.name.removesuffix('.parquet')}.requests")

    def __contains__(self, key: str) -> bool:
        return self._path(key).is_file()

    def write(self, key: str, table: bytes) -> None:
        """Write a point's table, complete or not at all.

        Raises:
            StoreError: the disk is full, or otherwise fails.
        """
        path = self._path(key)
        with reporting(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file, reporting(path):
            file.write(table)

    def keep_only(self, keys: Iterable[str]) -> None:
        """Remove the tables of all other points: those of the sweep that this one replaces.

        Raises:
            StoreError: one cannot be removed.
        """
        wanted = {self._path(key).parent.name for key in keys}
        with reporting(self.folder):
            for folder in self.folder.glob("key=*"):
                if folder.name not in wanted:
                    shutil.rmtree(folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"key={key}" / _FILE
