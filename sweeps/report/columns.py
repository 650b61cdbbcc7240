"""Tables as compact JSON, column by column, for scripts in the page."""

import math
from collections.abc import Collection
from typing import Any

import pyarrow as pa

DIGITS = 6  # significant digits of numbers that need not be exact


def packed(table: pa.Table, exact: Collection[str]) -> dict[str, Any]:
    """Return a table's columns for JSON.

    Args:
        table: the rows.
        exact: columns whose numbers are kept to the last bit; the others are rounded to `DIGITS`
            significant digits. Whole numbers are always exact.

    Returns:
        `constants`, the value of each column that has only one; `columns`, of each other column the
        list of its values, or for texts `levels` in order of appearance and `codes`, the position
        of each row's text among them. What does not exist is null, its code -1.
    """
    constants: dict[str, Any] = {}
    columns: dict[str, Any] = {}
    for name in table.column_names:
        values = [_plain(value) for value in table[name].to_pylist()]
        if name not in exact:
            values = [rounded(value) for value in values]
        distinct = dict.fromkeys(values)
        if len(distinct) == 1:
            constants[name] = values[0]
        elif pa.types.is_string(table.schema.field(name).type):
            levels = [level for level in distinct if level is not None]
            place = {level: position for position, level in enumerate(levels)} | {None: -1}
            columns[name] = {"levels": levels, "codes": [place[value] for value in values]}
        else:
            columns[name] = values
    return {"constants": constants, "columns": columns}


def rounded(value: Any) -> Any:
    """Return a float with `DIGITS` significant digits, as a whole number where it is one."""
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 10**DIGITS else short


def _plain(value: Any) -> Any:
    """Return what JSON can hold: no NaN, and infinity as the text that scripts know it by."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else math.copysign(1e308, value)
    return value
