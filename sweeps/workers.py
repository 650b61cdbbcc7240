"""Which executor runs a sweep, opened when it begins and closed when it ends."""

from collections.abc import Iterator
from contextlib import contextmanager

from sweeps.executors import Executor, choose_executor
from vecsched.errors import ConfigError


@contextmanager
def open_executor(workers: int | None, dask: str | None = None) -> Iterator[Executor]:
    """Open an executor, and close it in the end.

    Args:
        workers: simulations at once; None: one a core, or all that the cluster has.
        dask: "local" for a Dask cluster of processes on this machine, or a scheduler's address.

    Raises:
        ConfigError: the number is below one, or Dask is not installed.
        WorkerError: the cluster cannot be used.
    """
    if dask is None:
        yield choose_executor(workers)
        return
    try:
        from sweeps.dask_executor import connected
    except ImportError as error:
        raise ConfigError(
            f"Dask is not installed ({error}): pip install 'vecsched[dask]'"
        ) from None
    with connected(dask, workers) as executor:
        yield executor
