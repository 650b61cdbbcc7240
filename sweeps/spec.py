"""A sweep file: which trace, cost, configurations and objectives; read and validated.

`load_spec` checks names, types and ranges; `sweeps.grid` builds every configuration. Nothing
impossible is left when the first simulation starts. `docs/sweep-files.md` is the file's reference.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import ErrorDetails

from sweeps._yaml import read_yaml
from sweeps.axes import CONDITION_NAMES, TRACE_AXES, Axes, Axis, check_conditions, check_traffic
from sweeps.designs import check_design
from sweeps.errors import SpecError
from sweeps.expression import Expression, ExpressionError
from sweeps.schema import Listed, Section, Settings, Text, problem
from sweeps.sections import (
    SEARCHES,
    CostSection,
    DesignSection,
    MetricsSection,
    SloSection,
    TraceSection,
    Variant,
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

Traces = Annotated[list[TraceSection], Field(min_length=1), Listed()]
Costs = Annotated[list[CostSection], Field(min_length=1), Listed()]

_READY_MADE = Path(__file__).parent / "specs"


class SweepSpec(Section):
    """A sweep: everything that determines its results.

    Build it with `load_spec` or `SweepSpec.from_mapping`, whose errors name the place.
    """

    name: str = ""
    about: str = ""
    trace: Traces
    cost: Costs
    base: Settings = Field(default_factory=dict)
    axes: Axes = Field(default_factory=dict)
    design: DesignSection = DesignSection()
    constraints: list[Text] = Field(default_factory=list)
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
            problems = error.errors(include_url=False)
            lines = [f"{source}: {_sentence(each, _short_forms(values))}" for each in problems]
            raise SpecError("\n".join(lines)) from None
        spec._source, spec._folder = source, folder
        return spec

    @property
    def loads(self) -> tuple[float, ...]:
        """Load factors, in the order of the file; 1 if load is no axis."""
        return tuple(map(float, self._values_of("load") or [1.0]))

    def seeds_of(self, trace: TraceSection) -> tuple[int | None, ...]:
        """Return the seeds a trace is drawn with: the axis, or the trace's own; None for a file."""
        listed = None if trace.synthetic is None else self._values_of("seed")
        return tuple(listed or [trace.first_seed])

    @property
    def config_axes(self) -> dict[str, Axis]:
        """The axes that are fields of a configuration."""
        return {name: axis for name, axis in self.axes.items() if name not in TRACE_AXES}

    def cost_models(self) -> dict[str, CostModel]:
        """Build the cost models, by name.

        Raises:
            SpecError: there is no such preset or file, a figure is impossible, or two have the
                same name.
        """
        models: dict[str, CostModel] = {}
        for position, section in enumerate(self.cost):
            at = f"cost[{position}]" if len(self.cost) > 1 else "cost"
            try:
                model = section.model(self._folder)
            except CostError as error:
                raise SpecError(f"{self._source}: {at}: {error}") from None
            if models.setdefault(model.name, model) is not model:
                raise SpecError(
                    f"{self._source}: {at}: another cost model is called {model.name!r}; "
                    "give each a name of its own"
                )
        return models

    def metric_options(self) -> MetricOptions:
        """Build the engine's options for metrics."""
        return self.metrics.options(self.slo)

    def trace_of(self, section: TraceSection, seed: int | None) -> Trace:
        """Read a trace, or draw the one of a seed, before it is scaled to a load.

        Raises:
            InputError: the file cannot be read, naming file, row, field and value.
        """
        return section.trace(self._folder, seed)

    def as_written(self) -> dict[str, Any]:
        """Return the file's content as plain values, without what it leaves to defaults."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)

    def without(self, axis: str) -> Self:
        """Return the same sweep without one of its axes, if it has it."""
        written = self.as_written()
        written.get("axes", {}).pop(axis, None)
        return self.from_mapping(written, self._source, self._folder)

    def _values_of(self, axis: str) -> list[Any]:
        return (self.axes[axis].listed or []) if axis in self.axes else []

    @model_validator(mode="after")
    def _names_of_traces(self) -> Self:
        labels = [trace.label for trace in self.trace]
        for position, label in enumerate(labels):
            if label in labels[:position]:
                text = f"another trace is called {label!r}; give each a name of its own"
                raise problem(text, at=f"trace[{position}]")
        return self

    @model_validator(mode="after")
    def _check_axes(self) -> Self:
        check_traffic(self.axes)
        if "seed" in self.axes and all(trace.synthetic is None for trace in self.trace):
            raise problem("only a synthetic trace has a seed", at="axes.seed")
        check_conditions(self.config_axes)
        check_design(self.design, self.config_axes)
        for position, text in enumerate(self.constraints):
            try:
                Expression(text, CONDITION_NAMES)
            except ExpressionError as error:
                raise problem(str(error), at=f"constraints[{position}]", value=text) from None
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


def load_spec(spec: str | Path, searching: int | None = None) -> SweepSpec:
    """Read a sweep file.

    Args:
        spec: a path, or the name of a ready-made sweep such as "default".
        searching: search the axes in so many trials, in place of the file's design; if that is a
            search itself, only the number is another.

    Raises:
        SpecError: there is no such file or name, or its content cannot be run.
    """
    named = ready_made()
    path = named.get(str(spec), Path(spec))
    if not path.is_file():
        hint = did_you_mean(str(spec), named)
        raise SpecError(f"{spec}: there is no such file, and no ready-made sweep; {hint}")
    values = read_yaml(path)
    if searching is not None and isinstance(values, dict):
        design = values.get("design")
        kept = design if isinstance(design, dict) and design.get("method") in SEARCHES else {}
        values["design"] = {"method": SEARCHES[0], **kept, "points": searching}
    return SweepSpec.from_mapping(values, str(path), path.parent)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of sweep files, for editors to check and complete them."""
    return SweepSpec.model_json_schema()


def _short_forms(values: Any) -> dict[str, str]:
    """Return key paths that a short form has, and what the file has instead."""
    if not isinstance(values, Mapping):
        return {}
    alone = [key for key in ("trace", "cost") if not isinstance(values.get(key), list)]
    axes = values.get("axes")
    lists = (
        [name for name, axis in axes.items() if isinstance(axis, list)]
        if isinstance(axes, Mapping)
        else []
    )
    return {f"{key}[0]": key for key in alone} | {f"axes.{n}.values": f"axes.{n}" for n in lists}


def _sentence(error: ErrorDetails, short_forms: Mapping[str, str]) -> str:
    """Say one of pydantic's errors as "key path = value: problem"."""
    context = error.get("ctx", {})
    place = _key_path([*error["loc"], context.get("at", "")])
    for long, short in short_forms.items():
        if place.startswith(long):
            place = short + place.removeprefix(long)
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
