"""Traces of the LLMServingSim simulator, and its logs of real runs: JSON lines with input_toks, ...

See Cho et al., "LLMServingSim: A HW/SW co-simulation infrastructure for LLM inference serving at
scale", IISWC 2024.
"""

from sweeps.workloads.build import read_table
from sweeps.workloads.source import Format, Source
from vecsched import Trace

NAMES = {
    "arrival_s": "arrival_time_ns",
    "prompt_tokens": "input_toks",
    "output_tokens": "output_toks",
}
# The log of a run has the wall clock, in seconds since 1970, and an id; its other stamps are of a
# monotonic clock, which cannot be compared with it.
LOG_NAMES = {**NAMES, "arrival_s": "arrival_time", "id": "request_id"}


def recognises(source: Source) -> bool:
    """Tell by the names of the two token columns."""
    return {"input_toks", "output_toks"} <= set(source.head_columns)


def read(source: Source) -> Trace:
    """Read an LLMServingSim trace, or the requests of a real run that it logged.

    Token ids, where there are any, are not read.

    Raises:
        InputError: naming file, row, field and value.
    """
    if LOG_NAMES["arrival_s"] in source.columns:
        return read_table(source, LOG_NAMES)
    return read_table(source, NAMES, "ns")


FORMAT = Format(
    "LLMServingSim JSONL: input_toks, output_toks, arrival_time_ns (or, in the log of a run, "
    "arrival_time in s)",
    recognises,
    read,
)
