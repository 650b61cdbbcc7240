"""Parameters of synthetic workloads: from a file's mapping to a checked dataclass."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

import numpy as np

from vecsched.errors import ConfigError, did_you_mean

T = TypeVar("T")


def construct(cls: type[T], values: Mapping[str, Any], what: str) -> T:
    """Make a dataclass of a mapping, or say which name is unknown or missing.

    Raises:
        ConfigError: naming `what`, the parameter and the nearest known one.
    """
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            hint = did_you_mean(str(name), known) if known else "it has none"
            raise ConfigError(f"{what}: unknown parameter {name!r}; {hint}")
    for name, field in known.items():
        required = field.default is MISSING and field.default_factory is MISSING
        if required and name not in values:
            raise ConfigError(f"{what}: parameter {name!r} is missing")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{what}: {error}") from None


def choose(table: Mapping[str, type[T]], values: Any, key: str, what: str) -> T:
    """Make the row of a table that a mapping names under `key`, with the rest as parameters.

    Args:
        table: name to dataclass.
        values: {key: name, parameter: value, ...}; the name alone where there are no parameters;
            or an object made already.
        key: "process", for instance.
        what: for messages, "arrivals", for instance.

    Raises:
        ConfigError: the name is missing or unknown, or a parameter is wrong.
    """
    if type(values) in table.values():
        return values
    parameters = {key: values} if isinstance(values, str) else values
    if not isinstance(parameters, Mapping):
        raise ConfigError(f"{what} must be a {key} with its parameters, not {values!r}")
    name = str(parameters.get(key))
    if name not in table:
        raise ConfigError(f"{what}: unknown {key} {name!r}; {did_you_mean(name, table)}")
    rest = {parameter: value for parameter, value in parameters.items() if parameter != key}
    return construct(table[name], rest, f"{what}, {name}")


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number, which True and False are not."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and math.isfinite(value)


def check_positive(name: str, value: Any, *, or_zero: bool = False) -> None:
    """Raise ConfigError unless the value is a finite number above zero (or zero)."""
    if not is_number(value) or value < 0 or (value == 0 and not or_zero):
        raise ConfigError(f"{name} must be a number {'>= 0' if or_zero else '> 0'}, not {value!r}")


def check_within(name: str, value: Any, least: float, most: float) -> None:
    """Raise ConfigError unless the value is a number from `least` to `most`."""
    if not is_number(value) or not least <= value <= most:
        raise ConfigError(f"{name} must be a number from {least:g} to {most:g}, not {value!r}")


def check_whole(name: str, value: Any, *, least: int) -> None:
    """Raise ConfigError unless the value is a whole number from `least` up."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, not {value!r}")
