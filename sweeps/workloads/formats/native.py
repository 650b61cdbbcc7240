"""The project's own Parquet trace, as `write_trace` makes it: nothing to guess or to shift."""

from sweeps.workloads.build import CONVERTERS, load, make_trace, trace_of
from sweeps.workloads.source import Format, Source
from vecsched import Trace
from vecsched.errors import InputError

SCHEMA_KEY = b"vecsched.trace"
SCHEMA_VERSION = 1


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
    if source.window is not None:
        return trace_of(source, values, names)
    return make_trace(source, values, names)


FORMAT = Format("vecsched's own Parquet trace, schema versioned", recognises, read)
