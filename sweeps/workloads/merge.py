"""Lay several traces over each other."""

from collections.abc import Mapping

import numpy as np

from vecsched import Trace
from vecsched.errors import InputError

# What a trace without the column would have in it; the others it must have if one of them has.
_ABSENT = {"deadline_s": np.nan, "cancel_at_s": np.nan}
_ALL_OR_NONE = ("kv_blocks", "priority", "engine_time_s")


def merge_traces(traces: Mapping[str, Trace]) -> Trace:
    """Lay traces over each other, each counted from its own first arrival, in the order of time.

    A request's tenant is the label of its trace; where that has tenants, `label/tenant`. Its id is
    `label/id`. Ties are in the order of the traces.

    Args:
        traces: by label.

    Raises:
        InputError: there are none, or a column that must be in all traces or in none is in some.
    """
    if not traces:
        raise InputError("there are no traces to merge")
    parts = {label: _columns(label, trace) for label, trace in traces.items()}
    names = dict.fromkeys(name for part in parts.values() for name in part)
    merged = {
        name: np.concatenate([_column(parts, label, name) for label in parts]) for name in names
    }
    order = np.argsort(merged["arrival_s"], kind="stable")
    return Trace(**{name: column[order] for name, column in merged.items()})


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
