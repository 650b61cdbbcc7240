"""Where output goes: results to stdout, everything else to stderr, so a pipe sees results only."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Off a terminal a table is as wide as it needs to be, so that a row stays on its line.
_UNLIMITED = 10_000


def note(text: str) -> None:
    """Tell the user something that is not the result."""
    typer.echo(text, err=True)


def print_json(value: Any) -> None:
    """Print the result for machines; what does not exist (NaN) is null."""
    typer.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; columns of numbers stand to the right. A column without a name has no head."""
    table = Table(box=None, show_header=any(columns), pad_edge=False, padding=(0, 2, 0, 0))
    for position, name in enumerate(columns):
        numbers = all(not isinstance(row[position], str) for row in rows)
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(show(value)) for value in row))
    console = Console(width=None if sys.stdout.isatty() else _UNLIMITED)
    console.print(Text(title, style="bold"))
    console.print(table)


def print_pairs(title: str, pairs: Mapping[str, Any], across: int = 1) -> None:
    """Print names and values, `across` of them side by side, to be read downwards."""
    cells = [*pairs.items()]
    height = -(-len(cells) // across)
    cells += [("", "")] * (height * across - len(cells))
    rows = [sum(cells[start::height], ()) for start in range(height)]
    print_table(title, ("",) * (2 * across), rows)


def show(value: Any) -> str:
    """Return a value for people: four digits, thousands set apart, "-" for what does not exist."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isinf(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1e3 or value == int(value) else f"{value:.4g}"


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
