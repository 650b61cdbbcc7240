"""One client of a ServeGen pool: its windows of traffic and its distributions of lengths."""

import ast
import csv
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sweeps.workloads.arrivals import gamma_gaps, weibull_gaps
from sweeps.workloads.lengths import draw_indices
from sweeps.workloads.parameters import is_number
from vecsched.errors import InputError

# Families of gaps and how to draw those of mean 1, by shape.
GAPS = {"Gamma": gamma_gaps, "Weibull": weibull_gaps}

_FIELDS = ("start_s", "rate", "cv", "family", "shape", "scale")
_MEDIA = ("image", "audio", "video")
_LAST_WINDOW_S = 600.0  # of a client with one window, whose end nothing tells


class Interval(NamedTuple):
    """A window with traffic: its place among all windows, and how requests arrive in it."""

    number: int
    start_s: float
    stop_s: float
    rate_per_s: float
    family: str
    shape: float


class Distribution(NamedTuple):
    """Values, int64, and how likely each of them is."""

    values: np.ndarray
    weights: np.ndarray

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw `count` values."""
        return self.values[draw_indices(rng, self.weights, count)]


class Lengths(NamedTuple):
    """What prompts and outputs consist of in a window, by the file's names of the parts."""

    parts: Mapping[str, Distribution]

    def prompts(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw prompt lengths: those in the file, or text and all items of all media together."""
        if "input_tokens" in self.parts:
            return self.parts["input_tokens"].draw(rng, count)
        tokens = self.parts["text_tokens"].draw(rng, count)
        for medium in _MEDIA:
            if f"{medium}_tokens" in self.parts:
                tokens = tokens + self._items(medium, rng, count)
        return tokens

    def outputs(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw output lengths, reasoning included."""
        return self.parts["output_tokens"].draw(rng, count)

    def _items(self, medium: str, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw how many items each request has, and the tokens of each; return their sums."""
        items = self.parts[f"{medium}_count"].draw(rng, count)
        tokens = self.parts[f"{medium}_tokens"].draw(rng, items.sum())
        owner = np.repeat(np.arange(count), items)
        return np.bincount(owner, tokens, count).astype(np.int64)


@dataclass(frozen=True)
class Client:
    """A client of a pool.

    Attributes:
        number: the one in its files' names.
        intervals: its windows with traffic, in order.
        stop_s: end of its last window.
        dataset_path: where the lengths come from.
        dataset: start of a window to its parts, by name, as the file writes them.
    """

    number: int
    intervals: tuple[Interval, ...]
    stop_s: float
    dataset_path: str
    dataset: Mapping[float, Mapping[str, Any]]
    _parsed: dict[float, Lengths] = field(default_factory=dict)

    def within(self, start_s: float, stop_s: float) -> list[Interval]:
        """Return the windows with traffic that reach into a span of time."""
        return [each for each in self.intervals if each.start_s < stop_s and each.stop_s > start_s]

    def requests_within(self, start_s: float, stop_s: float) -> float:
        """Return how many requests the rates make in a span of time."""
        return sum(
            each.rate_per_s * (min(each.stop_s, stop_s) - max(each.start_s, start_s))
            for each in self.within(start_s, stop_s)
        )

    def lengths_at(self, t: float) -> Lengths:
        """Return the latest distributions at or before an instant.

        Raises:
            InputError: there are none, or they cannot be read.
        """
        known = [start for start in self.dataset if start <= t]
        if not known:
            raise InputError(f"has no lengths for traffic at {t:g} s", source=self.dataset_path)
        start = max(known)
        if start not in self._parsed:
            parts = self.dataset[start]
            self._parsed[start] = _lengths(self.dataset_path, f"{start:g}", parts)
        return self._parsed[start]


def read_client(folder: str, number: int) -> Client:
    """Read the two files of a client.

    Raises:
        InputError: naming file, row, field and value.
    """
    stem = os.path.join(folder, f"chunk-{number}")
    intervals, stop_s = _read_intervals(f"{stem}-trace.csv")
    return Client(number, intervals, stop_s, f"{stem}-dataset.json", _read_dataset(stem))


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {reason}", source=path) from None


def _read_intervals(path: str) -> tuple[tuple[Interval, ...], float]:
    """Return the windows with traffic, and the end of the last window."""
    rows = [row for row in csv.reader(_read_text(path).splitlines()) if row]
    windows = [_window(path, number, row) for number, row in enumerate(rows)]
    if not windows:
        raise InputError("the file is empty", source=path)
    starts = [window["start_s"] for window in windows]
    last = starts[-1] - starts[-2] if len(starts) > 1 else _LAST_WINDOW_S
    stops = [*starts[1:], starts[-1] + last]
    if any(start >= stop for start, stop in zip(starts, stops, strict=True)):
        raise InputError("windows must start one after another", source=path, field="start_s")
    intervals = [
        Interval(number, start, stop, each["rate"], each["family"], each["shape"])
        for number, (start, stop, each) in enumerate(zip(starts, stops, windows, strict=True))
        if each["rate"] > 0
    ]
    return tuple(intervals), stops[-1]


def _window(path: str, row: int, cells: list[str]) -> dict[str, Any]:
    """Check one line; one without traffic has no family, and zeros for parameters."""
    if len(cells) != len(_FIELDS):
        raise InputError(
            f"has {len(cells)} cells, not {len(_FIELDS)}: {', '.join(_FIELDS)}",
            source=path,
            row=row,
        )
    window: dict[str, Any] = dict(zip(_FIELDS, cells, strict=True))
    for name in ("start_s", "rate", "shape"):
        try:
            value = float(window[name])
        except ValueError:
            value = np.nan
        if not is_number(value) or value < 0:
            raise InputError(
                "must be a number >= 0", source=path, row=row, field=name, value=window[name]
            )
        window[name] = value
    if window["rate"] > 0 and window["family"] not in GAPS:
        problem = f"a window with traffic needs one of {', '.join(GAPS)}"
        raise InputError(problem, source=path, row=row, field="family", value=window["family"])
    if window["rate"] > 0 and window["shape"] == 0:
        raise InputError(
            "a window with traffic needs a shape > 0", source=path, row=row, field="shape", value=0
        )
    return window


def _read_dataset(stem: str) -> dict[float, Mapping[str, Any]]:
    """Return the windows of lengths; those with an empty part are no windows."""
    path = f"{stem}-dataset.json"
    try:
        document = json.loads(_read_text(path))
        windows = {float(start): dict(parts) for start, parts in document.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"must be a JSON object of windows, each an object of distributions: {error}",
            source=path,
        ) from None
    return {start: parts for start, parts in windows.items() if "{}" not in parts.values()}


def _lengths(path: str, window: str, parts: Mapping[str, Any]) -> Lengths:
    wanted = [name for name in parts if name.endswith(("_tokens", "_count"))]
    lengths = Lengths(
        {name: _distribution(path, f"{window}.{name}", parts[name]) for name in wanted}
    )
    needed = {"output_tokens", "input_tokens" if "input_tokens" in wanted else "text_tokens"}
    needed |= {f"{medium}_count" for medium in _MEDIA if f"{medium}_tokens" in wanted}
    for name in sorted(needed - set(wanted)):
        raise InputError("is missing", source=path, field=f"{window}.{name}")
    return lengths


def _distribution(path: str, name: str, text: Any) -> Distribution:
    """Read a Python dictionary, value to probability, that the file holds as text."""
    try:
        items = ast.literal_eval(text)
        values = np.array(list(items), np.float64)
        weights = np.array(list(items.values()), np.float64)
    except (ValueError, TypeError, SyntaxError, AttributeError):
        values = weights = np.empty(0)
    sound = len(values) and (values >= 0).all() and (values == np.rint(values)).all()
    if not sound or not (weights >= 0).all() or not np.isfinite(weights.sum()) or not weights.any():
        raise InputError(
            "must be the text of a dictionary, tokens to probability",
            source=path,
            field=name,
            value=str(text)[:40],
        )
    return Distribution(values.astype(np.int64), weights)
