"""Tells by its files what a source is."""

from collections.abc import Callable
from pathlib import Path

from sweeps.calibrate.splitwise import COLUMNS as SPLITWISE_COLUMNS
from sweeps.measured_run import RUN_FILES

Paths = tuple[Path, ...]


def names(paths: Paths) -> set[str]:
    """Return the names of the files given, or of what is in the folder given."""
    if len(paths) == 1 and paths[0].is_dir():
        return {path.name for path in paths[0].iterdir()}
    return {path.name for path in paths if path.is_file()}


def has(*wanted: str) -> Callable[[Paths], bool]:
    """Return a test for files of these names."""
    return lambda paths: set(wanted) <= names(paths)


def is_llmservingsim(paths: Paths) -> bool:
    """Tell by the table of dense operators, of one GPU group or of any."""
    grouped = len(paths) == 1 and any(paths[0].glob("tp*/dense.csv"))
    return grouped or "dense.csv" in names(paths)


def _is_run(path: Path) -> bool:
    return path.is_dir() and any(
        all((place / name).is_file() for name in RUN_FILES) for place in (path, path / "vllm")
    )


def are_runs(paths: Paths) -> bool:
    """Tell folders of real runs, or the files of one."""
    return all(map(_is_run, paths)) or names(paths) == set(RUN_FILES)


def are_tables(paths: Paths) -> bool:
    """Tell CSV and Parquet files."""
    return all(path.is_file() and path.suffix in (".csv", ".parquet") for path in paths)


def is_splitwise(paths: Paths) -> bool:
    """Tell by the names of the columns."""
    if len(paths) > 1 or not paths[0].is_file() or paths[0].suffix != ".csv":
        return False
    with paths[0].open(encoding="utf-8-sig", errors="replace") as file:
        return set(SPLITWISE_COLUMNS) <= {name.strip() for name in file.readline().split(",")}
