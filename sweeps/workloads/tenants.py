"""Several tenants in one synthetic trace, each with a process and with lengths of its own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sweeps.workloads.arrivals import ARRIVALS, ArrivalProcess
from sweeps.workloads.conversations import Conversations
from sweeps.workloads.lengths import LENGTHS, LengthDistribution
from sweeps.workloads.parameters import check_positive, choose, construct
from vecsched import Trace
from vecsched.errors import ConfigError
from vecsched.ragged import Ragged

# Of each stream's draws: gaps, prompts, outputs, system prompts, turns of conversations.
PARTS = 5


@dataclass(frozen=True, kw_only=True)
class TenantSpec:
    """One tenant's part of a workload; what it does not say is the workload's.

    Attributes:
        name: label of its requests.
        weight: its share of the workload's rate is proportional to it. None: 1, if no tenant has a
            rate.
        rate_per_s: its mean arrival rate. Either all tenants have one or none.
        arrivals, prompt, output, conversations: as in `SyntheticSpec`.

    Raises:
        ConfigError: naming the field, the value and what would be right.
    """

    name: str
    weight: float | None = None
    rate_per_s: float | None = None
    arrivals: ArrivalProcess | None = None
    prompt: LengthDistribution | None = None
    output: LengthDistribution | None = None
    conversations: Conversations | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"name must be a text, not {self.name!r}")
        for name in ("weight", "rate_per_s"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        tables: dict[str, tuple[Any, str]] = {
            "arrivals": (ARRIVALS, "process"),
            "prompt": (LENGTHS, "distribution"),
            "output": (LENGTHS, "distribution"),
        }
        for name, (table, key) in tables.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, choose(table, getattr(self, name), key, name))
        object.__setattr__(self, "conversations", as_conversations(self.conversations))


def as_conversations(value: Any) -> Conversations | None:
    """Return conversations from a mapping of their parameters, or as they are.

    Raises:
        ConfigError: it is no mapping, or a parameter is wrong.
    """
    if value is None or isinstance(value, Conversations):
        return value
    if not isinstance(value, dict):
        raise ConfigError(f"conversations must be a mapping of their parameters, not {value!r}")
    return construct(Conversations, value, "conversations")


class Stream(NamedTuple):
    """All that is needed to draw the requests of one tenant."""

    label: str
    rate_per_s: float
    arrivals: ArrivalProcess
    prompt: LengthDistribution
    output: LengthDistribution
    conversations: Conversations | None


def as_tenants(values: Any) -> tuple[TenantSpec, ...]:
    """Return tenants from a list of them or of their mappings; none from None.

    Raises:
        ConfigError: it is no list, a tenant is wrong, or a name occurs twice.
    """
    if not isinstance(values, list | tuple):
        raise ConfigError(f"tenants must be a list, not {values!r}")
    tenants = []
    for number, value in enumerate(values):
        if not isinstance(value, TenantSpec | dict):
            raise ConfigError(f"tenants[{number}] must be a mapping, not {value!r}")
        what = f"tenants[{number}]"
        tenants.append(construct(TenantSpec, value, what) if isinstance(value, dict) else value)
    names = [each.name for each in tenants]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two tenants are called {name!r}")
    return tuple(tenants)


def tenant_rates(tenants: Sequence[TenantSpec], total: float | None) -> list[float]:
    """Return each tenant's rate: its own, or its share by weight of the total.

    Raises:
        ConfigError: rates are missing, or given twice.
    """
    rates = [each.rate_per_s for each in tenants if each.rate_per_s is not None]
    if not rates:
        if total is None:
            raise ConfigError("parameter 'rate_per_s' is missing")
        weights = [1.0 if each.weight is None else each.weight for each in tenants]
        return [total * weight / sum(weights) for weight in weights]
    for each in tenants:
        if each.rate_per_s is None:
            raise ConfigError(f"all tenants need a rate_per_s, or none; {each.name!r} has none")
        if each.weight is not None:
            raise ConfigError(f"tenant {each.name!r} has a rate_per_s: it cannot have a weight too")
    if total is not None:
        raise ConfigError("rate_per_s is the sum of the tenants' rates: leave it out")
    return rates


def draw_tenants(streams: Sequence[Stream], requests: int, seed: int) -> Trace:
    """Draw the first `requests` requests of several streams laid over each other.

    Every stream has child seeds (gaps, prompts, outputs, system prompts, turns) of the child of its
    position, so a tenant added at the end leaves those before it as they are, and a longer trace
    begins with the shorter one. A stream begins a gap before its first request; the first request
    of all arrives at 0, in the order of time.

    Args:
        streams: one a tenant.
        requests: how many in all.
        seed: >= 0.
    """
    times = _times_of_first(streams, requests, seed)
    everyone = np.concatenate(times)
    order = np.argsort(everyone, kind="stable")[:requests]
    owner = np.repeat(np.arange(len(streams)), [len(each) for each in times])[order]
    prompts, outputs = np.empty((2, requests), np.int64)
    rows = [np.flatnonzero(owner == number) for number in range(len(streams))]
    ids = []
    for number, (stream, mine) in enumerate(zip(streams, rows, strict=True)):
        rngs = [_rng(seed, number, part) for part in range(PARTS)]
        prompts[mine], outputs[mine], own = draw_lengths(stream, len(mine), rngs, number)
        ids.append(own)
    arrivals = everyone[order]
    labels = np.array([stream.label for stream in streams], object)
    return Trace(
        arrivals - arrivals[0],
        prompts,
        outputs,
        tenant=labels[owner],
        **prefix_columns(streams, ids, np.argsort(np.concatenate(rows), kind="stable")),
    )


def draw_lengths(
    stream: Stream, count: int, rngs: Sequence[np.random.Generator], number: int
) -> tuple[np.ndarray, np.ndarray, Ragged]:
    """Draw prompts, outputs, int64 (count,), and prefix ids of the first requests of a stream.

    Args:
        stream: what to draw.
        count: how many.
        rngs: one a part, in the order of the module's seeds; the first has drawn the gaps.
        number: of the stream; no other stream has its prefix ids.
    """
    prompts = stream.prompt.tokens(rngs[1], count)
    outputs = stream.output.tokens(rngs[2], count)
    if stream.conversations is None or count == 0:
        return prompts, outputs, Ragged.empty(count)
    prompts, ids = stream.conversations.prompts(prompts, outputs, (rngs[3], rngs[4]), number)
    return prompts, outputs, ids


def prefix_columns(
    streams: Sequence[Stream], ids: Sequence[Ragged], order: np.ndarray
) -> dict[str, Any]:
    """Return the arguments of `Trace` about prefixes: none if no stream has conversations.

    Args:
        streams: one a tenant.
        ids: of each stream's requests.
        order: which of all these, stream after stream, each row of the trace is.

    Raises:
        ConfigError: ids of two streams stand for different numbers of tokens.
    """
    sizes = {x.conversations.block_tokens for x in streams if x.conversations is not None}
    if not sizes:
        return {}
    if len(sizes) > 1:
        told = ", ".join(map(str, sorted(sizes)))
        raise ConfigError(f"block_tokens must be one for all tenants, not {told}")
    return {"prefix_ids": Ragged.joined(ids)[order], "prefix_block_tokens": sizes.pop()}


def _times_of_first(streams: Sequence[Stream], requests: int, seed: int) -> list[np.ndarray]:
    """Draw each stream at least as far as the instant by which `requests` have arrived in all."""
    total = sum(stream.rate_per_s for stream in streams)
    # A guess, made longer until it reaches: a longer draw begins with the shorter one.
    counts = [math.ceil(1.1 * requests * stream.rate_per_s / total) + 16 for stream in streams]
    times = [_draw(seed, *each) for each in zip(range(len(streams)), streams, counts, strict=True)]
    while True:
        everyone = np.concatenate(times)
        end = np.partition(everyone, requests - 1)[requests - 1]
        short = [number for number, drawn in enumerate(times) if drawn[-1] < end]
        if not short:
            return times
        for number in short:
            times[number] = _draw(seed, number, streams[number], 2 * len(times[number]))


def _draw(seed: int, number: int, stream: Stream, count: int) -> np.ndarray:
    """Draw `count` instants of a stream; the one at 0, where it begins, is no request."""
    return stream.arrivals.times(_rng(seed, number, 0), count + 1, stream.rate_per_s)[1:]


def _rng(seed: int, number: int, part: int) -> np.random.Generator:
    """Return the generator of one part of one stream: a grandchild of the seed."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, part)))
