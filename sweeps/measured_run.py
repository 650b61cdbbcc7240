"""Reads the log of a real vLLM run: its requests with their time stamps, its configuration.

The folder is one of LLMServingSim's benchmark: `requests.jsonl` and `meta.json`, both there or in
its `vllm` folder. `arrival_time` is on the wall clock; the engine's stamps (`queued_ts`,
`scheduled_ts`, `first_token_ts`, `last_token_ts`) are on a clock of their own. The engine takes
requests in between two iterations, so `queued_ts` lags behind the arrival by up to an iteration.
The smallest difference between the two, of a request that came when the engine was free, is taken
for the difference between the clocks.
"""

import json
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from vecsched import SchedulerConfig, Trace
from vecsched.errors import InputError

COUNTS = ("input_toks", "output_toks")
STAMPS = ("queued_ts", "first_token_ts", "last_token_ts")
# vLLM's rules changed between these releases; see `SchedulerConfig.vllm_version`.
LAST_OF_THE_OLDER_RULES = (0, 19)
# What `meta.json` may say of the scheduler besides the two knobs that must be there.
OPTIONAL_KNOBS = (
    "enable_chunked_prefill",
    "long_prefill_token_threshold",
    "scheduler_reserve_full_isl",
    "watermark",
)


class MeasuredRun(NamedTuple):
    """A real run.

    Attributes:
        trace: its requests, in the log's order; the first arrives at 0.
        config: the scheduler's configuration.
        latencies: a row a request: `ttft`, `tpot` (NaN for one output token) and `e2e` in seconds,
            the first and the last counted from the moment the engine took the request in; NaN for
            requests that have no such stamp or made no token.
        makespan_s: from the first request taken in to the last token.
        model: name of the model.
        tensor_parallel: GPUs that shared it.
        notes: what the simulation leaves out of the configuration.
    """

    trace: Trace
    config: SchedulerConfig
    latencies: pd.DataFrame
    makespan_s: float
    model: str
    tensor_parallel: int
    notes: tuple[str, ...]


def read_run(folder: str | PathLike[str], *, kv_blocks: int | None = None) -> MeasuredRun:
    """Read a run.

    Args:
        folder: holds `requests.jsonl` and `meta.json`, or a folder `vllm` with them.
        kv_blocks: usable KV blocks of the engine; None: as the run says, else they never run out.

    Raises:
        InputError: a file is missing or is not what it should be, naming file, row and field.
        ConfigError: the run's configuration cannot be simulated.
    """
    folder = Path(folder)
    folder = folder / "vllm" if (folder / "vllm").is_dir() else folder
    meta_path, requests_path = folder / "meta.json", folder / "requests.jsonl"
    meta = _read_meta(meta_path)
    requests = _read_requests(requests_path)
    engine = meta["engine_kwargs"]
    config = _configuration(meta, meta_path)
    if kv_blocks is not None:
        config = config.replace(kv_blocks=kv_blocks)
    stamps = requests[list(STAMPS)].to_numpy(np.float64)
    return MeasuredRun(
        trace=_trace(requests),
        config=config,
        latencies=_latencies(requests),
        makespan_s=float(np.nanmax(stamps[:, 2]) - np.nanmin(stamps[:, 0])),
        model=str(meta.get("model", "")),
        tensor_parallel=int(engine.get("tensor_parallel_size") or 1),
        notes=_notes(meta, config),
    )


def _read_meta(path: Path) -> Mapping[str, Any]:
    try:
        meta = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as JSON: {error}", source=path) from None
    if not isinstance(meta, dict) or not isinstance(meta.get("engine_kwargs"), dict):
        raise InputError("must be a mapping with 'engine_kwargs'", source=path)
    return meta


