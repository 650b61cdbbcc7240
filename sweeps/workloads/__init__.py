"""Workloads: trace files in, synthetic traces, statistics, and our own trace file out.

A new file format is one file in `formats` with a `FORMAT` and one row in `FORMATS`.
"""

from sweeps.workloads.conversations import Conversations
from sweeps.workloads.formats import FORMATS
from sweeps.workloads.merge import merge_traces
from sweeps.workloads.read import read_trace
from sweeps.workloads.sharing import describe_sharing, shared_blocks
from sweeps.workloads.source import Format
from sweeps.workloads.stats import describe, describe_tenants
from sweeps.workloads.synthetic import PRESETS, SyntheticSpec, TenantSpec, generate
from sweeps.workloads.write import as_records, write_trace

__all__ = [
    "FORMATS",
    "PRESETS",
    "Conversations",
    "Format",
    "SyntheticSpec",
    "TenantSpec",
    "as_records",
    "describe",
    "describe_sharing",
    "describe_tenants",
    "generate",
    "merge_traces",
    "read_trace",
    "shared_blocks",
    "write_trace",
]
