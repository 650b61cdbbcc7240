"""Reads the log of a real vLLM run: its requests with their time stamps, its configuration.

The folder is one of LLMServingSim's benchmark: `requests.jsonl` and `meta.json`, both there or in
its `vllm` folder. `arrival_time` is on the wall clock; the engine's stamps (`queued_ts`,
`scheduled_ts`, `first_token_ts`, `last_token_ts`) are on a clock of their own. The engine takes
requests in between two iterations, so `queued_ts` lags behind the arrival by up to an iteration.
The smallest difference between the two, of a request that came when the engine was free, is taken
for the difference between the clocks. The simulator's `config.json` beside them tells what connects
several GPUs.
"""

import json
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sweeps.schema import CONFIG_FIELDS
from vecsched import SchedulerConfig, Trace
from vecsched.aliases import ALIASES, Alias, in_our_names
from vecsched.errors import InputError

RUN_FILES = ("requests.jsonl", "meta.json")
COUNTS = ("input_toks", "output_toks")
STAMPS = ("queued_ts", "first_token_ts", "last_token_ts")
# vLLM's rules changed between these releases; see `SchedulerConfig.vllm_version`.
LAST_OF_THE_OLDER_RULES = (0, 19)
# Releases since which vLLM does it unless told otherwise.
ON_SINCE = {"enable_prefix_caching": (0, 8), "async_scheduling": (0, 14)}
# Several engines behind one queue, or one over several stages, are not what is simulated.
ONE_OF_EACH = ("data_parallel_size", "pipeline_parallel_size")
# Units of the description of the hardware.
GIGABYTE, NANOSECOND = 1e9, 1e-9


class Link(NamedTuple):
    """What connects the GPUs that share a model: bytes a second each way, and seconds a message."""

    bytes_per_s: float
    latency_s: float


class Scheduler(NamedTuple):
    """How a run's scheduler was configured, under our names.

    Attributes:
        version: of vLLM, as the run has it.
        rules: of which of our versions it goes by.
        said: what the run says.
        unsaid: what it does not, as its version has it by default.
    """

    version: str
    rules: str
    said: dict[str, Any]
    unsaid: dict[str, bool]

    @property
    def knobs(self) -> dict[str, Any]:
        """All that is known of its fields."""
        return self.unsaid | self.said


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
        link: what connected them, if the run says.
        notes: what the run does not say, and where the configuration is not the run's.
    """

    trace: Trace
    config: SchedulerConfig
    latencies: pd.DataFrame
    makespan_s: float
    model: str
    tensor_parallel: int
    link: Link | None
    notes: tuple[str, ...]


def read_run(folder: str | PathLike[str], changes: Mapping[str, Any] | None = None) -> MeasuredRun:
    """Read a run.

    What its configuration leaves open is as its release of vLLM has it by default.

    Args:
        folder: holds `requests.jsonl` and `meta.json`, or a folder `vllm` with them.
        changes: fields of `SchedulerConfig`, vLLM's names included, that hold whatever the run
            says; such as `kv_blocks`, which never run out where nobody says how many there are.

    Raises:
        InputError: a file is missing or is not what it should be, naming file, row and field.
        ConfigError: the run's configuration cannot be simulated.
    """
    hardware = Path(folder) / "config.json"
    folder = Path(folder)
    folder = folder / "vllm" if (folder / "vllm").is_dir() else folder
    requests_path, meta_path = (folder / name for name in RUN_FILES)
    meta = _read_meta(meta_path)
    requests = _read_requests(requests_path)
    knobs = _knobs(meta)
    _check_is_simulated(knobs, meta_path)
    scheduler = _scheduler(meta, knobs, meta_path)
    changes = in_our_names(changes or {})
    stamps = requests[list(STAMPS)].to_numpy(np.float64)
    return MeasuredRun(
        trace=_trace(requests),
        config=_configuration(scheduler, changes),
        latencies=_latencies(requests),
        makespan_s=float(np.nanmax(stamps[:, 2]) - np.nanmin(stamps[:, 0])),
        model=str(meta.get("model", "")),
        tensor_parallel=int(knobs.get("tensor_parallel_size", 1)),
        link=_link(hardware),
        notes=_notes(scheduler, changes),
    )


def _read_meta(path: Path) -> Mapping[str, Any]:
    meta = _read_json(path)
    if not isinstance(meta, dict) or not isinstance(meta.get("engine_kwargs"), dict):
        raise InputError("must be a mapping with 'engine_kwargs'", source=path)
    return meta


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as JSON: {error}", source=path) from None


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


def _knobs(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return vLLM's settings under our names; what it resolved goes before what it was given."""
    resolved = meta.get("resolved_config") or {}
    parts = (
        meta["engine_kwargs"],
        resolved.get("scheduler_config"),
        meta.get("kv_cache"),
        resolved.get("cache_config"),
    )
    knobs: dict[str, Any] = {}
    for part in parts:
        given = {name: value for name, value in (part or {}).items() if value is not None}
        if "num_gpu_blocks" in given:  # the override has gone into it
            given.pop("num_gpu_blocks_override", None)
        knobs |= in_our_names(given)
    return knobs


def _check_is_simulated(knobs: Mapping[str, Any], source: Path) -> None:
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        if ALIASES.get(name, Alias(name)).field not in knobs:
            raise InputError("missing", source=source, field=f"engine_kwargs.{name}")
    for name in ONE_OF_EACH:
        if knobs.get(name, 1) > 1:
            raise InputError("only one engine is simulated", source=source, field=name)


def _scheduler(meta: Mapping[str, Any], knobs: Mapping[str, Any], source: Path) -> Scheduler:
    version = str(meta.get("vllm_version", ""))
    release = re.match(r"(\d+)\.(\d+)", version)
    if release is None:
        raise InputError(
            "must be a release such as 0.19.0", source=source, field="vllm_version", value=version
        )
    number = (int(release[1]), int(release[2]))
    return Scheduler(
        version=version,
        rules="0.19" if number <= LAST_OF_THE_OLDER_RULES else "0.33",
        said={name: knobs[name] for name in CONFIG_FIELDS if name in knobs},
        unsaid={name: number >= on for name, on in ON_SINCE.items() if name not in knobs},
    )


def _configuration(scheduler: Scheduler, changes: Mapping[str, Any]) -> SchedulerConfig:
    own = {"discipline": "vllm", "vllm_version": scheduler.rules, **scheduler.knobs}
    if "kv_blocks" not in {**own, **changes}:
        own.pop("watermark", None)
    return SchedulerConfig.from_mapping({**own, **changes})


def _link(path: Path) -> Link | None:
    """Return what LLMServingSim's `config.json` says of links: GB/s and nanoseconds."""
    if not path.is_file():
        return None
    config = _read_json(path)
    try:
        link = Link(GIGABYTE * config["link_bw"], NANOSECOND * config["link_latency"])
    except (KeyError, TypeError):
        return None
    if not (link.bytes_per_s > 0 and link.latency_s >= 0):
        raise InputError("link_bw and link_latency must be positive", source=path)
    return link


def _notes(scheduler: Scheduler, changes: Mapping[str, Any]) -> tuple[str, ...]:
    notes = []
    if "kv_blocks" not in {**scheduler.said, **changes}:
        notes.append("the run does not say how many KV blocks it had: they never run out here")
    unsaid = {name: on for name, on in scheduler.unsaid.items() if name not in changes}
    if unsaid:
        default = f"as vLLM {scheduler.version} does by default"
        notes.append(f"not said by the run, so {default}: {_listed(unsaid)}")
    own = scheduler.knobs
    changed = {name: value for name, value in changes.items() if own.get(name, value) != value}
    if changed:
        notes.append(f"not as in the run: {_listed(changed)}")
    return tuple(notes)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in values.items())
