"""The project's own Parquet trace, as `write_trace` makes it: nothing to guess or to shift."""

from sweeps.workloads.build import CONVERTERS, load, make_trace, trace_of
from sweeps.workloads.source import Format, Source
from vecsched import Trace
from vecsched.errors import InputError

SCHEMA_KEY = b"vecsched.trace"
# 2 added `prefix_ids`, and the tokens that one stands for to the metadata.
SCHEMA_VERSION = 2
BLOCK_KEY = b"vecsched.prefix_block_tokens"


def recognises(source: Source) -> bool:
    """Tell by the schema version in the file's metadata."""
    return SCHEMA_KEY in source.metadata


def read(source: Source) -> Trace:
    """Read a trace back, equal to the bit to the one written; its clock is kept as it is.

    Only a part, cut out by a window, begins at 0.

    Raises:
        InputError: the file is none of ours, or of a newer schema.
    """
    version = source.metadata.get(SCHEMA_KEY, b"").decode(errors="replace")
    if not version.isdigit() or not 1 <= int(version) <= SCHEMA_VERSION:
        raise InputError(
            f"is no trace schema that this version reads; known: 1 to {SCHEMA_VERSION}",
            source=source.path,
            field=SCHEMA_KEY.decode(),
            value=version or None,
        )
    names = {name: name for name in CONVERTERS if name in source.columns}
    values = load(source, names)
    block_tokens = source.metadata.get(BLOCK_KEY, b"0").decode(errors="replace")
    if not block_tokens.isdigit():
        raise InputError(
            "must be a number of tokens",
            source=source.path,
            field=BLOCK_KEY.decode(),
            value=block_tokens,
        )
    if source.window is not None:
        return trace_of(source, values, names, block_tokens=int(block_tokens))
    return make_trace(source, values, names, block_tokens=int(block_tokens))


FORMAT = Format("vecsched's own Parquet trace, schema versioned", recognises, read)
