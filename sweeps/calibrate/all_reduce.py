"""What the GPUs of a tensor-parallel group send each other, which operator profiles do not hold.

Every layer ends both its halves, attention and feed-forward, with an all-reduce of the hidden
states of all tokens.
"""

from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sweeps.calibrate.aiconfigurator import read_custom_all_reduce
from sweeps.calibrate.latency_csv import by_size, read_csv
from sweeps.calibrate.profile import Profile
from sweeps.calibrate.shape import ModelShape
from vecsched.errors import InputError

CALLS_IN_A_LAYER = 2
VIDUR_TIME = "time_stats.all_reduce.median"
MILLISECOND = 1e-3
# Where a line of bytes through the origin of a ring ends; it goes on beyond.
RING_BYTES = 2**30


class AllReduce(NamedTuple):
    """Seconds of one all-reduce by size.

    Attributes:
        sizes: bytes a GPU holds, ascending, at least two.
        seconds: at each size.
    """

    sizes: np.ndarray
    seconds: np.ndarray

    def at(self, sizes: np.ndarray) -> np.ndarray:
        """Return the seconds at any sizes: linear between points, and beyond by the last half."""
        last, most = self.sizes[-1], self.seconds[-1]
        slope = max(most - np.interp(last / 2, self.sizes, self.seconds), 0.0) / (last / 2)
        beyond = slope * np.maximum(sizes - last, 0)
        return np.interp(sizes, self.sizes, self.seconds) + beyond


def read_all_reduce(path: str | PathLike[str], gpus: int) -> AllReduce:
    """Read measured all-reduces of one node.

    Args:
        path: a CSV file of Vidur (`all_reduce.csv`), whose rows of several ranks, repeats and
            noise become one median a size; or aiconfigurator's `custom_allreduce_perf.parquet`.
        gpus: how many of them share the model.

    Raises:
        InputError: the file cannot be read, a column is missing, or none is of so many GPUs.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        rows = read_custom_all_reduce(path)
        rows = rows[rows["gpus"] == gpus].sort_values("bytes")
        if len(rows) < 2:
            raise InputError("no times of so many GPUs", source=path, field="gpus", value=gpus)
        return AllReduce(rows["bytes"].to_numpy(), rows["seconds"].to_numpy())
    table = read_csv(path).of_gpus("num_workers", gpus).of_gpus("devices_per_node", gpus)
    rows = table.columns(["size"], VIDUR_TIME)
    sizes = np.unique(rows["size"])
    return AllReduce(sizes, MILLISECOND * by_size(rows, "size", VIDUR_TIME, sizes))


def ring(gpus: int, bytes_per_s: float, latency_s: float) -> AllReduce:
    """Return a ring all-reduce over links of one bandwidth and latency.

    2 * (gpus - 1) steps each send one of `gpus` parts of the data to the next GPU (Patarasuk and
    Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009).
    """
    steps = 2 * (gpus - 1)
    sizes = np.array([0, RING_BYTES])
    return AllReduce(sizes, steps * (latency_s + sizes / gpus / bytes_per_s))


def with_all_reduce(profile: Profile, shape: ModelShape, times: AllReduce) -> Profile:
    """Return a profile with two all-reduces a layer beside its operators."""
    sizes = profile.tokens * shape.hidden * shape.bytes_per_value
    sent_s = CALLS_IN_A_LAYER * shape.layers * times.at(sizes)
    return profile._replace(tokens_s=profile.tokens_s + sent_s)
