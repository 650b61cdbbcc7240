"""Step logs of the real vLLM scheduler, compared with what the `vllm` discipline decides.

A scenario file holds settings, requests and, for every engine step, what vLLM decided. Time is
counted in steps: every iteration lasts one second, so a step is the second in which it starts.
"""

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from sweeps.errors import ScenarioError
from vecsched import CostModel, SchedulerConfig, Trace
from vecsched.errors import VecschedError
from vecsched.simulation import Iteration, decisions_until_stuck

FORMATS = ("vllm-v1-scheduler-steps/1", "vllm-v1-scheduler-steps/2")
NOT_MODELLED = ("enable_prefix_caching", "async_scheduling")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Settings(_Part):
    """vLLM's settings, by its names; keys that decide nothing here are not looked at."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    enable_chunked_prefill: bool
    long_prefill_token_threshold: int
    long_prefill_token_threshold_adaptive: bool
    num_gpu_blocks: int = Field(alias="num_blocks")
    block_size: int
    policy: str
    watermark: float
    scheduler_reserve_full_isl: bool
    enable_prefix_caching: bool = False
    async_scheduling: bool = False

    @model_validator(mode="after")
    def _modelled(self) -> Self:
        for feature in NOT_MODELLED:
            if getattr(self, feature):
                raise _problem(f"{feature} is on, which is not modelled yet")
        return self


class Request(_Part):
    """A request; `id` is its place in the list."""

    id: int
    arrival_step: int
    prompt_len: int
    output_len: int
    priority: int
    arrival_time: float


class Step(_Part):
    """One call of `schedule()`. A log leaves out lists that are empty, and may leave out orders."""

    model_config = ConfigDict(extra="forbid", strict=False)

    step: int
    scheduled: list[tuple[int, int]]
    newly_admitted: list[int] = []
    resumed: list[int] = []
    preempted: list[int] = []
    finished: list[int] = []
    free_blocks_after_schedule: int
    num_running: int
    num_waiting: int
    free_blocks_after_update: int
    running_order: list[int] | None = None
    waiting_order: list[int] | None = None


class _File(_Part):
    vllm: str
    name: str
    config: Settings
    requests: list[Request] = Field(min_length=1)
    steps: list[Step]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for place, request in enumerate(self.requests):
            if request.id != place:
                raise _problem(f"requests.{place}.id is {request.id}, but ids count from 0")
        arrivals = [request.arrival_step for request in self.requests]
        if arrivals != sorted(arrivals):
            raise _problem("requests must stand in order of arrival_step")
        return self


class Scenario(NamedTuple):
    """A step log, and the run that should decide the same."""

    name: str
    trace: Trace
    config: SchedulerConfig
    steps: list[Step]


class Difference(NamedTuple):
    """The first place where two logs differ."""

    step: int
    field: str
    vllm: Any
    vecsched: Any

    def __str__(self) -> str:
        return f"step {self.step}, {self.field}: vLLM {self.vllm!r}, vecsched {self.vecsched!r}"


class Comparison(NamedTuple):
    """What came of a comparison: steps compared, the first difference, and a note if any."""

    steps: int
    difference: Difference | None
    note: str = ""


def read_scenario(path: str | PathLike[str]) -> Scenario:
    """Read a scenario file.

    Raises:
        ScenarioError: the file cannot be read, is of another format, lacks a key, or asks for what
            is impossible or not modelled.
    """
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: cannot be read as a scenario: {error}") from None
    found = content.get("format") if isinstance(content, dict) else content
    if found not in FORMATS:
        raise ScenarioError(f"{path}: format {found!r}, but {' and '.join(FORMATS)} are understood")
    try:
        file = _File.model_validate(content)
        return Scenario(file.name, _trace_of(file.requests), _config_of(file), file.steps)
    except ValidationError as error:
        raise ScenarioError(f"{path}: {_sentence(error.errors()[0])}") from None
    except VecschedError as error:
        raise ScenarioError(f"{path}: {error}") from None


def compare(scenario: Scenario) -> Comparison:
    """Run a scenario and compare every logged field of every step.

    Raises:
        SimulationError: the run came to no end.
    """
    trace, config = scenario.trace, scenario.config
    iterations, stuck = decisions_until_stuck(trace, config, CostModel.unit())
    found = list(steps_of(iterations, trace, config))
    # Where nothing can be done vLLM makes empty steps; here time passes.
    expected = [step for step in scenario.steps if step.scheduled or step.preempted]
    note = ""
    if stuck is not None:
        note = f"request {stuck} can never be served: vLLM's queue stands still from there on"
    return Comparison(len(found), first_difference(expected, found), note)


def steps_of(iterations: list[Iteration], trace: Trace, config: SchedulerConfig) -> Iterator[Step]:
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
        assert row.free_kv_blocks is not None
        yield Step(
            step=int(row.start_s),
            scheduled=row.scheduled,
            newly_admitted=[r for r in row.admitted if r not in seen],
            resumed=[r for r in row.admitted if r in seen],
            preempted=row.preempted,
            finished=row.finished,
            free_blocks_after_schedule=row.free_kv_blocks,
            num_running=len(running),
            num_waiting=len(waiting),
            free_blocks_after_update=row.free_kv_blocks + returned,
            running_order=running,
            waiting_order=sorted(waiting, key=lambda r: _queue_key(trace, config, r)),
        )
        seen.update(row.admitted)
        over.update(row.finished)
        running = [r for r in running if r not in over]


def first_difference(expected: list[Step], found: list[Step]) -> Difference | None:
    """Compare step by step every field that the log has; None if all are equal."""
    for theirs, ours in zip(expected, found, strict=False):
        for field in Step.model_fields:
            wanted, told = getattr(theirs, field), getattr(ours, field)
            if wanted is not None and told != wanted:
                return Difference(theirs.step, field, wanted, told)
    if len(expected) != len(found):
        last = max(expected, found, key=len)[min(len(expected), len(found))]
        return Difference(last.step, "number of steps", len(expected), len(found))
    return None


def _trace_of(requests: list[Request]) -> Trace:
    """The requests as columns; a step is a second."""
    return Trace(
        [float(request.arrival_step) for request in requests],
        [request.prompt_len for request in requests],
        [request.output_len for request in requests],
        priority=[request.priority for request in requests],
        engine_time_s=[request.arrival_time for request in requests],
    )


def _config_of(file: _File) -> SchedulerConfig:
    version = ".".join(file.vllm.split(".")[:2])
    settings = file.config.model_dump(exclude=set(NOT_MODELLED))
    return SchedulerConfig.from_mapping({"discipline": "vllm", "vllm_version": version, **settings})


def _queue_key(trace: Trace, config: SchedulerConfig, row: int) -> tuple[float, ...]:
    """Place in the waiting queue; first-come is arrival order, preempted or not."""
    if config.policy != "priority":
        return (row,)
    assert trace.priority is not None
    assert trace.engine_time_s is not None
    return trace.priority[row], trace.engine_time_s[row], row


def _problem(text: str) -> PydanticCustomError:
    return PydanticCustomError("scenario", "{text}", {"text": text})


def _sentence(error: ErrorDetails) -> str:
    """Say one of pydantic's errors as "place: problem"."""
    place = "".join(f"{part}." for part in error["loc"])[:-1]
    plainer = {"missing": "is missing", "extra_forbidden": "is not understood"}
    text = plainer.get(error["type"], error["msg"].replace("Input should be", "must be"))
    return f"{place}: {text}" if place else text
