"""Taps of a running vLLM: JSON lines, a header {"meta": ...} and then one object a request."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.workloads.build import TIME_UNITS, trace_of
from sweeps.workloads.convert import Cells, listed_numbers
from sweeps.workloads.draw import OPTIONS, Drawn
from sweeps.workloads.parameters import check_whole
from sweeps.workloads.prefix import listed_ids
from sweeps.workloads.source import Format, Source
from vecsched import Trace
from vecsched.errors import InputError

NAMES = {
    "arrival_s": "arrival_ms",
    "prompt_tokens": "prompt_tokens",
    "output_tokens": "output_tokens",
}
IDS = "block_hashes"
BLOCK_SIZE = 16


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
    become the trace's prefix ids; the header says how many tokens they stand for, or 16.

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
    requests, block_tokens = [], BLOCK_SIZE
    for each in source.documents():
        if "meta" not in each:
            requests.append(each)
        elif isinstance(each["meta"], dict):
            block_tokens = each["meta"].get("block_size", block_tokens)
    if not requests:
        raise InputError("there are no requests", source=source.path)
    check_whole("block_size", block_tokens, least=1)
    names = NAMES | ({"prefix_ids": IDS} if any(IDS in each for each in requests) else {})
    drawn = Drawn(rate_per_s, arrivals, seed)
    has_times = any(NAMES["arrival_s"] in request for request in requests)
    if drawn.is_wanted(source, has_times=has_times):
        lengths = {ours: name for ours, name in names.items() if ours != "arrival_s"}
        columns = _columns(source, requests, lengths)
        columns["arrival_s"] = drawn.times(source, len(requests))
        return trace_of(source, columns, names, block_tokens=block_tokens)
    columns = _columns(source, requests, names)
    return trace_of(source, columns, names, TIME_UNITS["ms"], block_tokens)


def _columns(
    source: Source, requests: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> dict[str, Any]:
    columns = {}
    for ours, name in names.items():
        convert = listed_ids if ours == "prefix_ids" else listed_numbers
        columns[ours] = convert([each.get(name) for each in requests], Cells(source.path, name, 0))
    return columns


FORMAT = Format(
    'vLLM tap JSONL: {"meta": ...}, then prompt_tokens, output_tokens, arrival_ms, itl_ms, ...',
    recognises,
    read,
    options=OPTIONS,
)
