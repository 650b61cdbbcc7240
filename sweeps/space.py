"""The points of a sweep, in order.

Points that share a trace stand together: traces are the outermost loop, then seeds, then loads,
then cost models, then variants, then the design over the other axes. So a trace is built once, used
and dropped, and a sweep over many of them needs the memory of one or two.

Points are made when they are asked for, however often; what is kept of each is one byte.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

from sweeps.axes import CONDITION_NAMES
from sweeps.designs import rows_of
from sweeps.errors import SpecError
from sweeps.expression import Expression, ExpressionError
from sweeps.sections import TraceSection, Variant
from sweeps.spec import SweepSpec
from vecsched import SchedulerConfig, Trace
from vecsched.errors import ConfigError, InputError
from vecsched.policies import order_of

_DEFAULTS = SchedulerConfig().to_dict()


class Choice(NamedTuple):
    """One configuration under one cost model, and how it came about.

    Attributes:
        cost: name of the cost model.
        variant: name of the variant; None without variants.
        axes: this configuration's values of the axes that are its fields.
        config: the whole configuration.
    """

    cost: str
    variant: str | None
    axes: Mapping[str, Any]
    config: SchedulerConfig

    def __str__(self) -> str:
        return _described(self.variant, self.axes)


@dataclass(frozen=True, slots=True)
class Point:
    """One simulation: a choice on one trace, at one load; `seed` is None for a trace file."""

    index: int
    choice: Choice
    trace: str
    seed: int | None
    load: float

    def __str__(self) -> str:
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"point {self.index} ({self.choice}, load={self.load!r}{seed})"


class Candidate(NamedTuple):
    """A combination before it is known to be possible."""

    cost: str
    variant: Variant | None
    axes: dict[str, Any]


class Space:
    """All points of a sweep; iterating makes them one by one.

    Attributes:
        disciplines: how many choices each discipline has.
        policies: each policy, and the first choice that has it.
    """

    def __init__(self, spec: SweepSpec, costs: tuple[str, ...]) -> None:
        """Build and check every configuration.

        Raises:
            SpecError: a configuration is impossible, a condition cannot be told, there are two of
                the same or none at all.
        """
        self._spec, self._costs = spec, costs
        self._constraints = [Expression(text, CONDITION_NAMES) for text in spec.constraints]
        self.disciplines: Counter[str] = Counter()
        self.policies: dict[str, str] = {}
        self._accepted = bytes(self._check())
        if not any(self._accepted):
            raise SpecError(f"{spec.source}: the constraints leave no configuration")

    def __len__(self) -> int:
        return self.runs * sum(self._accepted)

    def __iter__(self) -> Iterator[Point]:
        return self.points(self.choices)

    def points(self, choices: Callable[[], Iterable[Choice]]) -> Iterator[Point]:
        """Yield some choices' points: each on every trace, seed and load.

        Args:
            choices: returns the same choices whenever it is called.
        """
        index = 0
        for trace in self._spec.trace:
            for seed in self._spec.seeds_of(trace):
                for load in self._spec.loads:
                    for choice in choices():
                        yield Point(index, choice, trace.label, seed, load)
                        index += 1

    @property
    def runs(self) -> int:
        """How many points each choice has."""
        seeds = sum(len(self._spec.seeds_of(trace)) for trace in self._spec.trace)
        return seeds * len(self._spec.loads)

    def choice(self, candidate: Candidate) -> Choice | None:
        """Return a combination's choice; None if it does not keep the constraints.

        Raises:
            SpecError: its configuration is impossible.
        """
        if not all(self._holds(constraint, candidate) for constraint in self._constraints):
            return None
        return self._choice(candidate)

    def choices(self) -> Iterator[Choice]:
        """Yield the configurations that every trace, seed and load is run with."""
        return map(self._choice, compress(self._candidates(), self._accepted))

    def _candidates(self) -> Iterator[Candidate]:
        spec = self._spec
        for cost in self._costs:
            for variant in spec.variants or (None,):
                settings = self.settings(Candidate(cost, variant, {}))
                try:
                    for row in rows_of(spec.design, spec.config_axes, settings):
                        yield Candidate(cost, variant, row)
                except ExpressionError as error:
                    raise SpecError(f"{spec.source}: axes: a condition {error}") from None

    def _check(self) -> Iterator[bool]:
        """Tell of each candidate whether it is a point: it keeps the constraints, and is new."""
        spec, seen = self._spec, set[int]()  # digests: a configuration is a hundred times as large
        for candidate in self._candidates():
            choice = self.choice(candidate)
            if choice is None:
                yield False
                continue
            digest = hash((choice.cost, choice.config))
            if digest in seen and not spec.design.samples:
                raise SpecError(f"{spec.source}: {self._twins(choice)} are the same configuration")
            if digest not in seen:
                self.disciplines[choice.config.discipline] += 1
                self.policies.setdefault(choice.config.policy, str(choice))
            yield digest not in seen
            seen.add(digest)

    def _holds(self, constraint: Expression, candidate: Candidate) -> bool:
        try:
            return constraint(self.settings(candidate))
        except ExpressionError as error:
            at = f"constraints[{self._spec.constraints.index(constraint.text)}]"
            where = _described(_name(candidate.variant), candidate.axes)
            raise SpecError(
                f"{self._spec.source}: {at} = {constraint.text!r}: {error} (in {where})"
            ) from None

    def settings(self, candidate: Candidate) -> dict[str, Any]:
        """Return what conditions may speak of."""
        names = {"variant": _name(candidate.variant), "cost": candidate.cost}
        return _DEFAULTS | self._fields(candidate) | names

    def _fields(self, candidate: Candidate) -> dict[str, Any]:
        changes = {} if candidate.variant is None else candidate.variant.set
        return {**self._spec.base, **changes, **candidate.axes}

    def _choice(self, candidate: Candidate) -> Choice:
        try:
            config = SchedulerConfig.from_mapping(self._fields(candidate))
        except ConfigError as error:
            culprit = self._culprit(candidate, str(error))
            raise SpecError(f"{self._spec.source}: {culprit}: {error}") from None
        return Choice(candidate.cost, _name(candidate.variant), candidate.axes, config)

    def _culprit(self, candidate: Candidate, complaint: str) -> str:
        """Name the one setting that raises the complaint by itself; else the whole combination."""
        spec, variant = self._spec, candidate.variant
        settings = [(f"base.{name}", name, value) for name, value in spec.base.items()]
        if variant is not None:
            at = f"variants[{spec.variants.index(variant)}].set"
            settings += [(f"{at}.{name}", name, value) for name, value in variant.set.items()]
        for name, value in candidate.axes.items():
            listed = spec.axes[name].values
            position = "" if listed is None else f"[{listed.index(value)}]"
            settings.append((f"axes.{name}{position}", name, value))
        for place, name, value in settings:
            try:
                SchedulerConfig.from_mapping({name: value})
            except ConfigError as error:
                if str(error) == complaint:
                    return f"{place} = {value!r}"
        return f"configuration ({_described(_name(variant), candidate.axes)})"

    def _twins(self, choice: Choice) -> str:
        candidates = map(self._choice, self._candidates())
        first = next(
            each for each in candidates if (each.cost, each.config) == (choice.cost, choice.config)
        )
        return f"({first}) and ({choice})"


def check_on_trace(spec: SweepSpec, space: Space, section: TraceSection, trace: Trace) -> None:
    """Check what only a trace can tell: that every policy finds its column, and loads fit.

    Raises:
        SpecError: naming the configuration or the load.
    """
    for policy, choice in space.policies.items():
        try:
            order_of(trace, policy)
        except ConfigError as error:
            at = f"{spec.source}: {_of_trace(spec, section)}configuration ({choice})"
            raise SpecError(f"{at}: {error}") from None
    lightest = min(spec.loads)
    try:
        trace.scaled(lightest)
    except InputError as error:
        at = f"{spec.source}: {_of_trace(spec, section)}axes.load = {lightest!r}"
        raise SpecError(f"{at}: {error}") from None


def _of_trace(spec: SweepSpec, section: TraceSection) -> str:
    return f"trace {section.label!r}, " if len(spec.trace) > 1 else ""


def _name(variant: Variant | None) -> str | None:
    return None if variant is None else variant.name


def _described(variant: str | None, axes: Mapping[str, Any]) -> str:
    parts = [] if variant is None else [f"variant={variant!r}"]
    parts += [f"{name}={value!r}" for name, value in axes.items()]
    return ", ".join(parts) or "base"
