"""Synthetic traces: seeded draws from named distributions, and presets like real traffic.

`azure-conv-like` has the size, rate, burstiness and mean and median lengths of the conversation
trace published with Patel et al., "Splitwise: Efficient generative LLM inference using phase
splitting", ISCA 2024. No row of that trace is in it. How near it comes (in the limit of many
requests):

| statistic | trace | drawn |
|---|---|---|
| rate per s, gap CV, dispersion in 1 s | 5.530, 1.09, 1.39 | 5.530, 1.09, 1.18 |
| prompt mean, median, p90, p99 | 1154.7, 1020, 2735, 4142 | 1154.7, 1020, 1931, 3249 |
| output mean, median, p90, p99 | 211.1, 129, 424, 601 | 211.1, 129, 509, 1000 |

So the load is right, prompts have a shorter tail, and 2.8 % of the outputs lie at the cut of 1000.
The real outputs have two humps, near 90 and near 410, which no lognormal has; and prompts and
outputs are drawn independently here, where the real ones have a correlation of -0.11.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from sweeps.workloads.arrivals import ARRIVALS, ArrivalProcess, Gamma, Poisson
from sweeps.workloads.conversations import Conversations
from sweeps.workloads.lengths import LENGTHS, LengthDistribution, Lognormal
from sweeps.workloads.parameters import check_positive, check_whole, choose, construct
from sweeps.workloads.tenants import (
    PARTS,
    Stream,
    TenantSpec,
    as_conversations,
    as_tenants,
    draw_lengths,
    draw_tenants,
    prefix_columns,
    tenant_rates,
)
from vecsched import Trace
from vecsched.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class SyntheticSpec:
    """A workload to be drawn.

    Attributes:
        requests: how many, at least 1.
        rate_per_s: mean arrival rate, of all tenants together; None if each tenant has its own.
        prompt, output: length distributions; an object, or a mapping such as
            {"distribution": "lognormal", "mean": 1000, "median": 900, "max": 8192}. None if each
            tenant has its own.
        arrivals: arrival process; an object, or {"process": "gamma", "cv": 2}, or "poisson".
        conversations: prompts that begin alike; `Conversations`, or the mapping of their
            parameters. `prompt` is then what each turn adds. None: nothing is in common.
        tenants: `TenantSpec` objects or their mappings; none: a trace without tenants.
        seed: >= 0; the same specification gives the same trace with the same NumPy.

    Raises:
        ConfigError: naming the field, the value and what would be right.
    """

    requests: int
    rate_per_s: float | None = None
    prompt: LengthDistribution | None = None
    output: LengthDistribution | None = None
    arrivals: ArrivalProcess = field(default_factory=Poisson)
    conversations: Conversations | None = None
    tenants: tuple[TenantSpec, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("requests", self.requests, least=1)
        check_whole("seed", self.seed, least=0)
        if self.rate_per_s is not None:
            check_positive("rate_per_s", self.rate_per_s)
        parts: dict[str, Any] = {
            "arrivals": choose(ARRIVALS, self.arrivals, "process", "arrivals"),
            "conversations": as_conversations(self.conversations),
            "tenants": as_tenants(self.tenants),
        }
        for name in ("prompt", "output"):
            if getattr(self, name) is not None:
                parts[name] = choose(LENGTHS, getattr(self, name), "distribution", name)
        for name, part in parts.items():
            object.__setattr__(self, name, part)
        self.streams()  # complains about what is missing

    def streams(self) -> list[Stream]:
        """Return what is drawn: a stream of requests for each tenant, or the one of them all.

        Raises:
            ConfigError: a part is missing, or rates are given twice.
        """
        tenants = self.tenants or (TenantSpec(name="all"),)
        rates = tenant_rates(tenants, self.rate_per_s)
        return [
            Stream(
                each.name,
                rate,
                each.arrivals or self.arrivals,
                self._lengths("prompt", each),
                self._lengths("output", each),
                each.conversations or self.conversations,
            )
            for each, rate in zip(tenants, rates, strict=True)
        ]

    def _lengths(self, name: str, tenant: TenantSpec) -> LengthDistribution:
        lengths = getattr(tenant, name) or getattr(self, name)
        if lengths is None:
            owner = f" of tenant {tenant.name!r}" if self.tenants else ""
            raise ConfigError(f"parameter {name!r}{owner} is missing")
        return lengths

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> "SyntheticSpec":
        """Build a specification from a file's mapping; `preset` names one to start from.

        Raises:
            ConfigError: an unknown or missing name, with the nearest one, or an impossible value.
        """
        changes = dict(values)
        if "preset" in changes:
            base = cls.preset(changes.pop("preset"))
            changes = {part.name: getattr(base, part.name) for part in fields(base)} | changes
        return construct(SyntheticSpec, changes, "synthetic trace")

    @staticmethod
    def preset(name: str) -> "SyntheticSpec":
        """Return a specification from `PRESETS`.

        Raises:
            ConfigError: there is no such preset.
        """
        if name not in PRESETS:
            raise ConfigError(
                f"unknown synthetic trace {name!r}; {did_you_mean(str(name), PRESETS)}"
            )
        return PRESETS[name]

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


def generate(spec: SyntheticSpec) -> Trace:
    """Draw a trace; the first request arrives at 0.

    Gaps, prompts, outputs and conversations come from independent streams of one seed (common
    random numbers): another rate or arrival process leaves the lengths as they are, another length
    distribution leaves the arrivals, and a longer trace begins with the shorter one. With tenants,
    each has such streams of its own; see `sweeps.workloads.tenants.draw_tenants`.

    Raises:
        InputError: the trace would be longer than the clock's 53 days.
    """
    streams = spec.streams()
    if spec.tenants:
        return draw_tenants(streams, spec.requests, spec.seed)
    (stream,) = streams
    seeds = np.random.SeedSequence(spec.seed).spawn(PARTS)
    rngs = [np.random.default_rng(seed) for seed in seeds]
    times = stream.arrivals.times(rngs[0], spec.requests, stream.rate_per_s)
    prompts, outputs, ids = draw_lengths(stream, spec.requests, rngs, 0)
    rows = np.arange(spec.requests)
    return Trace(times, prompts, outputs, **prefix_columns(streams, [ids], rows))


PRESETS: dict[str, SyntheticSpec] = {
    "azure-conv-like": SyntheticSpec(
        requests=19_366,
        rate_per_s=5.530,
        arrivals=Gamma(cv=1.09),
        prompt=Lognormal(mean=1154.7, median=1020, max=14_050),
        # The sigma at which the mean after the cut is 211.1; before it, 229.1.
        output=Lognormal(median=129, sigma=1.0716, max=1_000),
    ),
}
