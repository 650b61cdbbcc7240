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
    mixed_attention[sum(chunk), context_before, n_decode, decode_context_tokens / n_decode]

The last is a measured grid, for a model that has one: multilinear between its points and rounded to
a picosecond (`vecsched.mixed_attention`). Several chunks in one iteration count there as one of all
their tokens, behind the context that makes its causal work chunk * (2 * context_before + chunk)
that of the chunks together; if even no context is too much, behind none.

Every table is indexed by a whole number known at the boundary, so every duration is an exact
integer. A table is given by points (n, seconds) and is linear between them and, with the slope of
its last piece, beyond them; its value at 0 is 0 unless given. Between measured batch sizes
interpolation is linear in n, not in log n: decode attention is linear in n.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from os import PathLike
from typing import Any, Self

from vecsched.clock import to_ps, to_seconds
from vecsched.errors import CostError, did_you_mean
from vecsched.mixed_attention import MixedAttention
from vecsched.tables import CostTables, Points, Terms, checked_seconds, tabulate

__all__ = ["CostModel", "CostTables", "Points", "Terms"]

FORMAT = "vecsched-cost/1"

_FACTORS = ("prefill_attention_s", "prefill_context_s", "chunk_decode_s")
_TEXTS = ("name", "source", "licence")


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Duration of an iteration; see the module's docstring for the formula.

    Attributes:
        decode: terms of iterations that hold decodes only.
        mixed: terms of iterations that hold a prefill.
        prefill_attention_s: seconds per chunk * (2 * context_before + chunk).
        prefill_context_s: seconds per KV token ahead of a prefill chunk.
        chunk_decode_s: seconds per prefill token and decode in the same iteration.
        mixed_attention: measured attention of iterations that hold a prefill; None: no such grid.
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
    mixed_attention: MixedAttention | None = None
    name: str = "custom"
    source: str = ""
    licence: str = ""
    error: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in _FACTORS:
            object.__setattr__(self, name, checked_seconds(name, getattr(self, name)))
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str):
                raise CostError(f"{name} must be a text, not {getattr(self, name)!r}")
        if not isinstance(self.error, Mapping):
            raise CostError(f"error must be a mapping of figures, not {self.error!r}")

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

        Args:
            fixed_s: seconds of every iteration.
            per_prefill_token_s: seconds per prompt token computed.
            per_decode_s: seconds per decode.
            per_context_token_s: seconds per KV token that a decode reads.
            per_prefill_attention_s: seconds per chunk * (2 * context_before + chunk).

        Raises:
            CostError: a figure is no number of seconds >= 0, or finer than the clock.
        """
        token = checked_seconds("per_prefill_token_s", per_prefill_token_s)
        decode = checked_seconds("per_decode_s", per_decode_s)
        context = checked_seconds("per_context_token_s", per_context_token_s)
        fixed = checked_seconds("fixed_s", fixed_s)
        # The mixed token table counts decodes too; what they cost more or less is added here, in
        # whole picoseconds, so that the two together are exactly the cost of a decode.
        difference = float(to_seconds(to_ps(decode) - to_ps(token)))
        flat = ((0, context), (1, context))
        return cls(
            decode=Terms(fixed_s=fixed, decode_s=_line(decode), context_s=flat),
            mixed=Terms(
                fixed_s=fixed,
                token_s=_line(token),
                decode_s=_line(difference),
                context_s=flat,
            ),
            prefill_attention_s=checked_seconds("per_prefill_attention_s", per_prefill_attention_s),
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
            decode: terms of iterations of decodes only: `fixed_s` in seconds and any of `token_s`,
                `sequence_s`, `decode_s`, `context_s`, each a sequence of points (n, seconds).
            mixed: terms of iterations with a prefill; None: as `decode`.
            prefill_attention_s: seconds per chunk * (2 * context_before + chunk).
            prefill_context_s: seconds per KV token ahead of a prefill chunk.
            chunk_decode_s: seconds per prefill token and decode in the same iteration.
            name: what results call the model.

        Raises:
            CostError: a term does not exist, or its figures cannot be used.
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
        | `llama3-8b-rtxpro6000` | Llama-3.1-8B, bf16, RTX PRO 6000 | LLMServingSim | mean 0.8 % |
        | `llama3-8b-rtx4090` | Llama-3.1-8B, bf16, RTX 4090 | LLMServingSim | mean 0.1 % |
        | `qwen2-7b-a30` | Qwen-2-7B, bf16, one A30 | Vidur's profiler | mean 0.7 %, max 8 % |

        Vidur (commit 7d47513, MIT) predicts iteration times from its profiles: they are no
        measurement. Two of its 231 rows, decodes cut off at the end of its attention table, lie
        28 % and 56 % off. aiconfigurator (commit 095f58a, Apache-2.0) measures the kernels of vLLM
        0.19; the error is against their sum, and nothing was measured of mixed attention. The same
        kernels, put together for a run of Qwen3-32B on two H100, give a TPOT 4.5 % below the real
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
        """Build from the mapping that `to_dict` returns; `where` names the place in errors.

        Raises:
            CostError: the mapping is of another format, or lacks or misspells a field.
        """
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            raise CostError(f"{where}: not a cost model of format {FORMAT!r}")
        known = ["format", *cls.__dataclass_fields__]
        for name in values:
            if name not in known:
                raise CostError(f"{where}: unknown field {name!r}; {did_you_mean(name, known)}")
        given = {name: value for name, value in values.items() if name != "format"}
        for kind in ("decode", "mixed"):
            if not isinstance(given.get(kind), Mapping):
                raise CostError(f"{where}: {kind!r} must be a mapping of terms")
            given[kind] = Terms.from_mapping(given[kind], f"{where}: {kind}")
        grid = given.get("mixed_attention")
        if grid is not None:
            given["mixed_attention"] = MixedAttention.from_mapping(
                grid, f"{where}: mixed_attention"
            )
        try:
            return cls(**given)
        except CostError as error:
            raise CostError(f"{where}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain values, ready for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["decode"], plain["mixed"] = self.decode.to_dict(), self.mixed.to_dict()
        if self.mixed_attention is None:
            del plain["mixed_attention"]
        else:
            plain["mixed_attention"] = self.mixed_attention.to_dict()
        return {"format": FORMAT, **plain, "error": dict(self.error)}

    def to_json(self) -> str:
        """Return the text of the model's file."""
        text = json.dumps(self.to_dict(), indent=1)
        # Lists of numbers on one line. Strings hold no line ends, so this finds lists only.
        return re.sub(r"\[\n[^][{}]*\n\s*\]", lambda row: re.sub(r"\n\s*", "", row[0]), text) + "\n"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json())

    def tables(self, max_tokens: int, max_batch_size: int) -> CostTables:
        """Expand to int64 picosecond tables up to the largest iteration (kept for the next call).

        Raises:
            CostError: an iteration of some size would take negative time, or leave the clock.
        """
        sizes = (max(max_tokens, max_batch_size), max_batch_size)
        if sizes not in self._expanded:
            factors = [int(to_ps(getattr(self, name))) for name in _FACTORS]
            self._expanded[sizes] = tabulate(
                self.decode, self.mixed, self.mixed_attention, factors, sizes
            )
        return self._expanded[sizes]

    @cached_property
    def _expanded(self) -> dict[tuple[int, int], CostTables]:
        return {}


def _line(slope: float) -> Points:
    return ((0, 0.0), (1, slope))
