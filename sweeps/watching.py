"""Who is told how far a sweep is."""

from typing import Protocol


class Progress(Protocol):
    """What a sweep tells its watcher, always from the thread that called `run_sweep`."""

    def note(self, text: str) -> None:
        """Say what is happening before the first point, such as compiling."""

    def start(self, points: int, workers: int) -> None:
        """Begin: so many points, so many at a time."""

    def recall(self, points: int, failed: int) -> None:
        """So many points were done by earlier runs, `failed` of them as errors."""

    def advance(self, points: int, failed: int) -> None:
        """So many more points are done, `failed` of them as errors."""


class Silent:
    """A watcher that says nothing."""

    def note(self, text: str) -> None:
        """Ignore it."""

    def start(self, points: int, workers: int) -> None:
        """Ignore it."""

    def recall(self, points: int, failed: int) -> None:
        """Ignore it."""

    def advance(self, points: int, failed: int) -> None:
        """Ignore it."""
