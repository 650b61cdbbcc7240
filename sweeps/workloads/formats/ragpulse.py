"""RAGPulse, one week of a university's RAG service: JSON lines whose ids are grouped by origin."""

import numpy as np
import pyarrow as pa

from sweeps.workloads.build import read_table, with_tenant
from sweeps.workloads.convert import Cells
from sweeps.workloads.prefix import id_lists
from sweeps.workloads.source import Format, Source
from vecsched import Trace

NAMES = {
    "arrival_s": "timestamp",
    "prompt_tokens": "input_length",
    "output_tokens": "output_length",
}
IDS = "hash_ids"


def recognises(source: Source) -> bool:
    """Tell by ids that are an object of lists, where other formats have one list."""
    return isinstance(source.record.get(IDS), dict)


def read(source: Source, *, tenant: str | None = None) -> Trace:
    """Read a RAGPulse trace; timestamps are whole seconds, written as text.

    Two pieces of a week each stand one behind the other: the clock goes back once. Rows stay where
    they are; simulation takes them in time order, so that the pieces interleave, and
    `Trace.backward_steps` counts the step.

    The ids (system prompt, passages, history, web search, user input) are checked and not kept: an
    id stands for any number of tokens, and those of a trace all stand for the same number.

    Args:
        source: JSON lines.
        tenant: column that labels the tenants, such as "session_id"; None: a single tenant.

    Raises:
        InputError: naming file, row, field and value.
    """
    source.read({IDS: _id_counts})
    return read_table(source, with_tenant(NAMES, tenant))


def _id_counts(array: pa.Array, cells: Cells) -> np.ndarray:
    """Convert objects of id lists to the number of ids in each."""
    counts = np.zeros(len(array), np.int64)
    if not pa.types.is_struct(array.type):
        raise cells.error("is not an object of lists", 0, array[0].as_py())
    for part in array.type:
        ids = id_lists(array.field(part.name), cells._replace(field=f"{IDS}.{part.name}"))
        counts += ids.lengths
    return counts


FORMAT = Format(
    "RAGPulse JSONL: timestamp (s, as text), input_length, output_length, session_id, hash_ids by "
    "origin",
    recognises,
    read,
    options=("tenant",),
)
