"""Mooncake traces (Kimi): JSON lines with timestamp, input_length, output_length, hash_ids.

Published with Qin et al., "Mooncake: Trading more storage for less computation", FAST 2025, at
https://github.com/kvcache-ai/Mooncake.
"""

from sweeps.workloads.build import read_table, with_ids
from sweeps.workloads.parameters import check_whole
from sweeps.workloads.source import Format, Source
from vecsched import Trace

NAMES = {
    "arrival_s": "timestamp",
    "prompt_tokens": "input_length",
    "output_tokens": "output_length",
}
IDS = "hash_ids"
BLOCK_SIZE = 512


def recognises(source: Source) -> bool:
    """Tell by the ids beside a length; formats with more columns than these are asked before."""
    return {IDS, NAMES["prompt_tokens"]} <= set(source.head_columns)


def read(source: Source, *, block_size: int = BLOCK_SIZE) -> Trace:
    """Read a Mooncake trace; timestamps are milliseconds.

    Requests arrive in batches of one instant: such ties keep the order of the file.

    The ids, one for each block of the prompt with its last block perhaps not full, are global to
    the file: they become the trace's prefix ids.

    Args:
        source: JSON lines.
        block_size: tokens an id stands for.

    Raises:
        InputError: naming file, row, field and value.
        ConfigError: the block size is impossible.
    """
    check_whole("block_size", block_size, least=1)
    return read_table(source, with_ids(source, NAMES, IDS), "ms", block_tokens=block_size)


FORMAT = Format(
    "Mooncake JSONL: timestamp (ms), input_length, output_length, hash_ids (blocks of 512)",
    recognises,
    read,
    options=("block_size",),
)
