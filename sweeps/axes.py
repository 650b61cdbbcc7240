"""An axis of a sweep: the values that one field takes, and where the field exists at all."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from sweeps.expression import Expression, ExpressionError
from sweeps.schema import (
    CONFIG_FIELDS,
    SETTING_NAMES,
    OneOf,
    Section,
    Text,
    Value,
    check_distinct,
    in_our_names,
    problem,
)
from vecsched.aliases import Alias

# Axes that are no field of a configuration: they change the trace.
TRACE_AXES = ("load", "seed")
# What a condition may speak of: the configuration, and the two names that its rows carry.
CONDITION_NAMES = (*CONFIG_FIELDS, "variant", "cost")


class Axis(Section):
    """Values of one field: a list, or a range from one number to another.

    A bare list in a file is `values`. A range of whole numbers takes whole numbers only.

    Attributes:
        values: the values, in order.
        start, stop: ends of a range, both included (`from` and `to` in a file).
        steps: take so many values of the range, evenly spaced; without it, the range is a
            continuum, for designs that sample.
        scale: "linear", or "log" for spacing by equal factors.
        when: a condition on the configuration so far; where it does not hold, the axis does not
            exist and the field keeps the value it has.
    """

    short_form: ClassVar[dict[str, Any] | None] = {"type": "array", "minItems": 1}
    values: Annotated[list[Value], Field(min_length=1)] | None = None
    start: Annotated[int | float | None, Field(alias="from")] = None
    stop: Annotated[int | float | None, Field(alias="to")] = None
    steps: Annotated[int, Field(ge=2)] | None = None
    scale: Annotated[str, Field(pattern="^(linear|log)$")] = "linear"
    when: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, given: Any) -> Any:
        if isinstance(given, list):
            return {"values": given}
        if not isinstance(given, Mapping):
            raise problem("must be a list of values, or a mapping such as {from: 1, to: 64}")
        return given

    @model_validator(mode="after")
    def _list_or_range(self) -> Self:
        ends = (self.start, self.stop)
        if (self.values is None) == (ends == (None, None)):
            raise problem("either values, or from and to, must be given")
        if self.values is not None:
            for name in {"steps", "scale"} & self.model_fields_set:
                raise problem("goes with a range only", at=name, value=getattr(self, name))
            check_distinct(self.values)
        elif None in ends or not self.start < self.stop:  # type: ignore[operator]
            raise problem("from must be less than to, and both are needed", value=ends)
        elif not all(map(math.isfinite, ends)) or (self.scale == "log" and self.start <= 0):  # type: ignore[arg-type,operator]
            raise problem("a range must be finite, and on a log scale start above 0", value=ends)
        return self

    @property
    def condition(self) -> Expression | None:
        """The parsed `when`.

        Raises:
            ExpressionError: it cannot be understood.
        """
        return None if self.when is None else Expression(self.when, CONDITION_NAMES)

    @property
    def whole(self) -> bool:
        """Whether a range takes whole numbers only."""
        return isinstance(self.start, int) and isinstance(self.stop, int)

    @property
    def listed(self) -> list[Any] | None:
        """The values in order, without those that rounding makes equal; None for a continuum."""
        if self.values is not None:
            return self.values
        if self.steps is None:
            return None
        return [*dict.fromkeys(self._along(n / (self.steps - 1)) for n in range(self.steps))]

    def at(self, share: float) -> Any:
        """Return the value at a share, 0 <= share < 1, of the axis; all of them are equally likely.

        On a log scale equal factors are.
        """
        listed = self.listed
        if listed is not None:
            return listed[int(share * len(listed))]
        if not self.whole:
            return self._along(share)
        # A whole number owns half a step on each side, so that both ends get their due.
        low, high = self.start - 0.5, self.stop + 0.5  # type: ignore[operator]
        return min(max(round(_between(low, high, share, self.scale)), self.start), self.stop)  # type: ignore[type-var]

    def _along(self, share: float) -> int | float:
        value = _between(self.start, self.stop, share, self.scale)  # type: ignore[arg-type]
        return round(value) if self.whole else value


def _in_our_values(alias: Alias, axis: Any) -> Any:
    """Turn every value of one of vLLM's fields into ours, however the axis is written."""
    if isinstance(axis, list):
        return [alias.ours(value) for value in axis]
    if isinstance(axis, Mapping):
        values = {key: axis[key] for key in ("values", "from", "to") if key in axis}
        return {**axis, **{key: _in_our_values(alias, value) for key, value in values.items()}}
    return alias.ours(axis)


Axes = Annotated[
    dict[Annotated[str, OneOf((*SETTING_NAMES, *TRACE_AXES), "axis")], Axis],
    BeforeValidator(lambda given: in_our_names(given, _in_our_values)),
]


def _between(low: float, high: float, share: float, scale: str) -> float:
    if share in (0, 1):  # exactly, where powers would round
        return high if share else low
    if scale == "log":
        return low * (high / low) ** share
    return low + share * (high - low)


def check_conditions(axes: Mapping[str, Axis]) -> None:
    """Check every `when`: it must not speak of its own axis or one further down.

    Raises:
        PydanticCustomError: naming the axis.
    """
    fields = list(axes)
    for position, (field, axis) in enumerate(axes.items()):
        known = [name for name in CONDITION_NAMES if name not in fields[position:]]
        try:
            if axis.when is not None:
                Expression(axis.when, known)
        except ExpressionError as error:
            raise problem(str(error), at=f"axes.{field}.when", value=axis.when) from None


def check_traffic(axes: Mapping[str, Axis]) -> None:
    """Check the values of load and seed.

    Raises:
        PydanticCustomError: naming axis and value.
    """
    for name in TRACE_AXES:
        if name in axes and (axes[name].listed is None or axes[name].when is not None):
            raise problem("must be values, or a range with steps, everywhere", at=f"axes.{name}")
    for position, load in enumerate(axes["load"].listed or () if "load" in axes else ()):
        if isinstance(load, bool) or not isinstance(load, int | float) or not 0 < load < math.inf:
            at = f"axes.load[{position}]"
            raise problem("a load factor must be a positive number", at=at, value=load)
    for position, seed in enumerate(axes["seed"].listed or () if "seed" in axes else ()):
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            at = f"axes.seed[{position}]"
            raise problem("a seed must be a whole number >= 0", at=at, value=seed)
