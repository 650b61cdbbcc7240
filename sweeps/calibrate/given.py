"""The tables that a calibration is given: a folder of them, or each by its path."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

from vecsched.errors import InputError

Given = str | PathLike[str] | Sequence[str | PathLike[str]]


class Tables(NamedTuple):
    """Files by name, and the path that errors name."""

    files: Mapping[str, Path]
    where: Path

    def need(self, *names: str) -> list[Path]:
        """Return the paths of tables.

        Raises:
            InputError: some were not given.
        """
        missing = [name for name in names if name not in self.files]
        if missing:
            raise InputError(
                f"there is no {' and no '.join(missing)}, which this profile needs",
                source=self.where,
            )
        return [self.files[name] for name in names]


def as_paths(given: Given) -> tuple[Path, ...]:
    """Return one or several paths as a tuple."""
    if isinstance(given, str | PathLike):
        return (Path(fspath(given)),)
    return tuple(Path(fspath(path)) for path in given)


def tables_of(given: Given) -> Tables:
    """Return the tables of a profile.

    Args:
        given: the folder they are in, or the path of each.

    Raises:
        InputError: two files have the same name.
    """
    paths = as_paths(given)
    where = paths[0] if len(paths) == 1 else paths[0].parent
    found: dict[str, Path] = {}
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.name in found:
                raise InputError(f"has the same name as {found[file.name]}", source=file)
            found[file.name] = file
    return Tables(found, where)
