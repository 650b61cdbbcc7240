"""vecsched: a vectorised batch scheduler for LLM serving.

Requests are columns, decisions are integers, time is a whole number of picoseconds, and a sweep of
thousands of scheduler configurations takes a minute. Start with::

    from vecsched import CostModel, SchedulerConfig, Trace, simulate

    trace = Trace([0.0, 0.1], [1000, 200], [50, 20])
    result = simulate(trace, SchedulerConfig(), CostModel.preset("llama3-8b-a100"))
    result.summary["ttft_p99_s"]

Reading guide: `boundary` (the four functions of one iteration), `disciplines.strict` (the same
decisions for a whole trace), `cost` (how long an iteration takes).

Names are loaded when first used, so that importing vecsched costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from vecsched._version import __version__

if TYPE_CHECKING:
    from vecsched.config import DISCIPLINES, SchedulerConfig
    from vecsched.cost import CostModel
    from vecsched.options import MetricOptions
    from vecsched.policies import POLICIES
    from vecsched.requests import RequestTable
    from vecsched.simulation import Result, engine_version, simulate
    from vecsched.trace import Trace

_HOME = {
    "DISCIPLINES": "config",
    "POLICIES": "policies",
    "CostModel": "cost",
    "MetricOptions": "options",
    "RequestTable": "requests",
    "Result": "simulation",
    "SchedulerConfig": "config",
    "Trace": "trace",
    "engine_version": "simulation",
    "simulate": "simulation",
}

__all__ = [
    "DISCIPLINES",
    "POLICIES",
    "CostModel",
    "MetricOptions",
    "RequestTable",
    "Result",
    "SchedulerConfig",
    "Trace",
    "__version__",
    "engine_version",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'vecsched' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"vecsched.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
