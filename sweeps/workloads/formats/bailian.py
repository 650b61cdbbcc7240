"""Qwen-Bailian traces (Alibaba): JSON lines with chat_id, parent_chat_id, timestamp, hash_ids, ...

Published with Wang et al., "KVCache cache in the wild", ATC 2025, at
https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon.
"""

from sweeps.workloads.build import read_table, with_ids, with_tenant
from sweeps.workloads.source import Format, Source
from vecsched import Trace

NAMES = {
    "arrival_s": "timestamp",
    "prompt_tokens": "input_length",
    "output_tokens": "output_length",
    "id": "chat_id",
}
IDS = "hash_ids"
BLOCK_SIZE = 16


def recognises(source: Source) -> bool:
    """Tell by the two ids that make a conversation of requests."""
    return {"chat_id", "parent_chat_id"} <= set(source.head_columns)


def read(source: Source, *, tenant: str | None = None) -> Trace:
    """Read a Bailian trace; timestamps are seconds. A request's id is its `chat_id`.

    A turn is replayed when it came, whether or not the one before it has been answered; its parent
    may lie before the start of the file. The `hash_ids`, one for each block of 16 tokens with the
    last perhaps not full, are global to the file: they become the trace's prefix ids.

    Args:
        source: JSON lines.
        tenant: column that labels the tenants, such as "type"; None: a single tenant.

    Raises:
        InputError: naming file, row, field and value.
    """
    names = with_ids(source, with_tenant(NAMES, tenant), IDS)
    return read_table(source, names, block_tokens=BLOCK_SIZE)


FORMAT = Format(
    "Qwen-Bailian JSONL: chat_id, parent_chat_id, timestamp (s), input_length, output_length, "
    "type, turn, hash_ids (blocks of 16)",
    recognises,
    read,
    options=("tenant",),
)
