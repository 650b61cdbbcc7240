"""Where output goes: results to stdout, everything else to stderr, so a pipe sees results only."""

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WHOLE = 28  # characters; a value up to this length stays on its line
_GAP = 2  # blanks between columns
_UNLIMITED = 10_000  # width of a table that goes to a file or a pipe: a row stays on its line

Rows = Sequence[Sequence[Any]]


def note(text: str) -> None:
    """Tell the user something that is not the result."""
    typer.echo(text, err=True)


def print_json(value: Any) -> None:
    """Print the result for machines; what does not exist (NaN) is null."""
    typer.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Rows) -> None:
    """Print a table; columns of numbers stand to the right. Without names there is no head."""
    # A terminal may be narrow: there, names break between their words.
    heads = [name.split("_") if sys.stdout.isatty() else [name] for name in columns]
    widths = _widths(heads, rows)
    table = Table(box=None, show_header=any(columns), pad_edge=False, padding=(0, _GAP, 0, 0))
    for position, (head, width) in enumerate(zip(heads, widths, strict=True)):
        numbers = not any(isinstance(row[position], str) and row[position] for row in rows)
        table.add_column(
            textwrap.fill(" ".join(head), max(width, 1)),
            justify="right" if numbers else "left",
            no_wrap=width <= _WHOLE,
        )
    for row in rows:
        table.add_row(*(Text(show(value)) for value in row))
    console = Console(width=max(_terminal_width(), _least_width(widths)))
    console.print(Text(title, style="bold"))
    console.print(table)


def print_pairs(title: str, pairs: Mapping[str, Any], across: int = 1) -> None:
    """Print names and values to be read downwards, up to `across` side by side if they fit."""
    cells = [*pairs.items()]
    height = -(-len(cells) // across)
    padded = cells + [("", "")] * (height * across - len(cells))
    rows = [sum(padded[start::height], ()) for start in range(height)]
    names = ("",) * (2 * across)
    if across > 1 and _least_width(_widths([names] * len(names), rows)) > _terminal_width():
        print_pairs(title, pairs, across - 1)
    else:
        print_table(title, names, rows)


def show(value: Any) -> str:
    """Return a value for people: four digits, thousands set apart, "-" for what does not exist."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isinf(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1e3 or value == int(value) else f"{value:.4g}"


def _terminal_width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNLIMITED


def _widths(heads: Sequence[Sequence[str]], rows: Rows) -> list[int]:
    """Return the width of the longest value, or word of the head, in each column."""
    return [
        max(len(show(text)) for text in (*head, *(row[position] for row in rows)))
        for position, head in enumerate(heads)
    ]


def _least_width(widths: Sequence[int]) -> int:
    """Return the width of a table in which only long values are broken."""
    return sum(min(width, _WHOLE) for width in widths) + _GAP * (len(widths) - 1)


def _plain(value: Any) -> Any:
    """Return what JSON can hold: no NaN, no NumPy scalars, no paths."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int | str | None) else str(value)
