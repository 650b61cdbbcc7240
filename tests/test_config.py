"""SchedulerConfig: what it accepts, what it refuses and how it says so."""

import dataclasses
import math

import numpy as np
import pytest

from vecsched import DISCIPLINES, SchedulerConfig
from vecsched.clock import HORIZON_S
from vecsched.config import parse_weights
from vecsched.errors import ConfigError

LARGEST = 2**31 - 1

FROM_ONE = ("max_batch_size", "max_num_batched_tokens", "prefill_chunk_size", "block_size")
FROM_ONE_OR_NONE = ("kv_blocks", "max_prefill_tokens", "max_tokens", "max_model_len")
FROM_ZERO = ("lookahead", "long_prefill_token_threshold", "prediction_seed")
SECONDS_OR_NONE = ("max_wait_s", "timeout_s")
SWITCHES = (
    "enable_chunked_prefill",
    "long_prefill_token_threshold_adaptive",
    "scheduler_reserve_full_isl",
    "enable_prefix_caching",
    "async_scheduling",
)
NAMES = ("discipline", "policy", "kv_reserve", "vllm_version", "tenant_weights")
BELOW = {"watermark": 1, "prediction_error": 10}


def test_no_field_is_left_out_here():
    listed = (
        *FROM_ONE,
        *FROM_ONE_OR_NONE,
        *FROM_ZERO,
        *SECONDS_OR_NONE,
        *SWITCHES,
        *NAMES,
        *BELOW,
    )
    assert {field.name for field in dataclasses.fields(SchedulerConfig)} == set(listed)


def refusal(**changes) -> str:
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig(**changes)
    return str(caught.value)


@pytest.mark.parametrize("name", FROM_ONE + FROM_ONE_OR_NONE)
@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, "8", True, math.nan, LARGEST + 1])
def test_whole_numbers_from_one(name, value):
    expected = f"{name} must be a whole number from 1 to {LARGEST}, not {value!r}"
    assert refusal(**{name: value}) == expected


@pytest.mark.parametrize("name", FROM_ZERO)
@pytest.mark.parametrize("value", [-1, 0.0, None, False])
def test_whole_numbers_from_zero(name, value):
    expected = f"{name} must be a whole number from 0 to {LARGEST}, not {value!r}"
    assert refusal(**{name: value}) == expected
    assert getattr(SchedulerConfig(**{name: 0}), name) == 0


@pytest.mark.parametrize("name", FROM_ONE)
def test_what_must_be_set(name):
    assert refusal(**{name: None}).endswith("not None")


@pytest.mark.parametrize("name", SECONDS_OR_NONE)
@pytest.mark.parametrize("value", [-0.5, math.nan, math.inf, HORIZON_S, "1", True])
def test_seconds(name, value):
    expected = f"{name} must be a number of seconds from 0 to 4611686, not {value!r}"
    assert refusal(**{name: value}) == expected
    last = math.nextafter(HORIZON_S, 0)
    for good in (0, 1, np.float32(0.5), last, None):
        assert getattr(SchedulerConfig(**{name: good}), name) == good


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_switches(name, value):
    assert refusal(**{name: value}) == f"{name} must be true or false, not {value!r}"
    assert getattr(SchedulerConfig(**{name: np.False_}), name) is False


@pytest.mark.parametrize("name", BELOW)
@pytest.mark.parametrize("value", [-0.1, 10, math.nan, math.inf, "0.1", True])
def test_numbers_below_a_bound(name, value):
    expected = f"{name} must be a number from 0 to below {BELOW[name]}, not {value!r}"
    assert refusal(**{name: value, "kv_blocks": 10}) == expected
    last = math.nextafter(BELOW[name], 0)
    assert getattr(SchedulerConfig(**{name: last, "kv_blocks": 10}), name) == last


