"""Keys: a digest of everything that determines a point's result, and of nothing else.

That is its configuration, load and seed, and what its neighbours share: the trace's columns, the
cost model, the metric options and the engine version. Neither its number nor a name counts, so a
point keeps its key when others are added to the sweep.
"""

import hashlib
import json
from dataclasses import asdict

from sweeps.space import Point
from vecsched import CostModel, MetricOptions, Trace


def trace_fingerprint(trace: Trace) -> str:
    """Digest (sha256, 16 hex digits) of a trace's columns."""
    digest = hashlib.sha256()
    for name, column in trace.arrays().items():
        digest.update(f"{name} {column.dtype} {len(column)} ".encode())
        labels = column.dtype == object
        digest.update(
            json.dumps(column.tolist(), default=str).encode() if labels else column.tobytes()
        )
    return digest.hexdigest()[:16]


def key_context(fingerprint: str, cost: CostModel, metrics: MetricOptions, engine: str) -> bytes:
    """Digest what the keys of all points over one trace and cost model share."""
    shared = (fingerprint, cost.to_dict(), asdict(metrics), engine)
    return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).digest()


def point_key(point: Point, context: bytes) -> str:
    """Digest (sha256, 16 hex digits) what is a point's own, and its context."""
    own = json.dumps((point.choice.config.to_dict(), point.load, point.seed), sort_keys=True)
    return hashlib.sha256(context + own.encode()).hexdigest()[:16]
