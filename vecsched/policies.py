"""Policies: an order of the waiting queue.

A static policy gives every request a key that does not change while it waits, so it is one
vectorised function from a trace's columns to keys. Keys are sorted once into ranks (ties: arrival,
then row); the kernels see only ranks. **Adding a policy is one function here**, with its twin in
`tests/naive/policies.py`.

| policy | first served | source |
|---|---|---|
| `fcfs` | the earliest arrival | every engine's default |
| `shortest_prompt` | the fewest prompt tokens | shortest job first, prefill known |
| `shortest_output` | the fewest output tokens | shortest job first by an oracle of the output |
| `shortest_total` | the fewest tokens in all | shortest job first |
| `longest_total` | the most tokens in all | LPT, Graham 1969 |
| `priority` | the smallest `priority` | vLLM's priority policy |
| `deadline` (`edf`) | the earliest `deadline_s`; none: last | EDF, Liu and Layland 1973 |
| `aging(rate)` | the least tokens - rate x seconds waited | aging at one common rate |
| `random(seed)` | by lot | baseline |

Fair queueing between tenants is dynamic: who is next depends on who was served, so the kernel picks
the tenant (`vecsched/kernels/fair.py`) and each tenant's requests stand in arrival order.

| policy | next tenant | source |
|---|---|---|
| `vtc` | charged the least so far | virtual token counter, Sheng et al., OSDI'24 |
| `drr(quantum)` | in turn, while it may spend | deficit round robin, Shreedhar and Varghese, 1995 |
| `wfq` | with the least finish tag | self-clocked fair queueing, Golestani, INFOCOM'94 |

No scheduler knows an output's length. Policies that use it see `predicted_output_tokens` where the
trace has that column, else the true length times a log-normal error, whose spread
(`prediction_error`, 0: an oracle) and seed the configuration gives.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vecsched.errors import ConfigError, did_you_mean
from vecsched.trace import Trace


class Parameter(NamedTuple):
    """The number that may stand in parentheses behind a policy's name."""

    default: float
    least: int = 0
    most: int = 2**53 - 1  # float64 holds every whole number up to here
    is_whole: bool = False

    def read(self, text: str) -> float | None:
        """Return the number that `text` says, or None if it cannot be the parameter."""
        try:
            value = float(text)
        except ValueError:
            return None
        is_good = self.least <= value <= self.most and not (self.is_whole and value % 1)
        return value if is_good else None

    def __str__(self) -> str:
        kind = "a whole number" if self.is_whole else "a number"
        return f"{kind} from {self.least} to {self.most}"


class Policy(NamedTuple):
    """One row of the table.

    Attributes:
        keys: key of each request; smaller goes first.
        parameter: what may stand in parentheses behind the name, if anything.
        needs: a column that the trace must have.
        is_fair: tenants take turns; the key orders the requests of one tenant.
    """

    keys: Callable[[Trace, float], np.ndarray]
    parameter: Parameter | None = None
    needs: str | None = None
    is_fair: bool = False


def fcfs(trace: Trace, _: float) -> np.ndarray:
    """First come, first served: ties are broken by arrival anyway, so one key serves all."""
    return np.zeros(len(trace), np.int64)


def shortest_prompt(trace: Trace, _: float) -> np.ndarray:
    """Fewest prompt tokens first."""
    return trace.prompt_tokens


def shortest_output(trace: Trace, _: float) -> np.ndarray:
    """Fewest output tokens first: an oracle, for no engine knows the output."""
    return trace.output_tokens


def shortest_total(trace: Trace, _: float) -> np.ndarray:
    """Fewest tokens first, prompt and output together."""
    return trace.prompt_tokens + trace.output_tokens


def longest_total(trace: Trace, _: float) -> np.ndarray:
    """Most tokens first."""
    return -(trace.prompt_tokens + trace.output_tokens)


def priority(trace: Trace, _: float) -> np.ndarray:
    """Smallest priority number first, then the engine's time stamp where there is one: vLLM's."""
    assert trace.priority is not None
    if trace.engine_time_s is None:
        return trace.priority
    # Their rank as pairs; not stacked into one array, where a large priority would lose digits.
    urgency = np.unique(trace.priority, return_inverse=True)[1]
    instants, instant = np.unique(trace.engine_time_s, return_inverse=True)
    return urgency * len(instants) + instant


def deadline(trace: Trace, _: float) -> np.ndarray:
    """Earliest deadline first; requests without one come last."""
    assert trace.deadline_s is not None
    return np.where(np.isnan(trace.deadline_s), np.inf, trace.deadline_s)


