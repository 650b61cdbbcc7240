"""A sweep file: which trace, cost, configurations and objectives; read and validated.

`load_spec` checks names, types and ranges; `sweeps.grid` builds every configuration. Nothing
impossible is left when the first simulation starts. `docs/sweep-files.md` is the file's reference.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

from pydantic import Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import ErrorDetails

from sweeps._yaml import read_yaml
from sweeps.errors import SpecError
from sweeps.sections import (
    Axes,
    CostSection,
    MetricsSection,
    Section,
    Settings,
    SloSection,
    TraceSection,
    Variant,
    problem,
)
from vecsched import CostModel, MetricOptions, Trace
from vecsched.errors import CostError, did_you_mean

# Kinds of pydantic's errors whose own text speaks of Python rather than of the file.
_PLAINER = {
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "missing": "is missing",
    "model_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}

_KEY = "[key]"  # how pydantic marks that an error is about a mapping's key, not its value

_READY_MADE = Path(__file__).parent / "specs"


class SweepSpec(Section):
    """A sweep: everything that determines its results.

    Build it with `load_spec` or `SweepSpec.from_mapping`, whose errors name the place.
    """

    name: str = ""
    about: str = ""
    trace: TraceSection
    cost: CostSection
    base: Settings = Field(default_factory=dict)
    axes: Axes = Field(default_factory=dict)
    variants: list[Variant] = Field(default_factory=list)
    slo: SloSection = SloSection()
    metrics: MetricsSection = MetricsSection()
    _source: str = PrivateAttr("sweep")
    _folder: Path = PrivateAttr(Path())

    @property
    def source(self) -> str:
        """What errors call the file."""
        return self._source

    @classmethod
    def from_mapping(cls, values: Any, source: str = "sweep", folder: Path = Path()) -> Self:
        """Validate the plain values of a sweep file.

        Args:
            values: the mapping.
            source: what errors call it.
            folder: where relative paths in it start.

        Raises:
            SpecError: one line for each problem: source, key path, value, and what is wrong.
        """
        try:
            spec = cls.model_validate(values)
        except ValidationError as error:
            lines = [f"{source}: {_sentence(each)}" for each in error.errors(include_url=False)]
            raise SpecError("\n".join(lines)) from None
        spec._source, spec._folder = source, folder
        return spec

    @property
    def loads(self) -> tuple[float, ...]:
        """Load factors, in the order of the file; 1 if load is no axis."""
        return tuple(float(load) for load in cast(list[float], self.axes.get("load", [1.0])))

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """Seeds, in the order of the file; the trace's own if seed is no axis, None for a file."""
        return tuple(cast(list[int | None], self.axes.get("seed", [self.trace.first_seed])))

    def cost_model(self) -> CostModel:
        """Build the cost model.

        Raises:
            SpecError: there is no such preset or file, or a figure is impossible.
        """
        try:
            return self.cost.model(self._folder)
        except CostError as error:
            raise SpecError(f"{self._source}: cost: {error}") from None

    def metric_options(self) -> MetricOptions:
        """Build the engine's options for metrics."""
        return self.metrics.options(self.slo)

    def trace_of(self, seed: int | None) -> Trace:
        """Read the trace, or draw the one of a seed, before it is scaled to a load.

        Raises:
            InputError: the file cannot be read, naming file, row, field and value.
        """
        return self.trace.trace(self._folder, seed)

    def as_written(self) -> dict[str, Any]:
        """Return the file's content as plain values, without what it leaves to defaults."""
        return self.model_dump(mode="json", exclude_unset=True)

    @model_validator(mode="after")
    def _loads_and_seeds(self) -> Self:
        for position, load in enumerate(self.axes.get("load", ())):
            if not isinstance(load, int | float) or not 0 < load < float("inf"):
                at = f"axes.load[{position}]"
                raise problem("a load factor must be a positive number", at=at, value=load)
        for position, seed in enumerate(self.axes.get("seed", ())):
            if not isinstance(seed, int) or seed < 0:
                at = f"axes.seed[{position}]"
                raise problem("a seed must be a whole number >= 0", at=at, value=seed)
        if "seed" in self.axes and self.trace.synthetic is None:
            raise problem("only a synthetic trace has a seed", at="axes.seed")
        return self

    @model_validator(mode="after")
    def _distinct_variants(self) -> Self:
        names = [variant.name for variant in self.variants]
        for position, variant in enumerate(self.variants):
            at = f"variants[{position}]"
            if variant.name in names[:position]:
                raise problem("another variant has this name", at=f"{at}.name", value=variant.name)
            for field, value in variant.set.items():
                if field in self.axes:
                    raise problem("is an axis, too", at=f"{at}.set.{field}", value=value)
        return self


def ready_made() -> dict[str, Path]:
    """Return the sweep files that ship with vecsched, by name."""
    return {path.stem: path for path in sorted(_READY_MADE.glob("*.yaml"))}


def load_spec(spec: str | Path) -> SweepSpec:
    """Read a sweep file.

    Args:
        spec: a path, or the name of a ready-made sweep such as "default".

    Raises:
        SpecError: there is no such file or name, or its content cannot be run.
    """
    named = ready_made()
    path = named.get(str(spec), Path(spec))
    if not path.is_file():
        hint = did_you_mean(str(spec), named)
        raise SpecError(f"{spec}: there is no such file, and no ready-made sweep; {hint}")
    return SweepSpec.from_mapping(read_yaml(path), str(path), path.parent)


def _sentence(error: ErrorDetails) -> str:
    """Say one of pydantic's errors as "key path = value: problem"."""
    context = error.get("ctx", {})
    place = _key_path([*error["loc"], context.get("at", "")])
    value = context.get("value", error["input"])
    about_a_key = error["loc"][-1:] == (_KEY,)
    if not about_a_key and not isinstance(value, Mapping | list | Section):
        place += f" = {value!r}"
    text = _PLAINER.get(error["type"], error["msg"].replace("Input should be", "must be"))
    return f"{place}: {text}" if place else text


def _key_path(parts: Sequence[int | str]) -> str:
    """Join ["axes", "load", 2] to "axes.load[2]"; a part may be a path itself."""
    named = [f"[{part}]" if isinstance(part, int) else part for part in parts if part != _KEY]
    return ".".join(part for part in named if part).replace(".[", "[")
