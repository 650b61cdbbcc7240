"""Columns of a trace in arrival order, as the kernels read them.

What depends on the trace alone, or on a knob that many configurations share, is computed once and
kept with the trace, so that a sweep pays for it once.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from vecsched.clock import NEVER_PS, to_ps
from vecsched.config import ENGINES, SchedulerConfig
from vecsched.errors import ConfigError
from vecsched.kernels.arrivals import DEMAND_TOO_LARGE, KV_TOO_LARGE, WELCOME, check_at_door
from vecsched.kernels.engine import Limits, Requests
from vecsched.requests import CANCELLED, TIMED_OUT
from vecsched.trace import Trace


def discipline_of(config: SchedulerConfig) -> Any:
    """The module of the configuration's discipline."""
    return importlib.import_module(f"vecsched.disciplines.{config.discipline}")


def once_per_trace(trace: Trace, key: Any, compute: Callable[[], Any]) -> Any:
    """Return what `compute` returned when this trace was first asked for `key`."""
    if key not in trace.memo:
        trace.memo[key] = compute()
    return trace.memo[key]


def requests_of(trace: Trace, config: SchedulerConfig, limits: Limits) -> Requests:
    """Columns in arrival order.

    Raises:
        ConfigError: the KV cache cannot hold any request.
    """
    longest = config.max_model_len
    arrival_ps, prompt, output = once_per_trace(
        trace, ("work", longest), lambda: _work(trace, longest)
    )
    kv_blocks = once_per_trace(trace, _kv_key(config), lambda: _kv_blocks(trace, output, config))
    kv_need = kv_blocks
    if discipline_of(config).IS_PAGED and config.kv_reserve == "on_demand":
        # The last token's KV is never computed.
        kv_need = once_per_trace(
            trace,
            ("kv_need", config.block_size, longest),
            lambda: -(-(prompt + output - 1) // config.block_size),
        )
    ends = once_per_trace(trace, ("ends", config.timeout_s), lambda: _ends(trace, config.timeout_s))
    door = np.empty(len(trace), np.int8)
    check_at_door(prompt, output, kv_need, limits, door)
    _check_capacity(config, kv_need, door)
    return Requests(arrival_ps, prompt, output, kv_blocks, door, *ends)


def _check_capacity(config: SchedulerConfig, kv_need: np.ndarray, door: np.ndarray) -> None:
    """Refuse a KV capacity with which nothing can run, as an engine does when it starts."""
    too_large = door == KV_TOO_LARGE
    could_run = (door == WELCOME) | (door == DEMAND_TOO_LARGE)
    if config.discipline in ENGINES and too_large.any() and not could_run.any():
        raise ConfigError(
            f"kv_blocks {config.kv_blocks} cannot hold any request of the trace: the smallest "
            f"needs {kv_need[too_large].min()} blocks of {config.block_size} tokens"
        )


def _work(trace: Trace, max_model_len: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(arrival in ps, prompt, output as cut to the model's length), in arrival order."""
    output = cut_outputs(trace, max_model_len)[trace.order]
    return to_ps(trace.arrival_s[trace.order]), trace.prompt_tokens[trace.order], output


def cut_outputs(trace: Trace, max_model_len: int | None) -> np.ndarray:
    """Output tokens as cut to the model's length, in row order: int64 (n,)."""
    if max_model_len is None:
        return trace.output_tokens
    room = max_model_len - trace.prompt_tokens
    return np.where(room > 0, np.minimum(trace.output_tokens, room), trace.output_tokens)


def _kv_key(config: SchedulerConfig) -> tuple[Any, ...]:
    whole_model = config.discipline == "orca"
    return "kv", config.block_size, config.max_tokens, config.max_model_len, whole_model


def _kv_blocks(trace: Trace, output: np.ndarray, config: SchedulerConfig) -> np.ndarray:
    """Blocks that an admission sets aside if it sets aside all."""
    if config.discipline == "orca" and config.max_model_len is not None:
        return np.full(len(trace), -(-config.max_model_len // config.block_size), np.int64)
    if trace.kv_blocks is not None:
        return trace.kv_blocks[trace.order]
    reserved = output if config.max_tokens is None else config.max_tokens
    return -(-(trace.prompt_tokens[trace.order] + reserved) // config.block_size)


def _ends(trace: Trace, timeout_s: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(instant, status it gives, rows by instant) of cancellations and timeouts."""
    arrival_ps = to_ps(trace.arrival_s[trace.order])
    cancel = np.full(len(trace), NEVER_PS)
    if trace.cancel_at_s is not None:
        given = trace.cancel_at_s[trace.order]
        cancel[~np.isnan(given)] = to_ps(given[~np.isnan(given)])
    timeout = np.full(len(trace), NEVER_PS)
    if timeout_s is not None:
        timeout = arrival_ps + to_ps(timeout_s)
    status = np.where(cancel <= timeout, CANCELLED, TIMED_OUT).astype(np.int8)
    # Whatever is over before it arrives ends at the boundary at which it joins.
    end_ps = np.maximum(np.minimum(cancel, timeout), arrival_ps)
    by_end = np.argsort(end_ps, kind="stable")
    return end_ps, status, by_end[: int((end_ps < NEVER_PS).sum())]


def by_size(trace: Trace, config: SchedulerConfig, requests: Requests) -> np.ndarray:
    """Rows by prompt + output, ascending, ties in arrival order: int64 (n,)."""
    return once_per_trace(
        trace,
        ("by_size", config.max_model_len),
        lambda: np.argsort(requests.prompt + requests.output, kind="stable"),
    )
