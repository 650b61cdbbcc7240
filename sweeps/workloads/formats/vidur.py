"""Traces of the Vidur simulator: CSV with num_prefill_tokens and num_decode_tokens.

See Agrawal et al., "Vidur: A large-scale simulation framework for LLM inference", MLSys 2024.
"""

from collections.abc import Mapping
from typing import Any

from sweeps.workloads.build import read_table
from sweeps.workloads.draw import OPTIONS, Drawn
from sweeps.workloads.source import Format, Source
from vecsched import Trace

NAMES = {
    "arrival_s": "arrived_at",
    "prompt_tokens": "num_prefill_tokens",
    "output_tokens": "num_decode_tokens",
}


def recognises(source: Source) -> bool:
    """Tell by the names of the two token columns."""
    return any(NAMES[name] in source.head_columns for name in ("prompt_tokens", "output_tokens"))


def read(
    source: Source,
    *,
    rate_per_s: float | None = None,
    arrivals: str | Mapping[str, Any] = "poisson",
    seed: int = 0,
) -> Trace:
    """Read a Vidur trace; `arrived_at` is in seconds.

    Files of lengths only, without that column, need an arrival process; if one is given, it
    replaces the times of a file that has them. See `sweeps.workloads.draw.Drawn`.

    Raises:
        InputError: naming file, row, field and value.
        ConfigError: the arrival process is impossible.
    """
    return read_table(source, NAMES, drawn=Drawn(rate_per_s, arrivals, seed))


FORMAT = Format(
    "Vidur CSV: arrived_at (s) or none, num_prefill_tokens, num_decode_tokens",
    recognises,
    read,
    options=OPTIONS,
)
