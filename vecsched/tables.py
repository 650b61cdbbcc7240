"""Tables of a cost model: points (n, seconds) in, exact picoseconds out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from vecsched._numbers import is_number
from vecsched.clock import HORIZON_PS, HORIZON_S, PS_PER_S, is_duration, to_ps
from vecsched.errors import CostError, did_you_mean
from vecsched.mixed_attention import NO_GRID, AttentionGrid, MixedAttention

Points = tuple[tuple[int, float], ...]

_LARGEST_N = 2**31 - 1
_LARGEST_S = HORIZON_S / 2  # so that the step between two points fits


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
    attention: AttentionGrid
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
        if not is_number(n) or not least <= n <= _LARGEST_N or n % 1:
            raise CostError(f"{name}: n must be whole numbers in ascending order, not {n!r}")
        # Negative ones too: a table may hold what one kind of token costs more than another.
        if not is_number(seconds) or not abs(seconds) <= _LARGEST_S:
            raise CostError(f"{name}: {point!r} is not a point [n, seconds]")
        points.append((int(n), float(seconds)))
    return tuple(points)


def tabulate(
    decode: Terms,
    mixed: Terms,
    attention: MixedAttention | None,
    factors_ps: Sequence[int],
    sizes: tuple[int, int],
) -> CostTables:
    """Expand the terms of both kinds of iteration to tables.

    Args:
        decode: terms of iterations that hold decodes only.
        mixed: terms of iterations that hold a prefill.
        attention: measured attention of iterations that hold a prefill, or None.
        factors_ps: of prefill attention, of prefill context, of chunk times decodes.
        sizes: the most tokens, and the most requests, of an iteration.

    Raises:
        CostError: an iteration of some size would take negative time, or leave the clock.
    """
    tokens, batch = sizes
    prefill_attention_ps, prefill_context_ps, chunk_decode_ps = factors_ps
    decode_fixed_ps, fixed_ps = int(to_ps(decode.fixed_s)), int(to_ps(mixed.fixed_s))
    # In a pure decode, tokens, sequences and decodes are one number, so three tables become one.
    pure = [
        expand(points, batch) for points in (decode.token_s, decode.sequence_s, decode.decode_s)
    ]
    beside = (
        expand(mixed.token_s, tokens),
        expand(mixed.sequence_s, batch),
        expand(mixed.decode_s, batch),
    )
    _check_range(decode_fixed_ps, pure)
    _check_range(fixed_ps, beside)
    decode_ps = decode_fixed_ps + np.sum(pure, axis=0)
    contexts = expand(decode.context_s, batch), expand(mixed.context_s, batch)
    tables = CostTables(
        decode_ps=decode_ps,
        decode_context_ps=contexts[0],
        fixed_ps=fixed_ps,
        token_ps=beside[0],
        sequence_ps=beside[1],
        mixed_decode_ps=beside[2],
        mixed_context_ps=contexts[1],
        prefill_attention_ps=prefill_attention_ps,
        prefill_context_ps=prefill_context_ps,
        chunk_decode_ps=chunk_decode_ps,
        attention=NO_GRID if attention is None else attention.grid(),
        longest_decode_ps=int(decode_ps.max()),
        longest_mixed_ps=fixed_ps + sum(int(table.max()) for table in beside),
        longest_context_ps=max(int(table.max()) for table in contexts),
    )
    _check_not_negative(tables)
    return tables


def expand(points: Points, largest: int) -> np.ndarray:
    """Tabulate points at 0..largest, in int64 picoseconds.

    Linear between the points and, with the slope of the last piece, beyond them, rounded to the
    nearest picosecond, halves upwards: whole-number arithmetic, exact everywhere. The value at 0 is
    0 unless given; a lone point at 0 is a constant.

    Raises:
        CostError: a value would leave the clock.
    """
    if not points:
        return np.zeros(largest + 1, np.int64)
    given = list(points) if points[0][0] == 0 else [(0, 0.0), *points]
    if len(given) == 1:
        given.append((1, given[0][1]))
    at = np.array([n for n, _ in given], np.int64)
    value = to_ps(np.array([seconds for _, seconds in given]))
    n = np.arange(largest + 1, dtype=np.int64)
    left = np.clip(np.searchsorted(at, n, side="right") - 1, 0, len(at) - 2)
    width, rise = np.diff(at)[left], np.diff(value)[left]
    if int(np.abs(rise).max()) * (largest + int(width.max())) >= HORIZON_PS:
        raise CostError(
            f"a table's step of {np.abs(rise).max() / PS_PER_S} s leaves the clock's range"
        )
    return value[left] + (2 * rise * (n - at[left]) + width) // (2 * width)


def _check_range(fixed_ps: int, tables: Sequence[np.ndarray]) -> None:
    """Make sure that one entry of each table and `fixed_ps` add up without overflow."""
    longest_ps = fixed_ps + sum(int(np.abs(table).max()) for table in tables)
    if longest_ps >= HORIZON_PS:
        raise CostError(
            f"an iteration could take {longest_ps / PS_PER_S:.3g} s; the clock holds "
            f"{HORIZON_S:.3g} s"
        )


def _check_not_negative(tables: CostTables) -> None:
    """Make sure that no iteration takes negative time, whatever its tokens and sequences."""
    # A mixed iteration of n decodes has at least n tokens and n sequences.
    n = np.arange(len(tables.mixed_decode_ps))
    fewest = tables.fixed_ps + tables.mixed_decode_ps
    for table in (tables.token_ps, tables.sequence_ps):
        fewest = fewest + np.minimum.accumulate(table[::-1])[::-1][n]
    columns = {
        "an iteration of {} decodes": tables.decode_ps,
        "a prefill beside {} decodes": fewest,
        "a KV token read by one of {} decodes": tables.decode_context_ps,
        "a KV token read by one of {} decodes beside a prefill": tables.mixed_context_ps,
    }
    for what, column in columns.items():
        if (column < 0).any():
            size = int(np.argmax(column < 0))
            raise CostError(f"{what.format(size)} would take negative time: {column[size]} ps")