def _read_requests(path: Path) -> pd.DataFrame:
    """Read one JSON object a line; blank lines do not count."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", source=path) from None
    rows = []
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise InputError(f"is no JSON: {error}", source=path, row=number) from None
    requests = pd.DataFrame(rows)
    if requests.empty:
        raise InputError("holds no requests", source=path)
    for name in (*COUNTS, *STAMPS):
        if name not in requests:
            raise InputError("missing from every request", source=path, field=name)
        values = pd.to_numeric(requests[name], errors="coerce")
        bad = values.isna() & (requests[name].notna() | (name in COUNTS))
        if bad.any():
            row = int(np.argmax(bad))
            value = requests[name].iloc[row]
            raise InputError("must be a number", source=path, row=row, field=name, value=value)
        requests[name] = values.astype(np.float64)
    if requests["queued_ts"].isna().all() or requests["last_token_ts"].isna().all():
        raise InputError("no request was served", source=path)
    return requests


def _trace(requests: pd.DataFrame) -> Trace:
    queued = requests["queued_ts"]
    arrival = queued
    if "arrival_time" in requests:
        wall = pd.to_numeric(requests["arrival_time"], errors="coerce").astype(np.float64)
        arrival = (wall + (queued - wall).min()).fillna(queued)
    # Never taken in and no arrival either: there is no saying when it came, so as late as any.
    arrival = arrival.fillna(arrival.max())
    arrival_s = (arrival - arrival.min()).to_numpy()
    prompt, output = (requests[name].to_numpy() for name in COUNTS)
    return Trace(arrival_s=arrival_s, prompt_tokens=prompt, output_tokens=output)


def _latencies(requests: pd.DataFrame) -> pd.DataFrame:
    queued, first, last = (requests[name] for name in STAMPS)
    output = requests["output_toks"]
    latencies = pd.DataFrame(
        {
            "ttft": first - queued,
            "tpot": (last - first) / (output - 1).where(output > 1),
            "e2e": last - queued,
        }
    )
    return latencies.where(output > 0)


def _configuration(meta: Mapping[str, Any], source: Path) -> SchedulerConfig:
    """Translate vLLM's configuration; what the engine resolved goes before what it was given."""
    known, cache = _resolved(meta)
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        if known.get(name) is None:
            raise InputError("missing", source=source, field=f"engine_kwargs.{name}")
    version = _version(str(meta.get("vllm_version", "")), source)
    knobs = {name: known[name] for name in OPTIONAL_KNOBS if known.get(name) is not None}
    if cache.get("block_size"):
        knobs["block_size"] = cache["block_size"]
    if cache.get("num_gpu_blocks"):
        # vLLM sets one block aside as a placeholder.
        knobs["kv_blocks"] = cache["num_gpu_blocks"] - 1
    if "kv_blocks" not in knobs:
        knobs.pop("watermark", None)
    return SchedulerConfig(
        discipline="vllm",
        policy=known.get("scheduling_policy") or known.get("policy") or "fcfs",
        max_batch_size=known["max_num_seqs"],
        max_num_batched_tokens=known["max_num_batched_tokens"],
        vllm_version=version,
        **knobs,
    )


def _resolved(meta: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is known of the scheduler and of the KV cache, blanks left out."""
    resolved = meta.get("resolved_config") or {}
    scheduler = (meta["engine_kwargs"], resolved.get("scheduler_config") or {})
    cache = (meta.get("kv_cache") or {}, resolved.get("cache_config") or {})
    known, blocks = (
        {name: value for part in parts for name, value in part.items() if value is not None}
        for parts in (scheduler, cache)
    )
    return known, blocks


def _version(text: str, source: Path) -> str:
    release = re.match(r"(\d+)\.(\d+)", text)
    if release is None:
        raise InputError(
            "must be a release such as 0.19.0", source=source, field="vllm_version", value=text
        )
    older = (int(release[1]), int(release[2])) <= LAST_OF_THE_OLDER_RULES
    return "0.19" if older else "0.33"


def _notes(meta: Mapping[str, Any], config: SchedulerConfig) -> tuple[str, ...]:
    known, cache = _resolved(meta)
    notes = []
    if config.kv_blocks is None:
        notes.append("the run does not say how many KV blocks it had: they never run out here")
    if cache.get("enable_prefix_caching"):
        notes.append("prefix caching is not simulated: no prompt finds its blocks computed")
    if known.get("async_scheduling"):
        notes.append("the run scheduled one step ahead of the output, which is not simulated")
    if (known.get("tensor_parallel_size") or 1) > 1:
        notes.append("what the GPUs of a tensor-parallel group send each other is in no profile")
    return tuple(notes)
