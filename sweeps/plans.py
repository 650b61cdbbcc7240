"""Plans: which points a sweep runs, known from the start or found on the way."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from sweeps.prepare import Sweep
from sweeps.rows import RowsOf
from sweeps.space import Point, Space
from vecsched.errors import ConfigError


class Plan(Protocol):
    """Which points a sweep runs; they may depend on the results of others."""

    def __len__(self) -> int:
        """How many there will be, at most."""

    def batches(self, rows: RowsOf) -> Iterator[Iterable[Point]]:
        """Yield some points after others; when the next are asked for, these have their rows.

        Args:
            rows: returns the rows of points that have run.
        """

    def points(self) -> Iterable[Point]:
        """Return all points, in the order of the output, when they have run."""


class Listed:
    """The plan that is a list: all points of the space."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def __len__(self) -> int:
        return len(self._space)

    def batches(self, rows: RowsOf) -> Iterator[Iterable[Point]]:
        """Yield all at once."""
        yield self._space

    def points(self) -> Iterable[Point]:
        """Return all."""
        return self._space


def plan_of(sweep: Sweep, output: Path, resume: bool) -> Plan:
    """Return the plan that a sweep's design asks for.

    Raises:
        ConfigError: it is a search, and Optuna is not installed.
        StoreError: the search cannot be kept beside the output, or gone on with.
    """
    if not sweep.spec.design.searches:
        return Listed(sweep.space)
    try:
        from sweeps.search import Search
    except ImportError as error:
        raise ConfigError(
            f"Optuna is not installed ({error}): pip install 'vecsched[optimize]'"
        ) from None
    return Search(sweep, output, resume)
