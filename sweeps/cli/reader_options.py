"""Options of trace readers on the command line: `--option name=value`."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import yaml

Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-O",
        metavar="NAME=VALUE",
        help="For the reader, once for each: time_unit=ms, columns.arrival_s=when, "
        "window_s=[0,3600]; `vecsched trace formats` lists them.",
    ),
]


def parse_options(options: Sequence[str]) -> dict[str, Any]:
    """Return what `read_trace` takes as keyword arguments.

    Args:
        options: NAME=VALUE each. Dots in a name make a mapping: `columns.tenant=user` is
            `columns={tenant: user}`. A value is JSON or YAML.

    Raises:
        typer.BadParameter: one is of another form, or a name stands for a value and a mapping.
    """
    parsed: dict[str, Any] = {}
    for option in options:
        path, equals, text = option.partition("=")
        if not equals or not path:
            raise typer.BadParameter(f"{option!r} is not NAME=VALUE", param_hint="--option")
        *outer, name = path.split(".")
        inner = parsed
        for key in outer:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise typer.BadParameter(f"{key!r} has a value already", param_hint="--option")
        inner[name] = _value(text, option)
    return parsed


def _value(text: str, option: str) -> Any:
    try:
        return json.loads(text)  # first, as YAML takes 1e3 for a text
    except ValueError:
        pass
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise typer.BadParameter(
            f"the value of {option!r} is neither JSON nor YAML", param_hint="--option"
        ) from None
