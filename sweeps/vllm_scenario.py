"""Step logs of the real vLLM scheduler, compared with what the `vllm` discipline decides.

A scenario file holds settings, requests and, for every engine step, what vLLM decided. Time is
counted in steps: every iteration lasts one second, so a step is the second in which it starts.
"""

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from sweeps.errors import ScenarioError
from vecsched import CostModel, SchedulerConfig, Trace
from vecsched.simulation import Iteration, decisions_until_stuck

FORMATS = ("vllm-v1-scheduler-steps/1", "vllm-v1-scheduler-steps/2")
_NOT_MODELLED = ("enable_prefix_caching", "async_scheduling")
OPTIONAL_LISTS = ("newly_admitted", "resumed", "preempted", "finished")

_SETTINGS = {
    "max_num_seqs": "max_batch_size",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_model_len": "max_model_len",
    "enable_chunked_prefill": "enable_chunked_prefill",
    "long_prefill_token_threshold": "long_prefill_token_threshold",
    "long_prefill_token_threshold_adaptive": "long_prefill_token_threshold_adaptive",
    "block_size": "block_size",
    "policy": "policy",
    "watermark": "watermark",
    "scheduler_reserve_full_isl": "scheduler_reserve_full_isl",
}


class Difference(NamedTuple):
    """The first place where two logs differ."""

    step: int
    field: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"step {self.step}, {self.field}: vLLM {self.expected!r}, vecsched {self.found!r}"


class Comparison(NamedTuple):
    """What came of a comparison: steps compared, the first difference, and a note if any."""

    name: str
    steps: int
    difference: Difference | None
    note: str = ""


def read_scenario(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a scenario file.

    Raises:
        ScenarioError: the file cannot be read, is of another format, or lacks a key.
    """
    try:
        scenario = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: cannot be read as a scenario: {error}") from None
    if not isinstance(scenario, dict) or scenario.get("format") not in FORMATS:
        found = scenario.get("format") if isinstance(scenario, dict) else type(scenario).__name__
        raise ScenarioError(f"{path}: format {found!r}, but {', '.join(FORMATS)} is understood")
    for key in ("vllm", "name", "config", "requests", "steps"):
        if key not in scenario:
            raise ScenarioError(f"{path}: the key {key!r} is missing")
    for feature in _NOT_MODELLED:
        if scenario["config"].get(feature):
            raise ScenarioError(f"{path}: {feature} is on, which is not modelled")
    return scenario


def compare_scenario(path: str | PathLike[str]) -> Comparison:
    """Run a scenario and compare every logged field of every step."""
    scenario = read_scenario(path)
    trace, config = trace_of(scenario), config_of(scenario)
    iterations, stuck = decisions_until_stuck(trace, config, CostModel.unit())
    expected, note = scenario["steps"], ""
    if stuck is not None:
        # vLLM goes on with empty steps for ever; the log is cut off.
        note = f"request {stuck} can never be served: vLLM's queue stands still from here on"
        expected = [step for step in expected if step["scheduled"]]
    steps = list(steps_of(iterations, trace, config))
    return Comparison(scenario["name"], len(steps), first_difference(expected, steps), note)


def trace_of(scenario: dict[str, Any]) -> Trace:
    """The scenario's requests; a step is a second."""
    requests = scenario["requests"]

    def column(name: str) -> list[Any]:
        return [request[name] for request in requests]

    return Trace(
        [float(step) for step in column("arrival_step")],
        column("prompt_len"),
        column("output_len"),
        priority=column("priority"),
        engine_time_s=[float(time) for time in column("arrival_time")],
        id=column("id"),
    )


def config_of(scenario: dict[str, Any]) -> SchedulerConfig:
    """The scenario's settings in our names; vLLM counts its placeholder block."""
    given = scenario["config"]
    return SchedulerConfig(
        discipline="vllm",
        kv_blocks=given["num_blocks"] - 1,
        vllm_version=".".join(scenario["vllm"].split(".")[:2]),
        **{ours: given[theirs] for theirs, ours in _SETTINGS.items()},
    )


def steps_of(
    iterations: list[Iteration], trace: Trace, config: SchedulerConfig
) -> Iterator[dict[str, Any]]:
    """Tell a run in the log's words, by keeping vLLM's two queues from what each iteration did."""
    running: list[int] = []
    computed: dict[int, int] = {}
    seen: set[int] = set()
    over: set[int] = set()
    arrival = trace.arrival_s.tolist()
    for row in iterations:
        running = [r for r in running if r not in row.preempted] + row.admitted
        computed |= dict.fromkeys([*row.preempted, *row.admitted], 0)
        for request, tokens in row.scheduled:
            computed[request] += tokens
        arrived = [r for r in range(len(trace)) if arrival[r] <= row.start_s]
        waiting = [r for r in arrived if r not in over and r not in running]
        returned = sum(-(-computed[r] // config.block_size) for r in row.finished)
        step = {
            "step": int(row.start_s),
            "scheduled": [list(entry) for entry in row.scheduled],
            "newly_admitted": [r for r in row.admitted if r not in seen],
            "resumed": [r for r in row.admitted if r in seen],
            "preempted": row.preempted,
            "finished": row.finished,
            "free_blocks_after_schedule": row.free_kv_blocks,
            "num_running": len(running),
            "num_waiting": len(waiting),
            "running_order": running,
            "waiting_order": sorted(waiting, key=lambda r: queue_key(trace, config, r)),
            "free_blocks_after_update": row.free_kv_blocks + returned,
        }
        yield step
        seen.update(row.admitted)
        over.update(row.finished)
        running = [r for r in running if r not in over]


def queue_key(trace: Trace, config: SchedulerConfig, row: int) -> tuple[float, ...]:
    """Place in the waiting queue; first-come is arrival order, preempted or not."""
    if config.policy != "priority":
        return (row,)
    assert trace.priority is not None
    assert trace.engine_time_s is not None
    return trace.priority[row], trace.engine_time_s[row], row


def first_difference(expected: list[Any], found: list[Any]) -> Difference | None:
    """Compare step by step, every field that the log has."""
    for theirs, ours in zip(expected, found, strict=False):
        wanted = dict.fromkeys(OPTIONAL_LISTS, []) | theirs
        for field, value in wanted.items():
            if ours[field] != value:
                return Difference(theirs["step"], field, value, ours[field])
    if len(expected) != len(found):
        last = max(expected, found, key=len)[min(len(expected), len(found))]
        return Difference(last["step"], "number of steps", len(expected), len(found))
    return None