def test_tenant_weights():
    assert parse_weights("") == {}
    assert parse_weights(" a = 2, b-1=0.001 ,, ") == {"a": 2.0, "b-1": 0.001}
    for text, entry in (
        ("a", "a"),
        ("a=", "a="),
        ("=2", "=2"),
        ("a=2,a=3", "a=3"),
        ("a=0", "a=0"),
        ("a=1001", "a=1001"),
        ("a=nan", "a=nan"),
        ("a=x", "a=x"),
    ):
        assert refusal(tenant_weights=text) == (
            f"tenant_weights {text!r}: {entry!r} should be a new name=weight with a weight from "
            "0.001 to 1000"
        )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"discipline": "strikt"}, "unknown discipline 'strikt'; did you mean 'strict'?"),
        ({"discipline": None}, f"unknown discipline 'None'; known: {', '.join(DISCIPLINES)}"),
        ({"discipline": ["strict"]}, "unknown discipline \"['strict']\"; did you mean 'strict'?"),
        ({"policy": "fcsf"}, "unknown policy 'fcsf'; did you mean 'fcfs'?"),
        ({"kv_reserve": "fully"}, "unknown kv_reserve 'fully'; did you mean 'full'?"),
        ({"vllm_version": "1.0"}, "unknown vllm_version '1.0'; known: 0.33, 0.19"),
    ],
)
def test_names(changes, text):
    assert refusal(**changes) == text


def test_a_version_may_be_written_as_a_number():
    assert SchedulerConfig(vllm_version=0.19).vllm_version == "0.19"


@pytest.mark.parametrize("discipline", ["vllm", "sarathi", "prefill_first"])
def test_every_slot_needs_a_token_where_all_decode_at_once(discipline):
    changes = {"discipline": discipline, "max_batch_size": 64}
    assert refusal(**changes, max_num_batched_tokens=63) == (
        f"max_num_batched_tokens 63 is less than max_batch_size 64: discipline {discipline!r} "
        "decodes every slot in one iteration"
    )
    SchedulerConfig(**changes, max_num_batched_tokens=64)
    SchedulerConfig(max_batch_size=64, max_num_batched_tokens=63)  # `strict` fills what it can


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"policy": "drr(5)", "lookahead": 2},
            "lookahead 2 with policy 'drr(5)': fair queueing does not pass over the tenant whose "
            "turn it is",
        ),
        ({"watermark": 0.1}, "watermark is a share of kv_blocks, which is not set"),
        (
            {"watermark": 0.1, "kv_blocks": 10, "vllm_version": "0.19"},
            "vLLM 0.19 has no watermark and no long_prefill_token_threshold_adaptive",
        ),
        (
            {"long_prefill_token_threshold_adaptive": True, "vllm_version": "0.19"},
            "vLLM 0.19 has no watermark and no long_prefill_token_threshold_adaptive",
        ),
    ],
)
def test_combinations_that_do_not_exist(changes, text):
    assert refusal(**changes) == text


def test_numbers_become_pythons_own():
    config = SchedulerConfig(max_batch_size=np.int32(8), timeout_s=np.float32(0.5), max_wait_s=3)
    assert type(config.max_batch_size) is int
    assert type(config.timeout_s) is type(config.max_wait_s) is float
    assert config == SchedulerConfig(max_batch_size=8, timeout_s=0.5, max_wait_s=3.0)
    assert hash(config) == hash(SchedulerConfig(max_batch_size=8, timeout_s=0.5, max_wait_s=3.0))


def test_to_and_from_a_mapping():
    config = SchedulerConfig(discipline="static", policy="aging(3)", kv_blocks=7, timeout_s=2)
    values = config.to_dict()
    assert list(values) == [field.name for field in dataclasses.fields(SchedulerConfig)]
    assert SchedulerConfig.from_mapping(values) == config
    assert SchedulerConfig.from_mapping({}) == SchedulerConfig()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"max_bach_size": 8}, "unknown field 'max_bach_size'; did you mean 'max_batch_size'?"),
        ({1: 2}, "unknown field 1; known: discipline, policy, max_batch_size, "),
        ({"kv_blocks": 0}, f"kv_blocks must be a whole number from 1 to {LARGEST}, not 0"),
    ],
)
def test_bad_mappings(values, text):
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping(values)
    assert str(caught.value).startswith(text)


def test_a_configuration_is_frozen_and_checked_again_when_replaced():
    config = SchedulerConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.kv_blocks = 5
    assert config.replace(kv_blocks=5).kv_blocks == 5
    assert config.kv_blocks is None
    with pytest.raises(ConfigError, match="kv_blocks must be a whole number"):
        config.replace(kv_blocks=-5)
