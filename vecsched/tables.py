"""Tables of a cost model: points (n, seconds) in, exact picoseconds out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from vecsched.clock import HORIZON_S, is_duration, to_ps
from vecsched.errors import CostError, did_you_mean

Points = tuple[tuple[int, float], ...]

_LARGEST_N = 2**31 - 1


class CostTables(NamedTuple):
    """What the kernels read: int64 picoseconds.

    `decode_ps[n]` holds everything of a pure decode iteration of n requests but its context term.
    The last three are the largest entries, for bounds: of `decode_ps`, of the sum of the mixed
    tables, and of the context tables.
    """

    decode_ps: np.ndarray
    decode_context_ps: np.ndarray
    fixed_ps: int
    token_ps: np.ndarray
    sequence_ps: np.ndarray
    mixed_decode_ps: np.ndarray
    mixed_context_ps: np.ndarray
    prefill_attention_ps: int
    prefill_context_ps: int
    chunk_decode_ps: int
    longest_decode_ps: int
    longest_mixed_ps: int
    longest_context_ps: int


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of one kind of iteration; a table is points (n, seconds), n ascending.

    Attributes:
        fixed_s: seconds of every iteration.
        token_s: seconds by scheduled tokens.
        sequence_s: seconds by requests that have a token scheduled.
        decode_s: seconds by decodes.
        context_s: seconds per KV token that the decodes read, by decodes.

    Raises:
        CostError: a figure is no number, out of the clock's range, or its n out of order.
    """

    fixed_s: float = 0.0
    token_s: Points = ()
    sequence_s: Points = ()
    decode_s: Points = ()
    context_s: Points = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "fixed_s", checked_seconds("fixed_s", self.fixed_s))
        for name in ("token_s", "sequence_s", "decode_s", "context_s"):
            object.__setattr__(self, name, _checked_points(name, getattr(self, name)))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str) -> Self:
        """Build from a file's mapping; `where` names the place in errors."""
        known = list(cls.__dataclass_fields__)
        for name in values:
            if name not in known:
                raise CostError(f"{where}: unknown term {name!r}; {did_you_mean(name, known)}")
        try:
            return cls(**values)
        except CostError as error:
            raise CostError(f"{where}.{error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as plain values; tables without points are left out."""
        tables = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fixed_s = tables.pop("fixed_s")
        given = {name: [list(point) for point in table] for name, table in tables.items() if table}
        return {"fixed_s": fixed_s, **given}


def checked_seconds(name: str, value: Any) -> float:
    """Return a duration in seconds as a float.

    Raises:
        CostError: it is no number, negative, beyond the clock, or too small for it.
    """
    if not is_duration(value):
        raise CostError(
            f"{name} must be a number of seconds from 0 to {HORIZON_S:.0f}, not {value!r}"
        )
    if value > 0 and to_ps(value) == 0:
        raise CostError(f"{name} = {value!r} s is below the clock's picosecond")
    return float(value)


def _checked_points(name: str, values: Any) -> Points:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise CostError(f"{name} must be a list of points [n, seconds], not {values!r}")
    points: list[tuple[int, float]] = []
    for point in values:
        if not isinstance(point, Sequence) or isinstance(point, str) or len(point) != 2:
            raise CostError(f"{name}: {point!r} is not a point [n, seconds]")
        n, seconds = point
        least = points[-1][0] + 1 if points else 0
        # A difference of two durations may stand in a table, so points may be negative.
        if not is_duration(seconds) and not is_duration(_negated(seconds)):
            raise CostError(f"{name}: {point!r} is not a point [n, seconds]")
        if not is_duration(n) or not least <= n <= _LARGEST_N or n % 1:
            raise CostError(f"{name}: n must be whole numbers in ascending order, not {n!r}")
        points.append((int(n), float(seconds)))
    return tuple(points)
