"""Progress of a sweep on stderr: a bar on a terminal, a plain line now and then elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sweeps.cli.output import note

_SECONDS_BETWEEN_LINES = 10.0


def sweep_progress() -> "Bar | Lines":
    """Return what suits stderr; use it in a `with` statement."""
    return Bar() if sys.stderr.isatty() else Lines()


class Lines:
    """A plain line every ten seconds: points done, rate, time left."""

    def __init__(self) -> None:
        self.points = self.done = self.failed = self.recalled = 0
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Leave what was printed."""

    def note(self, text: str) -> None:
        """Print what is happening."""
        note(text)

    def start(self, points: int, workers: int) -> None:
        """Begin to count."""
        self.points = points
        self._started = self._last_line = time.monotonic()

    def recall(self, points: int, failed: int) -> None:
        """Count what earlier runs have done; it says nothing about this one's rate."""
        self.done += points
        self.failed += failed
        self.recalled += points

    def advance(self, points: int, failed: int) -> None:
        """Count, and print a line if the last one is old."""
        self.done += points
        self.failed += failed
        if time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            left = (self.points - self.done) / self.rate()
            note(f"{self.done:,} of {self.points:,} points, {self.text()}, {left:,.0f} s left")

    def rate(self) -> float:
        """Return points a second so far."""
        return (self.done - self.recalled) / max(time.monotonic() - self._started, 1e-9)

    def text(self) -> str:
        """Return the rate, and the failures if there are any."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{self.rate():,.0f} points/s{failed}"


class Bar(Lines):
    """A bar with points done, rate and time left."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bar as it stands."""
        self._bar.stop()

    def start(self, points: int, workers: int) -> None:
        """Draw the bar."""
        super().start(points, workers)
        self._bar.update(self._task, total=points, visible=True)

    def note(self, text: str) -> None:
        """Print above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def recall(self, points: int, failed: int) -> None:
        """Move the bar."""
        super().recall(points, failed)
        self._bar.update(self._task, advance=points)

    def advance(self, points: int, failed: int) -> None:
        """Move the bar."""
        self.done += points
        self.failed += failed
        self._bar.update(self._task, advance=points, description=self.text())
