"""What the parts of a sweep file are made of: common types, and errors that name the place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.functional_validators import BeforeValidator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from vecsched import SchedulerConfig, aliases
from vecsched.aliases import Alias
from vecsched.errors import ConfigError, did_you_mean

CONFIG_FIELDS = tuple(SchedulerConfig.__dataclass_fields__)
# What may stand in a file: fields, and vLLM's names for some, which become ours before all else.
SETTING_NAMES = (*CONFIG_FIELDS, *aliases.ALIASES)


def problem(text: str, at: str = "", **value: Any) -> PydanticCustomError:
    """Return an error to raise in a validator.

    Args:
        text: what is wrong.
        at: key path below the section under validation, where the problem is further down.
        value: `value=...`, what stands there.
    """
    return PydanticCustomError("sweep", "{text}", {"text": text, "at": at, **value})


@dataclass(frozen=True)
class OneOf:
    """A text must be one of some names; `kind` is what errors call it."""

    known: tuple[str, ...]
    kind: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Check the text after pydantic has."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        """List the names, for editors to offer them."""
        return {**handler(schema), "enum": [*self.known]}

    def _check(self, name: str) -> str:
        if name not in self.known:
            raise problem(f"no such {self.kind}; {did_you_mean(name, self.known)}")
        return name


class Listed:
    """A list, of which a single item may stand without it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Put a single item in a list before pydantic looks at it."""
        return core_schema.no_info_before_validator_function(
            lambda value: value if isinstance(value, list) else [value], handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        """Tell editors of both forms."""
        whole = handler(schema)
        return {"anyOf": [whole["items"], whole]}


def check_distinct(values: Sequence[Any]) -> None:
    """Check that no value stands twice.

    Raises:
        PydanticCustomError: naming the second place.
    """
    for position, value in enumerate(values):
        if value in values[:position]:
            raise problem("is listed twice", at=f"[{position}]", value=value)


def _plain(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str | None):
        raise problem("must be a number, a text, true, false or null")
    return value


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
Value = Annotated[bool | int | float | str | None, BeforeValidator(_plain)]


def in_our_names(given: Any, ours: Callable[[Alias, Any], Any]) -> Any:
    """Return settings or axes with vLLM's names and values turned into ours; see the engine's."""
    try:
        return aliases.in_our_names(given, ours) if isinstance(given, Mapping) else given
    except ConfigError as error:
        raise problem(str(error)) from None


Settings = Annotated[
    dict[Annotated[str, OneOf(SETTING_NAMES, "field")], Value],
    BeforeValidator(lambda given: in_our_names(given, Alias.ours)),
]


class Section(BaseModel):
    """A mapping of the file: unknown keys are errors that name the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    # JSON schema of what may stand in the mapping's place, if anything.
    short_form: ClassVar[dict[str, Any] | None] = None

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, values: Any) -> Any:
        known = cls.known_keys()
        for key in values if isinstance(values, Mapping) else ():
            if key not in known:
                hint = did_you_mean(str(key), known)
                raise problem(f"no such key; {hint}", at=str(key), value=values[key])
        return values

    @classmethod
    def known_keys(cls) -> list[str]:
        """Return the keys that it may have, as they stand in the file."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        """Tell editors of the short form, too."""
        whole = handler(schema)
        return whole if cls.short_form is None else {"anyOf": [cls.short_form, whole]}


def exactly_one(section: Section, names: tuple[str, ...]) -> None:
    """Check that one of some keys is given.

    Raises:
        PydanticCustomError: none is, or several.
    """
    if sum(getattr(section, name) is not None for name in names) != 1:
        raise problem(f"exactly one of {', '.join(names)} must be given")
