"""Keys: a digest of everything that determines a point's result, and of nothing else.

That is its configuration, load and seed, and what its neighbours share: the trace's columns, the
cost model, the metric options and the engine version. Neither its number nor a name counts, so a
point keeps its key when others are added to the sweep.
"""

import hashlib
import json
from dataclasses import asdict, fields

import numpy as np

from sweeps.space import Point
from vecsched import CostModel, MetricOptions, Trace
from vecsched.ragged import Ragged


def trace_fingerprint(trace: Trace) -> str:
    """Digest (sha256, 16 hex digits) of a trace's columns."""
    digest = hashlib.sha256()
    for field in fields(trace):
        column = getattr(trace, field.name)
        digest.update(f"{field.name} {getattr(column, 'dtype', None)} ".encode())
        if isinstance(column, Ragged):
            digest.update(column.begin.tobytes() + column.values.tobytes())
        elif isinstance(column, np.ndarray) and column.dtype != object:
            digest.update(column.tobytes())
        elif column is not None:
            values = column.tolist() if isinstance(column, np.ndarray) else column
            digest.update(json.dumps(values, default=str).encode())
    return digest.hexdigest()[:16]


def key_context(fingerprint: str, cost: CostModel, metrics: MetricOptions, engine: str) -> bytes:
    """Digest what the keys of all points over one trace and cost model share."""
    shared = (fingerprint, cost.to_dict(), asdict(metrics), engine)
    return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).digest()


def point_key(point: Point, context: bytes) -> str:
    """Digest (sha256, 16 hex digits) what is a point's own, and its context."""
    own = json.dumps((point.choice.config.to_dict(), point.load, point.seed), sort_keys=True)
    return hashlib.sha256(context + own.encode()).hexdigest()[:16]
