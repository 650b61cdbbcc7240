"""Azure LLM inference traces, 2023 and 2024: CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

Published with Patel et al., "Splitwise: Efficient generative LLM inference using phase splitting",
ISCA 2024 (2023 traces), and Stojkovic et al., "DynamoLLM", HPCA 2025 (2024 traces), at
https://github.com/Azure/AzurePublicDataset.
"""

from sweeps.workloads.build import read_table
from sweeps.workloads.source import Format, Source
from vecsched import Trace

NAMES = {
    "arrival_s": "TIMESTAMP",
    "prompt_tokens": "ContextTokens",
    "output_tokens": "GeneratedTokens",
}


def recognises(source: Source) -> bool:
    """Tell by the names of the two token columns, which no other format has."""
    return any(NAMES[name] in source.head_columns for name in ("prompt_tokens", "output_tokens"))


def read(source: Source) -> Trace:
    """Read an Azure trace.

    Times are read as whole nanoseconds, so that all seven digits of the 2023 files count, and are
    rounded once, to float64 seconds. A time without a UTC offset (2023) is taken as UTC; the
    fraction may be absent. Columns beside the three are not read.

    Raises:
        InputError: naming file, row, field and value.
    """
    return read_table(source, NAMES, "iso")


FORMAT = Format(
    "Azure 2023 and 2024 CSV: TIMESTAMP, ContextTokens, GeneratedTokens", recognises, read
)
