"""Files of step logs of the real vLLM scheduler: what they hold, and reading them.

A scenario file holds settings, requests and, for every call of `schedule()`, what vLLM decided.
Steps are counted from 0. Formats: `docs/vllm-step-logs.md`.
"""

import json
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from sweeps.errors import ScenarioError
from vecsched import SchedulerConfig, Trace
from vecsched.errors import VecschedError

FORMATS = ("vllm-v1-scheduler-steps/1", "vllm-v1-scheduler-steps/2")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Settings(_Part):
    """vLLM's settings, by its names; keys that decide nothing here are not looked at.

    The first format has no key for the last two: both are off there.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    enable_chunked_prefill: bool
    long_prefill_token_threshold: int
    long_prefill_token_threshold_adaptive: bool
    num_gpu_blocks: int = Field(alias="num_blocks")
    block_size: int = Field(ge=1)
    policy: str
    watermark: float
    scheduler_reserve_full_isl: bool
    enable_prefix_caching: bool = False
    async_scheduling: bool = False


class Request(_Part):
    """A request; `id` is its place in the list.

    `hash_ids` has an id for each full block of the prompt, and may have one for what is left.
    Prompts with the same first ids begin with the same tokens.
    """

    id: int
    arrival_step: int
    prompt_len: int
    output_len: int
    priority: int
    arrival_time: float
    hash_ids: list[int] | None = None


class Step(_Part):
    """One call of `schedule()`, and what was over at the end of the step.

    A log leaves out lists that are empty. What is None was not logged, or cannot be told.
    """

    model_config = ConfigDict(extra="forbid", strict=False)

    step: int
    scheduled: list[tuple[int, int]]
    newly_admitted: list[int] = []
    resumed: list[int] = []
    preempted: list[int] = []
    finished: list[int] = []
    num_cached_tokens: list[tuple[int, int]] = []
    free_blocks_after_schedule: int
    num_running: int
    num_waiting: int
    free_blocks_after_update: int | None
    running_order: list[int] | None = None
    waiting_order: list[int] | None = None
    free_queue: list[int] | None = None
    block_tables: list[tuple[int, list[int]]] | None = None


class Summary(_Part):
    """Counts over all steps; None: not logged. Events that never happened are left out."""

    model_config = ConfigDict(extra="forbid")

    steps: int | None = None
    last_step: int | None = None
    finished: int | None = None
    preemptions: int | None = None
    max_preemptions_of_one: int | None = None
    scheduled_tokens: int | None = None
    cached_tokens: int | None = None
    cached_tokens_of_resumed: int | None = None
    max_running: int | None = None
    min_free_blocks: int | None = None
    events: dict[str, int] | None = None


class _File(_Part):
    vllm: str
    name: str
    config: Settings
    requests: list[Request] = Field(min_length=1)
    steps: list[Step]
    summary: Summary = Summary()
    max_steps: int | None = None

    @model_validator(mode="after")
    def _requests_fit(self) -> Self:
        for place, request in enumerate(self.requests):
            if request.id != place:
                raise _problem(f"requests.{place}.id is {request.id}, but ids count from 0")
            blocks, left = divmod(request.prompt_len, self.config.block_size)
            ids = blocks if request.hash_ids is None else len(request.hash_ids)
            if ids != blocks and not (left > 0 and ids == blocks + 1):
                raise _problem(
                    f"requests.{place}.hash_ids has length {ids}, but must have one id for each of "
                    f"the prompt's {blocks} full blocks, and may have one for tokens left"
                )
        arrivals = [request.arrival_step for request in self.requests]
        if arrivals != sorted(arrivals):
            raise _problem("requests must stand in order of arrival_step")
        return self

    @model_validator(mode="after")
    def _blocks_have_numbers(self) -> Self:
        for place, step in enumerate(self.steps):
            for field in ("free_queue", "block_tables"):
                if getattr(step, field) is not None and not self.config.enable_prefix_caching:
                    raise _problem(
                        f"steps.{place}.{field} cannot be compared without enable_prefix_caching: "
                        "then nothing is known of single blocks"
                    )
        return self


class Scenario(NamedTuple):
    """A step log, and the run that should decide the same.

    Attributes:
        name: its name.
        trace: the requests; a step is a second.
        config: the scheduler.
        steps: what vLLM decided.
        summary: what vLLM's steps come to.
        max_steps: the log was cut off before this step; None: it goes on until all have ended.
    """

    name: str
    trace: Trace
    config: SchedulerConfig
    steps: list[Step]
    summary: Summary
    max_steps: int | None


def read_scenario(path: str | PathLike[str]) -> Scenario:
    """Read a scenario file.

    Raises:
        ScenarioError: the file cannot be read, is of another format, lacks a key, or asks for what
            is impossible.
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
        trace, config = _trace_of(file), _config_of(file)
    except ValidationError as error:
        raise ScenarioError(f"{path}: {_sentence(error.errors()[0])}") from None
    except VecschedError as error:
        raise ScenarioError(f"{path}: {error}") from None
    return Scenario(file.name, trace, config, file.steps, file.summary, file.max_steps)


def _trace_of(file: _File) -> Trace:
    requests = file.requests
    has_ids = any(request.hash_ids for request in requests)
    return Trace(
        [float(request.arrival_step) for request in requests],
        [request.prompt_len for request in requests],
        [request.output_len for request in requests],
        priority=[request.priority for request in requests],
        engine_time_s=[request.arrival_time for request in requests],
        prefix_ids=[request.hash_ids or [] for request in requests] if has_ids else None,
        prefix_block_tokens=file.config.block_size if has_ids else 0,
    )


def _config_of(file: _File) -> SchedulerConfig:
    version = ".".join(file.vllm.split(".")[:2])
    settings = file.config.model_dump()
    return SchedulerConfig.from_mapping({"discipline": "vllm", "vllm_version": version, **settings})


def _problem(text: str) -> PydanticCustomError:
    return PydanticCustomError("scenario", "{text}", {"text": text})


def _sentence(error: ErrorDetails) -> str:
    """Say one of pydantic's errors as "place: problem"."""
    place = "".join(f"{part}." for part in error["loc"])[:-1]
    plainer = {"missing": "is missing", "extra_forbidden": "is not understood"}
    text = plainer.get(error["type"], error["msg"].replace("Input should be", "must be"))
    return f"{place}: {text}" if place else text
