"""The points of a sweep, in order, and the digest that says what determines a point's result.

Points that share a trace stand together: seeds are the outermost loop, then loads, then variants,
then the other axes as the file lists them, the last one fastest. So a trace is built once, used and
dropped, and a sweep over many of them needs the memory of one or two.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any, NamedTuple

from sweeps.errors import SpecError
from sweeps.sections import TRACE_AXES, Variant
from sweeps.spec import SweepSpec
from vecsched import CostModel, MetricOptions, SchedulerConfig, Trace
from vecsched.errors import ConfigError, InputError
from vecsched.policies import order_of


class Choice(NamedTuple):
    """One configuration of the grid, and how it came about.

    Attributes:
        variant: name of the variant; None without variants.
        axes: this configuration's values of the axes that are its fields.
        config: the whole configuration.
    """

    variant: str | None
    axes: Mapping[str, Any]
    config: SchedulerConfig

    def __str__(self) -> str:
        return _described(self.variant, self.axes)


@dataclass(frozen=True, slots=True)
class Point:
    """One simulation: a choice at one load and seed; `seed` is None for a trace from a file."""

    index: int
    choice: Choice
    load: float
    seed: int | None

    def __str__(self) -> str:
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"point {self.index} ({self.choice}, load={self.load!r}{seed})"


@dataclass(frozen=True)
class Grid:
    """All points: every choice at every load and seed. Iterating makes them one by one."""

    seeds: tuple[int | None, ...]
    loads: tuple[float, ...]
    choices: tuple[Choice, ...]

    def __len__(self) -> int:
        return len(self.seeds) * len(self.loads) * len(self.choices)

    def __iter__(self) -> Iterator[Point]:
        points = product(self.seeds, self.loads, self.choices)
        for index, (seed, load, choice) in enumerate(points):
            yield Point(index, choice, load, seed)


def build_grid(spec: SweepSpec) -> Grid:
    """Build and check every configuration of a sweep.

    Raises:
        SpecError: a configuration is impossible, or two variants are the same one.
    """
    axes = {name: values for name, values in spec.axes.items() if name not in TRACE_AXES}
    choices = tuple(
        _choice(spec, variant, dict(zip(axes, values, strict=True)))
        for variant in spec.variants or (None,)
        for values in product(*axes.values())
    )
    seen: dict[SchedulerConfig, Choice] = {}
    for choice in choices:
        twin = seen.setdefault(choice.config, choice)
        if twin is not choice:
            raise SpecError(f"{spec.source}: ({twin}) and ({choice}) are the same configuration")
    return Grid(spec.seeds, spec.loads, choices)


def check_on_trace(spec: SweepSpec, grid: Grid, trace: Trace) -> None:
    """Check what only the trace can tell: that every policy finds its column, and loads fit.

    Raises:
        SpecError: naming the configuration or the load.
    """
    by_policy = {choice.config.policy: choice for choice in reversed(grid.choices)}
    for policy, choice in by_policy.items():
        try:
            order_of(trace, policy)
        except ConfigError as error:
            raise SpecError(f"{spec.source}: configuration ({choice}): {error}") from None
    lightest = min(grid.loads)
    try:
        trace.scaled(lightest)
    except InputError as error:
        raise SpecError(f"{spec.source}: axes.load = {lightest!r}: {error}") from None


def trace_fingerprint(trace: Trace) -> str:
    """Digest (sha256, 16 hex digits) of a trace's columns."""
    digest = hashlib.sha256()
    for field in fields(trace):
        column = getattr(trace, field.name)
        digest.update(f"{field.name} {getattr(column, 'dtype', None)} ".encode())
        if column is not None:
            labels = column.dtype == object
            digest.update(
                json.dumps(column.tolist(), default=str).encode() if labels else column.tobytes()
            )
    return digest.hexdigest()[:16]


def key_context(fingerprint: str, cost: CostModel, metrics: MetricOptions, engine: str) -> bytes:
    """Digest what the keys of all points over one trace share; see `point_key`."""
    shared = (fingerprint, cost.to_dict(), asdict(metrics), engine)
    return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).digest()


def point_key(point: Point, context: bytes) -> str:
    """Digest (sha256, 16 hex digits) of everything that determines a point's result.

    That is its configuration, load and seed, and the context: trace, cost model, metric options and
    engine version. Neither its number nor its variant's name counts, so a point keeps its key when
    others are added to the sweep.
    """
    own = json.dumps((point.choice.config.to_dict(), point.load, point.seed), sort_keys=True)
    return hashlib.sha256(context + own.encode()).hexdigest()[:16]


def _choice(spec: SweepSpec, variant: Variant | None, axes: dict[str, Any]) -> Choice:
    name, changes = (None, {}) if variant is None else (variant.name, variant.set)
    try:
        config = SchedulerConfig.from_mapping({**spec.base, **changes, **axes})
    except ConfigError as error:
        culprit = _culprit(spec, variant, axes, str(error))
        raise SpecError(f"{spec.source}: {culprit}: {error}") from None
    return Choice(name, axes, config)


def _culprit(spec: SweepSpec, variant: Variant | None, axes: dict[str, Any], complaint: str) -> str:
    """Name the one setting that raises the complaint by itself; else the whole combination."""
    settings = [(f"base.{name}", name, value) for name, value in spec.base.items()]
    if variant is not None:
        at = f"variants[{spec.variants.index(variant)}].set"
        settings += [(f"{at}.{name}", name, value) for name, value in variant.set.items()]
    for name, value in axes.items():
        settings.append((f"axes.{name}[{spec.axes[name].index(value)}]", name, value))
    for place, name, value in settings:
        try:
            SchedulerConfig.from_mapping({name: value})
        except ConfigError as error:
            if str(error) == complaint:
                return f"{place} = {value!r}"
    return f"configuration ({_described(variant.name if variant else None, axes)})"


def _described(variant: str | None, axes: Mapping[str, Any]) -> str:
    parts = [] if variant is None else [f"variant={variant!r}"]
    parts += [f"{name}={value!r}" for name, value in axes.items()]
    return ", ".join(parts) or "base"
