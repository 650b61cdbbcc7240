"""Policies: an order of the waiting queue.

A static policy gives every request a key that does not change while it waits, so it is one
vectorised function from a trace's columns to keys. Keys are sorted once into ranks (ties: arrival,
then row); the kernels see only ranks. **Adding a policy is one function here**, with its twin in
`tests/naive.py`.

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
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vecsched.errors import ConfigError, did_you_mean
from vecsched.trace import Trace


class StaticPolicy(NamedTuple):
    """One row of the table: the key function and the parameter it takes, if any."""

    keys: Callable[[Trace, float], np.ndarray]
    default: float | None = None
    needs: str | None = None


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
    _, rank = np.unique(
        np.stack([trace.priority, trace.engine_time_s]), axis=1, return_inverse=True
    )
    return rank.reshape(-1)


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


POLICIES: dict[str, StaticPolicy] = {
    "fcfs": StaticPolicy(fcfs),
    "shortest_prompt": StaticPolicy(shortest_prompt),
    "shortest_output": StaticPolicy(shortest_output),
    "shortest_total": StaticPolicy(shortest_total),
    "longest_total": StaticPolicy(longest_total),
    "priority": StaticPolicy(priority, needs="priority"),
    "deadline": StaticPolicy(deadline, needs="deadline_s"),
    "edf": StaticPolicy(deadline, needs="deadline_s"),
    "aging": StaticPolicy(aging, default=100.0),
    "random": StaticPolicy(random, default=0.0),
}


def parse_policy(text: str) -> tuple[str, float]:
    """Split "name" or "name(parameter)" into the name and its parameter (default filled in).

    Raises:
        ConfigError: the policy is unknown, or its parameter missing, superfluous or no number.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*([^()]*?)\s*\))?\s*", str(text))
    name = match[1] if match else str(text)
    if match is None or name not in POLICIES:
        raise ConfigError(f"unknown policy {text!r}; {did_you_mean(name, POLICIES)}")
    default = POLICIES[name].default
    if match[2] is None:
        return name, default or 0.0
    if default is None:
        raise ConfigError(f"policy {name!r} takes no parameter, but {text!r} gives one")
    try:
        parameter = float(match[2])
    except ValueError:
        parameter = -1.0
    whole_number_wanted = name == "random"
    if not 0 <= parameter < 2**53 or (whole_number_wanted and parameter != int(parameter)):
        kind = "whole number" if whole_number_wanted else "number"
        raise ConfigError(f"policy {text!r}: the parameter must be a {kind} >= 0, not {match[2]!r}")
    return name, parameter


def order_of(trace: Trace, policy: str) -> np.ndarray:
    """Return the order in which `policy` serves, as places in `trace.order`: int64 (n,).

    Raises:
        ConfigError: the policy is unknown, or the trace lacks a column that it needs.
    """
    name, parameter = parse_policy(policy)
    needed = POLICIES[name].needs
    if needed is not None and getattr(trace, needed) is None:
        raise ConfigError(f"policy {name!r} needs the trace column {needed!r}, which is missing")
    keys = POLICIES[name].keys(trace, parameter)[trace.order]
    # Stable over arrival order: equal keys keep arrival, then row order.
    return np.argsort(keys, kind="stable")