def aging(trace: Trace, rate: float) -> np.ndarray:
    """Shortest first, but each second of waiting counts like `rate` tokens less.

    tokens - rate x (now - arrival) and tokens + rate x arrival differ by the same amount for every
    request, so the second, which does not change, orders the queue.
    """
    return (trace.prompt_tokens + trace.output_tokens) + rate * trace.arrival_s


def random(trace: Trace, seed: float) -> np.ndarray:
    """A lot drawn for each row: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) of seed and row."""
    with np.errstate(over="ignore"):
        z = np.arange(1, len(trace) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(int(seed)) * np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


POLICIES: dict[str, Policy] = {
    "fcfs": Policy(fcfs),
    "shortest_prompt": Policy(shortest_prompt),
    "shortest_output": Policy(shortest_output),
    "shortest_total": Policy(shortest_total),
    "longest_total": Policy(longest_total),
    "priority": Policy(priority, needs="priority"),
    "deadline": Policy(deadline, needs="deadline_s"),
    "edf": Policy(deadline, needs="deadline_s"),
    "aging": Policy(aging, Parameter(100.0)),
    "random": Policy(random, Parameter(0.0, is_whole=True)),
    "vtc": Policy(fcfs, is_fair=True),
    "drr": Policy(fcfs, Parameter(2000.0, least=1, most=2**31 - 1, is_whole=True), is_fair=True),
    "wfq": Policy(fcfs, is_fair=True),
}


def parse_policy(text: str) -> tuple[str, float]:
    """Split "name" or "name(parameter)" into the name and its parameter (default filled in).

    Raises:
        ConfigError: the policy is unknown, or its parameter superfluous, no number or out of range.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*([^()]*?)\s*\))?\s*", str(text))
    name = match[1] if match else str(text)
    if match is None or name not in POLICIES:
        raise ConfigError(f"unknown policy {text!r}; {did_you_mean(name, POLICIES)}")
    parameter, given = POLICIES[name].parameter, match[2]
    if given is None:
        return name, parameter.default if parameter else 0.0
    if parameter is None:
        raise ConfigError(f"policy {name!r} takes no parameter, but {text!r} gives one")
    value = parameter.read(given)
    if value is None:
        raise ConfigError(f"policy {text!r}: the parameter must be {parameter}, not {given!r}")
    return name, value


def predicted_output(trace: Trace, error: float, seed: int) -> np.ndarray:
    """Output tokens as the scheduler believes them to be: int64 (n,), at least 1.

    The blur is exp(error x z) with z normal to four digits or so: the sum of twelve uniform lots
    less six, each a SplitMix64 lot of row and seed.

    Raises:
        ConfigError: the trace has predictions of its own and an error is asked for.
    """
    if trace.predicted_output_tokens is not None:
        if error > 0:
            raise ConfigError(
                "prediction_error blurs true lengths, but the trace has predicted_output_tokens"
            )
        return trace.predicted_output_tokens
    if error == 0:
        return trace.output_tokens
    lots = sum(random(trace, 12 * seed + lot) / 2.0**64 for lot in range(12))
    return np.maximum(np.rint(trace.output_tokens * np.exp(error * (lots - 6.0))), 1).astype(
        np.int64
    )


def as_believed(trace: Trace, error: float, seed: int) -> Trace:
    """The trace with the output lengths that the scheduler believes."""
    output = predicted_output(trace, error, seed)
    return trace if output is trace.output_tokens else replace(trace, output_tokens=output)


def order_of(trace: Trace, policy: str) -> np.ndarray:
    """Return the order in which `policy` serves, as places in `trace.order`: int64 (n,).

    Under a fair policy, tenant by tenant, each in the order of its own requests.

    Raises:
        ConfigError: the policy is unknown, or the trace lacks a column that it needs.
    """
    name, parameter = parse_policy(policy)
    needed = POLICIES[name].needs
    if needed is not None and getattr(trace, needed) is None:
        raise ConfigError(f"policy {name!r} needs the trace column {needed!r}, which is missing")
    keys = POLICIES[name].keys(trace, parameter)[trace.order]
    # Stable over arrival order: equal keys keep arrival, then row order.
    order = np.argsort(keys, kind="stable")
    if not POLICIES[name].is_fair:
        return order
    return order[np.argsort(trace.tenant_codes[trace.order][order], kind="stable")]
