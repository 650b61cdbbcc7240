"""SchedulerConfig: the knobs of one scheduler, frozen and validated."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from vecsched._numbers import is_number, is_whole_number
from vecsched.aliases import ALIASES, in_our_names
from vecsched.clock import HORIZON_S, is_duration
from vecsched.errors import ConfigError, did_you_mean
from vecsched.policies import POLICIES, parse_policy

# A new discipline is one file in `vecsched/disciplines` and one row here.
DISCIPLINES = {
    "strict": "whole prefill chunks, KV reserved at admission (the textbook scheduler)",
    "static": "static batching: a batch runs until its last member ends",
    "vllm": "vLLM v1: paged KV that grows, chunks fill the budget, preemption with recompute",
    "sarathi": "Sarathi-Serve: chunked prefill, decodes first",
    "prefill_first": "vLLM before chunked prefill: iterations of prefills only, or decodes only",
    "orca": "Orca: whole prompts mixed with decodes, KV reserved for the maximum length",
}
# Those that model an engine, which will not start with a KV cache too small for any request.
ENGINES = ("vllm", "sarathi", "prefill_first", "orca")
# Disciplines that may decode every slot in one iteration.
_NEED_A_TOKEN_A_SLOT = ("vllm", "sarathi", "prefill_first")
KV_RESERVES = ("on_demand", "full")
VLLM_VERSIONS = ("0.33", "0.19")

_POSITIVE = ("max_batch_size", "max_num_batched_tokens", "prefill_chunk_size", "block_size")
_POSITIVE_OR_NONE = ("kv_blocks", "max_prefill_tokens", "max_tokens", "max_model_len")
_SWITCHES = (
    "enable_chunked_prefill",
    "long_prefill_token_threshold_adaptive",
    "scheduler_reserve_full_isl",
    "enable_prefix_caching",
    "async_scheduling",
)
_SECONDS_OR_NONE = ("max_wait_s", "timeout_s")
_LARGEST = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """One setting of every knob.

    Attributes:
        discipline: how batches are formed over time; a key of `DISCIPLINES`.
        policy: order of the waiting queue, "name" or "name(parameter)"; see `vecsched.policies`.
        max_batch_size: slots: requests in a batch at once.
        max_num_batched_tokens: tokens one iteration may schedule.
        prefill_chunk_size: prompt tokens one request may compute in one iteration.
        kv_blocks: KV-cache capacity in blocks; None: it never binds.
        block_size: tokens a KV block holds.
        max_tokens: reserve KV for prompt + max_tokens, as an engine must that does not know how
            long an output will be; None: for prompt + output. Requests with a longer output fail.
        max_prefill_tokens: prompt tokens one iteration may schedule in all; None: no such bound.
        max_wait_s: a request that has waited so long goes to the head of the queue, oldest first.
        timeout_s: a request unfinished so long after its arrival ends as timed_out.
        lookahead: blocked requests that admission may pass over; 0: the head is never skipped.
        tenant_weights: shares under fair policies, as "name=2,other=0.5"; tenants not named have 1.
        prediction_error: sigma of the log-normal error in what policies believe of an output.
        prediction_seed: draws that error.
        max_model_len: prompt and output together are cut to so many tokens; None: never.
        kv_reserve: "on_demand": KV grows block by block and may run out (preemption); "full": an
            admission sets the whole reservation aside. `vllm`, `sarathi`, `prefill_first`.
        enable_chunked_prefill: an admission may be cut to the token budget left. `vllm`.
        long_prefill_token_threshold: tokens one request may compute in one iteration while others
            are there; 0: no such bound. `vllm`.
        long_prefill_token_threshold_adaptive: the threshold grows while few requests are there.
        watermark: share of the KV blocks that an admission must leave free while anyone runs.
        scheduler_reserve_full_isl: admit only if all known tokens would fit the free blocks.
        enable_prefix_caching: KV of ended and preempted requests stays until its blocks are needed;
            `Trace.prefix_ids` tells what requests have in common. `vllm`, with KV on demand.
        async_scheduling: form a batch while the one before it runs, without its outcome. `vllm`.
        vllm_version: "0.33", or "0.19" for the older rules. `vllm`.

    Raises:
        ConfigError: naming the field, the value and what would be right.
    """

    discipline: str = "strict"
    policy: str = "fcfs"
    max_batch_size: int = 256
    max_num_batched_tokens: int = 2048
    prefill_chunk_size: int = 512
    kv_blocks: int | None = None
    block_size: int = 16
    max_tokens: int | None = None
    max_prefill_tokens: int | None = None
    max_wait_s: float | None = None
    timeout_s: float | None = None
    lookahead: int = 0
    tenant_weights: str = ""
    prediction_error: float = 0.0
    prediction_seed: int = 0
    max_model_len: int | None = None
    kv_reserve: str = "on_demand"
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    enable_prefix_caching: bool = True
    async_scheduling: bool = True
    vllm_version: str = "0.33"

    def __post_init__(self) -> None:
        self._choose("discipline", tuple(DISCIPLINES))
        parse_policy(self.policy)
        for name in _POSITIVE:
            self._set_whole_number(name, least=1)
        self._set_whole_number("lookahead", least=0)
        for name in _POSITIVE_OR_NONE:
            if getattr(self, name) is not None:
                self._set_whole_number(name, least=1)
        for name in _SECONDS_OR_NONE:
            if getattr(self, name) is not None:
                self._set_seconds(name)
        self._set_whole_number("long_prefill_token_threshold", least=0)
        self._set_whole_number("prediction_seed", least=0)
        self._set_share("prediction_error", below=10)
        parse_weights(self.tenant_weights)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ConfigError(f"{name} must be true or false, not {getattr(self, name)!r}")
            object.__setattr__(self, name, bool(getattr(self, name)))
        self._choose("kv_reserve", KV_RESERVES)
        self._choose("vllm_version", VLLM_VERSIONS)
        self._set_share("watermark")
        self._check_combinations()

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build a configuration from a file's mapping; vLLM's names are understood, too.

        Raises:
            ConfigError: a key is no field (with the nearest one), a field is given under two names,
                or a value is impossible.
        """
        own = [field.name for field in fields(cls)]
        for name in values:
            if name not in own and name not in ALIASES:
                raise ConfigError(f"unknown field {name!r}; {did_you_mean(name, [*own, *ALIASES])}")
        return cls(**in_our_names(values))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; vLLM's names are understood, too."""
        return replace(self, **in_our_names(changes))

    def to_dict(self) -> dict[str, Any]:
        """Return every field by name, in order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _check_combinations(self) -> None:
        decodes_every_slot = self.discipline in _NEED_A_TOKEN_A_SLOT
        if decodes_every_slot and self.max_num_batched_tokens < self.max_batch_size:
            raise ConfigError(
                f"max_num_batched_tokens {self.max_num_batched_tokens} is less than "
                f"max_batch_size {self.max_batch_size}: discipline {self.discipline!r} decodes "
                "every slot in one iteration"
            )
        if self.lookahead > 0 and POLICIES[parse_policy(self.policy)[0]].is_fair:
            raise ConfigError(
                f"lookahead {self.lookahead} with policy {self.policy!r}: fair queueing does not "
                "pass over the tenant whose turn it is"
            )
        if self.watermark > 0 and self.kv_blocks is None:
            raise ConfigError("watermark is a share of kv_blocks, which is not set")
        if self.vllm_version == "0.19" and (
            self.watermark > 0 or self.long_prefill_token_threshold_adaptive
        ):
            raise ConfigError(
                "vLLM 0.19 has no watermark and no long_prefill_token_threshold_adaptive"
            )

    def _choose(self, name: str, known: tuple[str, ...]) -> None:
        value = str(getattr(self, name))
        if value not in known:
            raise ConfigError(f"unknown {name} {value!r}; {did_you_mean(value, known)}")
        object.__setattr__(self, name, value)

    def _set_share(self, name: str, below: float = 1) -> None:
        value = getattr(self, name)
        if not is_number(value) or not 0 <= value < below:
            raise ConfigError(f"{name} must be a number from 0 to below {below}, not {value!r}")
        object.__setattr__(self, name, float(value))

    def _set_whole_number(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not is_whole_number(value) or not least <= value <= _LARGEST:
            raise ConfigError(
                f"{name} must be a whole number from {least} to {_LARGEST}, not {value!r}"
            )
        object.__setattr__(self, name, int(value))

    def _set_seconds(self, name: str) -> None:
        value = getattr(self, name)
        if not is_duration(value):
            raise ConfigError(
                f"{name} must be a number of seconds from 0 to {HORIZON_S:.0f}, not {value!r}"
            )
        object.__setattr__(self, name, float(value))


def parse_weights(text: str) -> dict[str, float]:
    """Read "name=weight,..." into a mapping.

    Raises:
        ConfigError: it is written otherwise, a name stands twice, or a weight is out of range.
    """
    weights: dict[str, float] = {}
    for entry in filter(None, (part.strip() for part in str(text).split(","))):
        name, _, value = (part.strip() for part in entry.partition("="))
        try:
            weight = float(value)
        except ValueError:
            weight = 0.0
        if not name or name in weights or not 0.001 <= weight <= 1000:
            raise ConfigError(
                f"tenant_weights {text!r}: {entry!r} should be a new name=weight with a weight "
                "from 0.001 to 1000"
            )
        weights[name] = weight
    return weights
