"""The parts of a sweep file, one class each: names, types, ranges, and what they stand for."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from sweeps.objectives import MAXIMISE, MINIMISE
from sweeps.schema import Cost, Seconds, Section, Settings, Share, Text, exactly_one, problem
from sweeps.workloads import SyntheticSpec, generate, read_trace
from vecsched import CostModel, MetricOptions, Trace
from vecsched.errors import ConfigError


class TraceSection(Section):
    """The requests: a file, or a synthetic workload by name or by its parameters."""

    name: Text | None = None
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
        exactly_one(self, ("path", "synthetic"))
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
        if self.name is not None:
            return self.name
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

    short_form: ClassVar[dict[str, Any] | None] = {"type": "string"}
    name: Text | None = None
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
        exactly_one(self, ("preset", "path", "affine", "tabulated"))
        return self

    def model(self, folder: Path) -> CostModel:
        """Build the cost model; a relative path starts at `folder`.

        Raises:
            CostError: there is no such preset or file, or a figure is impossible.
        """
        model = self._model(folder)
        return model if self.name is None else replace(model, name=self.name)

    def _model(self, folder: Path) -> CostModel:
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


_DRAWS = ("random", "latin_hypercube", "sobol")
SEARCHES = ("nsga2", "tpe")


class DesignSection(Section):
    """Which combinations of the axes' values are points. A bare text is the method."""

    short_form: ClassVar[dict[str, Any] | None] = {"enum": ["grid", "zip"]}

    method: Literal["grid", "zip", "random", "latin_hypercube", "sobol", "nsga2", "tpe"] = "grid"
    points: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    maximise: list[Text] | None = None
    minimise: list[Text] | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_text(cls, values: Any) -> Any:
        return {"method": values} if isinstance(values, str) else values

    @model_validator(mode="after")
    def _what_belongs_together(self) -> Self:
        if not self.samples:
            for name in {"points", "seed"} & self.model_fields_set:
                raise problem(f"goes with {', '.join(_DRAWS + SEARCHES)} only", at=name)
        if not self.searches:
            for name in {"maximise", "minimise"} & self.model_fields_set:
                raise problem(f"goes with {', '.join(SEARCHES)} only", at=name)
        if self.samples and self.points is None:
            raise problem(f"{self.method} needs points, how many to draw")
        if self.searches and not self.maximised + self.minimised:
            raise problem("there is nothing to maximise or minimise")
        return self

    @property
    def samples(self) -> bool:
        """Whether points are drawn, and not listed."""
        return self.method in _DRAWS + SEARCHES

    @property
    def searches(self) -> bool:
        """Whether points are drawn where the results of earlier ones were good."""
        return self.method in SEARCHES

    @property
    def maximised(self) -> tuple[str, ...]:
        """Metrics of which a search wants more; without any named, those of the frontier."""
        named = self.maximise is not None or self.minimise is not None
        return tuple(self.maximise or ()) if named else MAXIMISE

    @property
    def minimised(self) -> tuple[str, ...]:
        """Metrics of which a search wants less; without any named, those of the frontier."""
        named = self.maximise is not None or self.minimise is not None
        return tuple(self.minimise or ()) if named else MINIMISE
