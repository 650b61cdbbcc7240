"""Lay several traces over each other."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeps.workloads.prefix import apart
from vecsched import Trace
from vecsched.errors import InputError
from vecsched.ragged import Ragged

# What a trace without the column would have in it; the others it must have if one of them has.
_ABSENT = {"deadline_s": np.nan, "cancel_at_s": np.nan}
_ALL_OR_NONE = ("kv_blocks", "priority", "engine_time_s")


def merge_traces(traces: Mapping[str, Trace], *, shared_prefixes: bool = False) -> Trace:
    """Lay traces over each other, each counted from its own first arrival, in the order of time.

    A request's tenant is the label of its trace; where that has tenants, `label/tenant`. Its id is
    `label/id`. Ties are in the order of the traces.

    Args:
        traces: by label.
        shared_prefixes: equal prefix ids of two traces mean the same tokens; otherwise they are
            renumbered, so that the traces have none in common.

    Raises:
        InputError: there are none, a column that must be in all traces or in none is in some, or
            the traces' prefix ids stand for different numbers of tokens.
    """
    if not traces:
        raise InputError("there are no traces to merge")
    parts = {label: _columns(label, trace) for label, trace in traces.items()}
    names = dict.fromkeys(name for part in parts.values() for name in part)
    merged = {
        name: np.concatenate([_column(parts, label, name) for label in parts]) for name in names
    }
    order = np.argsort(merged["arrival_s"], kind="stable")
    columns: dict[str, Any] = {name: column[order] for name, column in merged.items()}
    block_tokens = _block_tokens(traces)
    if block_tokens:
        columns["prefix_ids"] = _prefix_ids(traces, shared_prefixes)[order]
    return Trace(**columns, prefix_block_tokens=block_tokens)


def _block_tokens(traces: Mapping[str, Trace]) -> int:
    """Return what a prefix id of all traces stands for; 0 if there are none."""
    sizes = {
        label: x.prefix_block_tokens for label, x in traces.items() if x.prefix_ids is not None
    }
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} in {label}" for label, size in sizes.items())
        raise InputError(
            f"prefix ids stand for different numbers of tokens ({told}): they cannot be compared",
            field="prefix_block_tokens",
        )
    return next(iter(sizes.values()), 0)


def _prefix_ids(traces: Mapping[str, Trace], shared: bool) -> Ragged:
    parts = [x.prefix_ids or Ragged.empty(len(x)) for x in traces.values()]
    ids = Ragged.joined(parts)
    if shared:
        return ids
    return apart(ids, np.repeat(np.arange(len(parts)), [len(part) for part in parts]))


def _columns(label: str, trace: Trace) -> dict[str, np.ndarray]:
    first = trace.arrival_s.min()
    columns = {
        "arrival_s": trace.arrival_s - first,
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
        "tenant": _labelled(label, trace.tenant, len(trace)),
        "id": _labelled(label, trace.id, len(trace)),
    }
    for name in _ABSENT:
        if getattr(trace, name) is not None:
            columns[name] = np.maximum(getattr(trace, name) - first, 0)
    columns |= {name: x for name in _ALL_OR_NONE if (x := getattr(trace, name)) is not None}
    return columns


def _labelled(label: str, names: np.ndarray | None, count: int) -> np.ndarray:
    column = np.full(count, label, object)
    if names is not None:
        column[:] = [label if name is None else f"{label}/{name}" for name in names]
    return column


def _column(parts: Mapping[str, Mapping[str, np.ndarray]], label: str, name: str) -> np.ndarray:
    if name in parts[label]:
        return parts[label][name]
    if name in _ABSENT:
        return np.full(len(parts[label]["arrival_s"]), _ABSENT[name])
    raise InputError(
        "is in other traces: it must be in all that are merged, or in none",
        source=label,
        field=name,
    )
