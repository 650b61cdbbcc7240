"""BurstGPT traces, versions 1 to 3: CSV with Timestamp, Model, Request tokens, Response tokens, ...

Published with Wang et al., "BurstGPT: A real-world workload dataset to optimize LLM serving
systems", KDD 2025, at https://github.com/HPMLL/BurstGPT.
"""

from sweeps.workloads.build import read_table, with_tenant
from sweeps.workloads.source import Format, Source
from vecsched import Trace

NAMES = {
    "arrival_s": "Timestamp",
    "prompt_tokens": "Request tokens",
    "output_tokens": "Response tokens",
}


def recognises(source: Source) -> bool:
    """Tell by the names of the two token columns, which no other format has."""
    return any(NAMES[name] in source.head_columns for name in ("prompt_tokens", "output_tokens"))


def read(source: Source, *, tenant: str | None = None) -> Trace:
    """Read a BurstGPT trace; timestamps are seconds, on a grid of one second.

    Columns are found by name, as version 3 has two more in the middle. Failed requests, which have
    no response tokens, stay in the trace. The long files span more than the clock's 53 days: read
    a part of them with `window_s`.

    Args:
        source: CSV.
        tenant: column that labels the tenants, such as "Model" or "Log Type"; None: a single one.

    Raises:
        InputError: naming file, row, field and value.
    """
    return read_table(source, with_tenant(NAMES, tenant))


FORMAT = Format(
    "BurstGPT CSV, versions 1 to 3: Timestamp (s), Model, Request tokens, Response tokens, ...",
    recognises,
    read,
    options=("tenant",),
)
