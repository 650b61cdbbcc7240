"""Options made of the fields of dataclasses, so that a new field needs no second edit here.

Fields that vLLM calls otherwise have an option under its name, too.
"""

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from vecsched.aliases import ALIASES

Function = Callable[..., None]


def with_fields(**dataclasses: type) -> Callable[[Function], Function]:
    """Decorate a command's function: each field of some dataclasses becomes an option.

    Args:
        dataclasses: by the name of the function's argument that receives the values given on the
            command line, as a dictionary; it is also their heading in the help.
    """
    options = {name: _options(cls, name.capitalize()) for name, cls in dataclasses.items()}

    def decorate(function: Function) -> Function:
        @wraps(function)
        def command(**arguments: Any) -> None:
            for argument, names in options.items():
                values = {name: arguments.pop(name) for name in names}
                given = {name: value for name, value in values.items() if value is not None}
                arguments[argument] = given
            function(**arguments)

        parameters = {
            name: parameter
            for name, parameter in inspect.signature(function).parameters.items()
            if name not in dataclasses
        }
        for own in options.values():
            parameters |= own
        # Typer reads a function's signature and its annotations.
        command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        command.__annotations__ = {name: each.annotation for name, each in parameters.items()}
        return command

    return decorate


def field_texts(cls: type) -> dict[str, str]:
    """Return what the "Attributes" of a dataclass's docstring say about each field."""
    _, _, section = (inspect.getdoc(cls) or "").partition("Attributes:\n")
    section = re.split(r"\n\S", section)[0]  # up to the next section
    entries = re.findall(r"^    (\w[\w, ]*): (.+(?:\n {5,}.+)*)", section, re.MULTILINE)
    return {
        name: " ".join(text.replace("`", "").split())
        for names, text in entries
        for name in names.split(", ")
    }


def _options(cls: type, heading: str) -> dict[str, inspect.Parameter]:
    """Return the fields as keyword parameters, None unless given, written as Typer wants them."""
    types, texts = get_type_hints(cls), field_texts(cls)
    options = {}
    for name, field in inspect.signature(cls).parameters.items():
        default = "" if field.default is None else f" Default: {field.default}."
        options[name] = _option(name, types[name], texts.get(name, "") + default, heading)
    for name, alias in ALIASES.items():
        if alias.field in options:
            more = f", plus {alias.surplus}" if alias.surplus else ""
            text = f"vLLM's name for --{alias.field.replace('_', '-')}{more}."
            options[name] = _option(name, types[alias.field], text, heading)
    return options


def _option(name: str, kind: Any, text: str, heading: str) -> inspect.Parameter:
    option = typer.Option(help=text, rich_help_panel=heading)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )
