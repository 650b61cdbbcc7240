"""What a run of the benchmarks found: one line a bar, printed at the end and kept as JSON."""

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numba
import numpy as np

from vecsched import engine_version

# Interquartile range over median, and cores taken by other processes, from which a figure is noisy.
LARGE_SPREAD, LARGE_LOAD = 0.1, 0.3


@dataclass(frozen=True)
class Bar:
    """A limit that a measured figure should keep."""

    limit: float
    unit: str = "x"
    at_least: bool = False

    def is_met_by(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.limit:g} {self.unit}"


@dataclass(frozen=True)
class Line:
    """One figure.

    Attributes:
        what: what was measured against what.
        measured: the figure, in `unit`.
        bar: the limit it should keep, in words; None: it is for information.
        met: whether it does.
        detail: the two times behind a ratio, or what else should be known.
        spread: interquartile range over median of the noisier of the two times.
        other_cores: cores that other processes kept busy meanwhile; None: unknown.
    """

    what: str
    measured: float
    unit: str
    bar: str | None
    met: bool | None
    detail: str
    spread: float
    other_cores: float | None

    @property
    def is_noisy(self) -> bool:
        return self.spread > LARGE_SPREAD or (self.other_cores or 0) > LARGE_LOAD


@dataclass
class Ledger:
    """All figures of a run, in order."""

    lines: list[Line] = field(default_factory=list)

    def note(
        self,
        what: str,
        measured: float,
        bar: Bar | None = None,
        *,
        detail: str = "",
        spread: float = 0.0,
        other_cores: float | None = None,
    ) -> None:
        """Add a figure. A bar that is not met is reported, and fails nothing."""
        unit = "x" if bar is None else bar.unit
        met = None if bar is None else bar.is_met_by(measured)
        limit = None if bar is None else str(bar)
        self.lines.append(Line(what, measured, unit, limit, met, detail, spread, other_cores))

    def table(self) -> list[str]:
        """Return the figures as lines of a Markdown table, ready for `docs/performance.md`.

        The last column has the spread and the cores that other processes kept busy.
        """
        titles = ("what", "bar", "measured", "met", "times", "noise")
        rows = [titles, ["---"] * len(titles), *map(_cells, self.lines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = (
            [cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows
        )
        return [f"| {' | '.join(row)} |" for row in padded]

    def remarks(self) -> list[str]:
        """Return what a reader of the table must know: missed bars and noise."""
        missed = [line.what for line in self.lines if line.met is False]
        noisy = sum(line.is_noisy for line in self.lines)
        remarks = [f"bars not met: {'; '.join(missed) or 'none'}"]
        if noisy:
            remarks.append(
                f"{noisy} of {len(self.lines)} figures are NOISY (marked !): times scattered, or "
                "other processes kept the machine busy; run again when it is idle"
            )
        return remarks

    def save(self, path: Path) -> None:
        """Write the figures and where they come from as JSON."""
        content = {"machine": machine(), "lines": [asdict(line) for line in self.lines]}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "vecsched": engine_version(),
    }


def _processor() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # Linux only
        return platform.processor() or "unknown"
    names = (line.split(": ", 1)[1] for line in described if line.startswith("model name"))
    return next(names, "unknown")


def _cells(line: Line) -> list[str]:
    met = {None: "", True: "yes", False: "**no**"}[line.met]
    measured = f"{line.measured:#.3g}".rstrip(".") + f" {line.unit}"
    others = "" if line.other_cores is None else f", {line.other_cores:.1f} cores"
    noise = f"{line.spread:.0%}{others}{' !' if line.is_noisy else ''}"
    return [line.what, line.bar or "", measured, met, line.detail, noise]
