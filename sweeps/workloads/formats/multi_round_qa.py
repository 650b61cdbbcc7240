"""Results of the multi-round-qa benchmark (vLLM production stack, AIBrix): a CSV row a request."""

from sweeps.workloads.build import read_table, with_tenant
from sweeps.workloads.source import Format, Source
from vecsched import Trace

NAMES = {
    "arrival_s": "launch_time",
    "prompt_tokens": "prompt_tokens",
    "output_tokens": "generation_tokens",
}


def recognises(source: Source) -> bool:
    """Tell by the two columns that other tables of results do not have."""
    return {"generation_tokens", "launch_time"} <= set(source.head_columns)


def read(source: Source, *, tenant: str | None = None) -> Trace:
    """Read the requests of a run, to replay them at their launch times.

    Rows stand in the order of completion, so launch times go back and forth.

    Args:
        source: CSV.
        tenant: column that labels the tenants, such as "user_id"; None: a single tenant.

    Raises:
        InputError: naming file, row, field and value.
    """
    return read_table(source, with_tenant(NAMES, tenant))


FORMAT = Format(
    "multi-round-qa CSV: prompt_tokens, generation_tokens, user_id, launch_time (s), ...",
    recognises,
    read,
    options=("tenant",),
)
