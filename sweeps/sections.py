"""The parts of a sweep file, one class each: names, types, ranges, and what they stand for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from sweeps.workloads import SyntheticSpec, generate, read_trace
from vecsched import CostModel, MetricOptions, SchedulerConfig, Trace
from vecsched.errors import ConfigError, did_you_mean

CONFIG_FIELDS = tuple(SchedulerConfig.__dataclass_fields__)
# Axes that are no field of a configuration: they change the trace.
TRACE_AXES = ("load", "seed")


def problem(text: str, at: str = "", **value: Any) -> PydanticCustomError:
    """Return an error to raise in a validator.

    Args:
        text: what is wrong.
        at: key path below the section under validation, where the problem is further down.
        value: `value=...`, what stands there.
    """
    return PydanticCustomError("sweep", "{text}", {"text": text, "at": at, **value})


def _one_of(known: tuple[str, ...], kind: str) -> AfterValidator:
    def check(name: str) -> str:
        if name not in known:
            raise problem(f"no such {kind}; {did_you_mean(name, known)}")
        return name

    return AfterValidator(check)


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str | None):
        raise problem("must be a number, a text or null")
    return value


def _distinct(values: list[Any]) -> list[Any]:
    for position, value in enumerate(values):
        if value in values[:position]:
            raise problem("is listed twice", at=f"[{position}]", value=value)
    return values


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
Value = Annotated[int | float | str | None, BeforeValidator(_plain)]
Settings = dict[Annotated[str, _one_of(CONFIG_FIELDS, "field")], Value]
Axis = Annotated[list[Value], Field(min_length=1), AfterValidator(_distinct)]
Axes = dict[Annotated[str, _one_of((*CONFIG_FIELDS, *TRACE_AXES), "axis")], Axis]


class Section(BaseModel):
    """A mapping of the file: unknown keys are errors that name the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, values: Any) -> Any:
        for key in values if isinstance(values, Mapping) else ():
            if key not in cls.model_fields:
                hint = did_you_mean(str(key), cls.model_fields)
                raise problem(f"no such key; {hint}", at=str(key), value=values[key])
        return values


class TraceSection(Section):
    """The requests: a file, or a synthetic workload by name or by its parameters."""

    path: Text | None = None
    format: Text = "auto"
    options: dict[str, Any] = Field(default_factory=dict)
    synthetic: str | dict[str, Any] | None = None
    requests: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0)] | None = None

    @field_validator("synthetic", mode="before")
    @classmethod
    def _name_or_parameters(cls, value: Any) -> Any:
        if not isinstance(value, str | dict):
            raise problem("must be the name of a workload or a mapping of its parameters")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        _exactly_one(self, ("path", "synthetic"))
        belongs = {
            "format": "path",
            "options": "path",
            "requests": "synthetic",
            "seed": "synthetic",
        }
        for name, owner in belongs.items():
            if name in self.model_fields_set and getattr(self, owner) is None:
                raise problem(f"goes with {owner!r} only", at=name, value=getattr(self, name))
        if self.path is None:
            try:
                self._workload()
            except ConfigError as error:
                raise problem(str(error), at="synthetic") from None
        return self

    @property
    def label(self) -> str:
        """What results call the trace."""
        if self.path is not None:
            return Path(self.path).name
        return self.synthetic if isinstance(self.synthetic, str) else "synthetic"

    @property
    def first_seed(self) -> int | None:
        """The seed where it is no axis; None for a file."""
        return self._workload().seed if self.path is None else None

    def trace(self, folder: Path, seed: int | None) -> Trace:
        """Read the file, its relative path starting at `folder`, or draw the trace of a seed.

        Raises:
            InputError: the file cannot be read, naming file, row, field and value.
        """
        if self.path is not None:
            return read_trace(folder / self.path, self.format, **self.options)
        return generate(self._workload().replace(seed=seed))

    def _workload(self) -> SyntheticSpec:
        given = self.synthetic if isinstance(self.synthetic, dict) else {"preset": self.synthetic}
        overrides = {"requests": self.requests, "seed": self.seed}
        return SyntheticSpec.from_mapping(
            given | {name: value for name, value in overrides.items() if value is not None}
        )


class AffineSection(Section):
    """Arguments of `CostModel.affine`."""

    fixed_s: Cost
    per_prefill_token_s: Cost
    per_decode_s: Cost
    per_context_token_s: Cost
    per_prefill_attention_s: Cost = 0.0


class TabulatedSection(Section):
    """Arguments of `CostModel.tabulated`."""

    decode: dict[str, Any]
    mixed: dict[str, Any] | None = None
    prefill_attention_s: Cost = 0.0
    prefill_context_s: Cost = 0.0
    chunk_decode_s: Cost = 0.0
    name: Text = "tabulated"


class CostSection(Section):
    """How long an iteration takes. A bare text is a file if it ends in .json, else a preset."""

    preset: Text | None = None
    path: Text | None = None
    affine: AffineSection | None = None
    tabulated: TabulatedSection | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_text(cls, values: Any) -> Any:
        if not isinstance(values, str):
            return values
        return {"path" if values.endswith(".json") else "preset": values}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        _exactly_one(self, ("preset", "path", "affine", "tabulated"))
        return self

    def model(self, folder: Path) -> CostModel:
        """Build the cost model; a relative path starts at `folder`.

        Raises:
            CostError: there is no such preset or file, or a figure is impossible.
        """
        if self.path is not None:
            return CostModel.load(folder / self.path)
        if self.affine is not None:
            return CostModel.affine(**self.affine.model_dump())
        if self.tabulated is not None:
            return CostModel.tabulated(**self.tabulated.model_dump())
        return CostModel.unit() if self.preset == "unit" else CostModel.preset(str(self.preset))


class SloSection(Section):
    """Bounds that a request must meet, all that are given, to count as good; inclusive."""

    ttft_s: Seconds | None = None
    tpot_s: Seconds | None = None
    e2e_s: Seconds | None = None


class MetricsSection(Section):
    """How metrics are taken; see `vecsched.MetricOptions`."""

    starvation_s: Seconds | None = None
    warmup: Share = 0.1
    cooldown: Share = 0.1

    @model_validator(mode="after")
    def _something_left(self) -> Self:
        if self.warmup + self.cooldown >= 1:
            raise problem("warmup and cooldown together leave nothing of the run")
        return self

    def options(self, slo: SloSection) -> MetricOptions:
        """Build the engine's options."""
        bounds = {f"{name.removesuffix('_s')}_slo_s": value for name, value in slo}
        return MetricOptions(**bounds, **dict(self))


class Variant(Section):
    """A named partial configuration, crossed with the axes."""

    name: Text
    about: str = ""
    set: Settings = Field(default_factory=dict)


def _exactly_one(section: Section, names: tuple[str, ...]) -> None:
    if sum(getattr(section, name) is not None for name in names) != 1:
        raise problem(f"exactly one of {', '.join(names)} must be given")
