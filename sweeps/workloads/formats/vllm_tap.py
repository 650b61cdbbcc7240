"""Taps of a running vLLM: JSON lines, a header {"meta": ...} and then one object a request."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.workloads.build import TIME_UNITS, trace_of
from sweeps.workloads.convert import Cells, listed_numbers
from sweeps.workloads.draw import OPTIONS, Drawn
from sweeps.workloads.prefix import count_ids
from sweeps.workloads.source import Format, Source
from vecsched import Trace
from vecsched.errors import InputError

NAMES = {
    "arrival_s": "arrival_ms",
    "prompt_tokens": "prompt_tokens",
    "output_tokens": "output_tokens",
}
IDS = "block_hashes"


def recognises(source: Source) -> bool:
    """Tell by the header, or by the times between tokens."""
    return "meta" in source.head_columns or {"ttft_ms", "itl_ms"} <= set(source.head_columns)


def read(
    source: Source,
    *,
    rate_per_s: float | None = None,
    arrivals: str | Mapping[str, Any] = "poisson",
    seed: int = 0,
) -> Trace:
    """Read the requests of a tap, to replay them when they came.

    Header records are no requests and have no row number. Block hashes, whole numbers of 64 bits,
    are checked and not kept: a trace has no column for them yet.

    Args:
        source: JSON lines.
        rate_per_s: draw arrivals at this rate, for taps without `arrival_ms`; those in the file are
            passed over.
        arrivals: the process to draw them; see `sweeps.workloads.draw.Drawn`.
        seed: of the process.

    Raises:
        InputError: naming file, row, field and value.
        ConfigError: the arrival process is impossible.
    """
    requests = [each for each in source.documents() if "meta" not in each]
    if not requests:
        raise InputError("there are no requests", source=source.path)
    for row, request in enumerate(requests):
        count_ids(request.get(IDS), Cells(source.path, IDS, 0), row)
    drawn = Drawn(rate_per_s, arrivals, seed)
    has_times = any(NAMES["arrival_s"] in request for request in requests)
    if drawn.is_wanted(source, has_times=has_times):
        lengths = {ours: name for ours, name in NAMES.items() if ours != "arrival_s"}
        columns = _columns(source, requests, lengths)
        columns["arrival_s"] = drawn.times(source, len(requests))
        return trace_of(source, columns, NAMES)
    return trace_of(source, _columns(source, requests, NAMES), NAMES, TIME_UNITS["ms"])


def _columns(
    source: Source, requests: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> dict[str, np.ndarray]:
    return {
        ours: listed_numbers([each.get(name) for each in requests], Cells(source.path, name, 0))
        for ours, name in names.items()
    }


FORMAT = Format(
    'vLLM tap JSONL: {"meta": ...}, then prompt_tokens, output_tokens, arrival_ms, itl_ms, ...',
    recognises,
    read,
    options=OPTIONS,
)
