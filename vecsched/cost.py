"""CostModel: how long one iteration takes, as additive tables in integer picoseconds.

An iteration of decodes only lasts ::

    fixed + token[n_tokens] + sequence[n_sequences] + decode[n_decode]
          + context[n_decode] * decode_context_tokens

where `decode_context_tokens` counts the KV tokens its decodes read, each one's own included: a
decode that makes output token number o + 1 behind a prompt of p tokens reads p + o. An iteration
with a prefill has tables of its own for the same terms, plus ::

    prefill_attention * sum(chunk * (2 * context_before + chunk))
    prefill_context   * sum(context_before)
    chunk_decode      * sum(chunk) * n_decode

Every table is indexed by a whole number known at the boundary, so every duration is an exact
integer. A table is given by points (n, seconds) and is linear between them and, with the slope of
its last piece, beyond them; its value at 0 is 0 unless given. Between measured batch sizes
interpolation is linear in n, not in log n: decode attention is linear in n.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np

from vecsched.clock import HORIZON_PS, PS_PER_S, fits, to_ps
from vecsched.errors import CostError, did_you_mean

FORMAT = "vecsched-cost/1"

Points = tuple[tuple[int, float], ...]


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
    """The terms of one kind of iteration; tables are points (n, seconds)."""

    fixed_s: float = 0.0
    token_s: Points = ()
    sequence_s: Points = ()
    decode_s: Points = ()
    context_s: Points = ()

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str) -> Self:
        """Build from a file's mapping; `where` names the place in errors."""
        known = list(cls.__dataclass_fields__)
        for name in values:
            if name not in known:
                raise CostError(f"{where}: unknown term {name!r}; {did_you_mean(name, known)}")
        tables = {n: _points(v, f"{where}.{n}") for n, v in values.items() if n != "fixed_s"}
        return cls(fixed_s=_seconds(values.get("fixed_s", 0.0), f"{where}.fixed_s"), **tables)


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Duration of an iteration; see the module's docstring for the formula.

    Attributes:
        decode: terms of iterations that hold decodes only.
        mixed: terms of iterations that hold a prefill.
        prefill_attention_s: seconds per chunk * (2 * context_before + chunk).
        prefill_context_s: seconds per KV token ahead of a prefill chunk.
        chunk_decode_s: seconds per prefill token and decode in the same iteration.
        name, source, licence: where the figures come from.
        error: how far the model is from its measurements, as its calibration printed it.

    Raises:
        CostError: a figure is negative, not finite, or finer than the picosecond clock.
    """

    decode: Terms
    mixed: Terms
    prefill_attention_s: float = 0.0
    prefill_context_s: float = 0.0
    chunk_decode_s: float = 0.0
    name: str = "custom"
    source: str = ""
    licence: str = ""
    error: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in ("prefill_attention_s", "prefill_context_s", "chunk_decode_s"):
            _seconds(getattr(self, name), name)
        object.__setattr__(self, "_expanded", {})

    @classmethod
    def affine(
        cls,
        fixed_s: float,
        per_prefill_token_s: float,
        per_decode_s: float,
        per_context_token_s: float,
        per_prefill_attention_s: float = 0.0,
    ) -> Self:
        """A cost that is linear in prefill tokens, decodes and the context the decodes read.

        Every iteration costs `fixed_s`; the units of the others are seconds per prefill token, per
        decode, per KV token read by a decode, and per chunk * (2 * context_before + chunk).
        """
        token = _seconds(per_prefill_token_s, "per_prefill_token_s")
        decode = _seconds(per_decode_s, "per_decode_s")
        context = _line(_seconds(per_context_token_s, "per_context_token_s"))
        fixed = _seconds(fixed_s, "fixed_s")
        flat = ((0, context[1][1]), (1, context[1][1]))
        return cls(
            decode=Terms(fixed_s=fixed, decode_s=_line(decode), context_s=flat),
            # The mixed token table counts decodes too; what they cost more or less is added here.
            mixed=Terms(
                fixed_s=fixed,
                token_s=_line(token),
                decode_s=_line(decode - token),
                context_s=flat,
            ),
            prefill_attention_s=_seconds(per_prefill_attention_s, "per_prefill_attention_s"),
            name="affine",
        )

    @classmethod
    def unit(cls) -> Self:
        """Every iteration lasts one second: times are iteration numbers."""
        return cls(decode=Terms(fixed_s=1.0), mixed=Terms(fixed_s=1.0), name="unit")

    @classmethod
    def tabulated(
        cls,
        decode: Mapping[str, Any],
        mixed: Mapping[str, Any] | None = None,
        *,
        prefill_attention_s: float = 0.0,
        prefill_context_s: float = 0.0,
        chunk_decode_s: float = 0.0,
        name: str = "tabulated",
    ) -> Self:
        """A cost from measured tables.

        Args:
            decode, mixed: `fixed_s` in seconds and any of `token_s`, `sequence_s`, `decode_s`,
                `context_s`, each a sequence of points (n, seconds). `mixed` is as `decode` if None.
            prefill_attention_s, prefill_context_s, chunk_decode_s: as in the class's docstring.
            name: what results call the model.
        """
        return cls(
            decode=Terms.from_mapping(decode, "decode"),
            mixed=Terms.from_mapping(decode if mixed is None else mixed, "mixed"),
            prefill_attention_s=prefill_attention_s,
            prefill_context_s=prefill_context_s,
            chunk_decode_s=chunk_decode_s,
            name=name,
        )

    @classmethod
    def preset(cls, name: str) -> Self:
        """Load a cost model that ships with vecsched, fitted by `sweeps.calibrate`.

        | name | model and GPU | source | error |
        |---|---|---|---|
        | `llama3-8b-a100` | Llama-3-8B, bf16, one A100-80G | Vidur | mean 1.1 %, max 6 % |
        | `llama3-8b-h100` | Llama-3.1-8B, bf16, one H100 | aiconfigurator | mean 0.8 %, max 7 % |

        Vidur (commit 7d47513, MIT) predicts iteration times from its profiles: they are no
        measurement. Two of its 231 rows, decodes cut off at the end of its attention table, lie
        28 % and 56 % off. aiconfigurator (commit 095f58a, Apache-2.0) measures the kernels of vLLM
        0.19; the error is against their sum, and nothing was measured of mixed attention. The same
        kernels, put together for a run of Qwen3-32B on two H100, give a TPOT 2.8 % below the real
        one. The models' `error` holds mean, median and maximum by kind of iteration, held-out
        iterations too.

        Raises:
            CostError: there is no such preset.
        """
        presets = {
            path.name.removesuffix(".json"): path
            for path in resources.files("vecsched").joinpath("presets").iterdir()
            if path.name.endswith(".json")
        }
        if name not in presets:
            raise CostError(f"unknown preset {name!r}; {did_you_mean(name, sorted(presets))}")
        return cls.from_mapping(json.loads(presets[name].read_text("utf-8")), f"preset {name}")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a cost model from a JSON file written by `save` or `vecsched calibrate`.

        Raises:
            CostError: the file is missing, is no JSON, or lacks or misspells a field.
        """
        try:
            with open(path, encoding="utf-8") as file:
                values = json.load(file)
        except (OSError, ValueError) as error:
            raise CostError(f"{path}: cannot be read as a cost model: {error}") from None
        return cls.from_mapping(values, str(path))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str = "cost model") -> Self:
        """Build from the mapping that `to_dict` returns; `where` names the place in errors."""
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            raise CostError(f"{where}: not a cost model of format {FORMAT!r}")
        known = ["format", *cls.__dataclass_fields__]
        for name in values:
            if name not in known:
                raise CostError(f"{where}: unknown field {name!r}; {did_you_mean(name, known)}")
        fields = {name: value for name, value in values.items() if name != "format"}
        for kind in ("decode", "mixed"):
            if not isinstance(fields.get(kind), Mapping):
                raise CostError(f"{where}: {kind!r} must be a mapping of terms")
            fields[kind] = Terms.from_mapping(fields[kind], f"{where}: {kind}")
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain values, ready for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for kind in ("decode", "mixed"):
            terms = getattr(self, kind)
            plain[kind] = {
                name: value if name == "fixed_s" else [list(point) for point in value]
                for name, value in ((n, getattr(terms, n)) for n in terms.__dataclass_fields__)
                if name == "fixed_s" or value
            }
        return {"format": FORMAT, **plain, "error": dict(self.error)}

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as JSON."""
        text = json.dumps(self.to_dict(), indent=1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")

    def tables(self, max_tokens: int, max_batch_size: int) -> CostTables:
        """Expand to int64 picosecond tables up to the largest iteration (kept for the next call).

        Raises:
            CostError: an iteration of some size would take negative time.
        """
        sizes = (max(max_tokens, max_batch_size), max_batch_size)
        expanded: dict[tuple[int, int], CostTables] = self._expanded  # type: ignore[attr-defined]
        if sizes not in expanded:
            expanded[sizes] = self._expand(*sizes)
        return expanded[sizes]

    def _expand(self, tokens: int, batch: int) -> CostTables:
        decode, mixed = self.decode, self.mixed
        decode_ps = _ps(decode.fixed_s) + sum(
            _expand(points, batch)
            for points in (decode.token_s, decode.sequence_s, decode.decode_s)
        )
        fixed_ps, token_ps = _ps(mixed.fixed_s), _expand(mixed.token_s, tokens)
        by_batch = (mixed.sequence_s, mixed.decode_s, mixed.context_s, decode.context_s)
        sequence_ps, mixed_decode_ps, mixed_context_ps, decode_context_ps = (
            _expand(points, batch) for points in by_batch
        )
        longest = (int(table.max()) for table in (token_ps, sequence_ps, mixed_decode_ps))
        tables = CostTables(
            decode_ps=decode_ps,
            decode_context_ps=decode_context_ps,
            fixed_ps=fixed_ps,
            token_ps=token_ps,
            sequence_ps=sequence_ps,
            mixed_decode_ps=mixed_decode_ps,
            mixed_context_ps=mixed_context_ps,
            prefill_attention_ps=_ps(self.prefill_attention_s),
            prefill_context_ps=_ps(self.prefill_context_s),
            chunk_decode_ps=_ps(self.chunk_decode_s),
            longest_decode_ps=int(decode_ps.max()),
            longest_mixed_ps=fixed_ps + sum(longest),
            longest_context_ps=int(max(decode_context_ps.max(), mixed_context_ps.max())),
        )
        _check_not_negative(tables)
        return tables


def _seconds(value: Any, where: str) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not fits(value) or value < 0:
        raise CostError(f"{where} must be a number of seconds >= 0, not {value!r}")
    if value > 0 and to_ps(value) == 0:
        raise CostError(f"{where} = {value!r} s is below the clock's picosecond")
    return float(value)


def _ps(seconds: float) -> int:
    return int(to_ps(seconds))


def _line(slope: float) -> Points:
    return ((0, 0.0), (1, slope))


def _points(values: Any, where: str) -> Points:
    """Check points (n, seconds): whole n >= 0 in ascending order, finite seconds."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise CostError(f"{where} must be a list of points [n, seconds], not {values!r}")
    points = []
    for point in values:
        if not isinstance(point, Sequence) or len(point) != 2 or not fits(point[1]):
            raise CostError(f"{where}: {point!r} is not a point [n, seconds]")
        if point[0] != int(point[0]) or point[0] < 0 or (points and point[0] <= points[-1][0]):
            raise CostError(
                f"{where}: n must be whole numbers in ascending order, not {point[0]!r}"
            )
        points.append((int(point[0]), float(point[1])))
    return tuple(points)


def _expand(points: Points, largest: int) -> np.ndarray:
    """Tabulate points at 0..largest by whole-number interpolation, which is exact everywhere."""
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
    # Rounded to the nearest picosecond, halves upwards.
    return value[left] + (2 * rise * (n - at[left]) + width) // (2 * width)


def _check_not_negative(tables: CostTables) -> None:
    decodes = len(tables.mixed_decode_ps) - 1
    n = np.arange(decodes + 1)
    # A mixed iteration of n decodes holds at least n tokens and, with its prefill, n + 1.
    fewest = tables.fixed_ps + tables.token_ps[n] + tables.sequence_ps + tables.mixed_decode_ps
    columns = (tables.decode_ps, tables.decode_context_ps, tables.mixed_context_ps, fewest)
    for column in columns:
        if (column < 0).any():
            size = int(np.argmax(column < 0))
            raise CostError(
                f"an iteration of {size} requests would take {column[size]} ps: negative"
            )
