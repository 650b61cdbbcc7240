"""Files that are complete or not there, and folders that one process at a time writes to."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from sweeps.errors import StoreError

TEMPORARY = ".tmp"  # ending of a file that is being written

_LOCK = ".lock"


@contextmanager
def reporting(path: Path) -> Iterator[None]:
    """Turn what the system says about `path` into a `StoreError`."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` complete and on disk, or not at all.

    Raises:
        StoreError: the place cannot be written to; on entry, before anything is computed, where
            that can be told.
    """
    if path.is_dir():
        raise StoreError(
            f"{path}: is a folder; name a file in it, such as {path / 'sweep.parquet'}"
        )
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    with reporting(path):
        file = open(temporary, "xb")  # noqa: SIM115 (closed below, where a full disk is expected)
    try:
        yield file
        with reporting(path):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(temporary, path)
            _sync_folder(path.parent)
    finally:
        with suppress(OSError):  # a full disk, already reported, again when closing flushes
            file.close()
        temporary.unlink(missing_ok=True)


@contextmanager
def exclusive_folder(folder: Path, output: Path) -> Iterator[None]:
    """Make a folder, and keep every other process out of it; one that stays empty is removed.

    The lock is the system's: it ends with the process, however that ends.

    Args:
        folder: the folder; its parent must exist.
        output: what errors call it.

    Raises:
        StoreError: another process has it, or it cannot be made.
    """
    with reporting(output):
        folder.mkdir(exist_ok=True)
    lock = FileLock(folder / _LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise StoreError(f"{output}: another sweep is writing it; wait for it or stop it") from None
    except OSError as error:
        raise _unwritable(output, error) from error
    try:
        yield
    finally:
        if [path.name for path in folder.iterdir()] == [_LOCK]:
            with suppress(OSError):  # a system that removes no open file keeps the empty folder
                (folder / _LOCK).unlink()
                folder.rmdir()
        lock.release()


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}: cannot be written: {error.strerror or error}")


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where the system lets folders be synced."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
