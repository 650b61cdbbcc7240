"""Traces of the SplitwiseSim simulator: CSV with arrival_timestamp, prompt_size, token_size, ...

See Patel et al., "Splitwise: Efficient generative LLM inference using phase splitting", ISCA 2024.
"""

import numpy as np

from sweeps.workloads.build import read_table, with_tenant
from sweeps.workloads.convert import required_numbers
from sweeps.workloads.source import Format, Source
from vecsched import Trace
from vecsched.errors import InputError

NAMES = {
    "arrival_s": "arrival_timestamp",
    "prompt_tokens": "prompt_size",
    "output_tokens": "token_size",
    "id": "request_id",
}


def recognises(source: Source) -> bool:
    """Tell by the names of the two token columns."""
    return {"prompt_size", "token_size"} <= set(source.head_columns)


def read(source: Source, *, tenant: str | None = "application_id") -> Trace:
    """Read a SplitwiseSim trace; times are seconds. A tenant is an application.

    Args:
        source: CSV.
        tenant: column that labels the tenants; None: a single tenant.

    Raises:
        InputError: naming file, row, field and value; also if a row stands for several requests.
    """
    if "batch_size" in source.columns:
        sizes = source.read({"batch_size": required_numbers})["batch_size"]
        if (sizes != 1).any():
            row = int(np.argmax(sizes != 1))
            raise InputError(
                "a row must be one request",
                source=source.path,
                row=row,
                field="batch_size",
                value=sizes[row].item(),
            )
    return read_table(source, with_tenant(NAMES, tenant))


FORMAT = Format(
    "SplitwiseSim CSV: request_id, application_id, arrival_timestamp (s), batch_size, "
    "prompt_size, token_size",
    recognises,
    read,
    options=("tenant",),
)
