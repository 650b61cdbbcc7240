"""Names of other engines: understood as aliases, and listed in docs/names.md."""

import re
from pathlib import Path

import pytest

from sweeps.errors import SpecError
from sweeps.space import Space
from sweeps.spec import SweepSpec
from vecsched import SchedulerConfig
from vecsched.aliases import ALIASES
from vecsched.errors import ConfigError

NAMES = Path(__file__).parents[1] / "docs" / "names.md"


def tables():
    """The page's tables as lists of rows of cells, without their heads."""
    found, rows = [], []
    for line in [*NAMES.read_text("utf-8").splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            found.append(rows[2:])
            rows = []
    return found


def test_the_page_lists_every_field_in_order():
    fields, _ = tables()
    assert [row[0] for row in fields] == [f"`{name}`" for name in SchedulerConfig().to_dict()]
    assert all(len(row) == 4 for row in fields)
    vllm = {ours.strip("`"): theirs for ours, theirs, *_ in fields}
    for name, alias in ALIASES.items():
        assert f"`{name}`" in vllm[alias.field]


def test_the_page_lists_every_alias():
    _, aliases = tables()
    own = {name: re.findall("`(.+?)`", ours)[0] for name, ours in aliases}
    assert own == {f"`{name}`": alias.field for name, alias in ALIASES.items()}
    assert {name: "+ 1" in ours for name, ours in aliases} == {
        f"`{name}`": alias.surplus == 1 for name, alias in ALIASES.items()
    }


def test_no_alias_hides_a_field():
    assert ALIASES.keys().isdisjoint(SchedulerConfig().to_dict())


def test_a_configuration_in_vllms_names():
    theirs = {
        "max_num_seqs": 8,
        "num_gpu_blocks": 100,
        "scheduling_policy": "priority",
        "max_num_batched_tokens": 64,
    }
    config = SchedulerConfig.from_mapping({"discipline": "vllm", **theirs})
    assert config == SchedulerConfig(
        discipline="vllm",
        max_batch_size=8,
        kv_blocks=99,  # one of them stands for no block
        policy="priority",
        max_num_batched_tokens=64,
    )
    assert config.replace(num_gpu_blocks_override=41, max_num_seqs=2).kv_blocks == 40
    # As in vLLM: none given.
    assert SchedulerConfig.from_mapping({"num_gpu_blocks_override": None}).kv_blocks is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_num_seqs": 8, "max_batch_size": 8}, "max_num_seqs and max_batch_size are two names"),
        ({"policy": "fcfs", "scheduling_policy": "fcfs"}, "policy and scheduling_policy are two"),
        ({"num_gpu_blocks": 5, "num_gpu_blocks_override": 5}, "are two names of one field"),
        ({"max_num_seq": 8}, "unknown field 'max_num_seq'; did you mean 'max_num_seqs'?"),
        ({"max_num_seqs": 2.5}, "max_batch_size must be a whole number from 1"),
        # vLLM needs one block beside the one that stands for none.
        ({"num_gpu_blocks": 1}, "kv_blocks must be a whole number from 1"),
        ({"num_gpu_blocks": True}, "kv_blocks must be a whole number from 1"),
        ({"num_gpu_blocks": "many"}, "not 'many'"),
    ],
)
def test_bad_names_and_values(values, message):
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping(values)
    assert message in str(caught.value)


def test_a_change_may_not_come_under_two_names():
    with pytest.raises(ConfigError, match="max_num_seqs and max_batch_size are two names"):
        SchedulerConfig().replace(max_num_seqs=8, max_batch_size=8)


# Sweep files.


def spec_of(**parts):
    return SweepSpec.from_mapping(
        {"trace": {"synthetic": "azure-conv-like", "requests": 9}, "cost": "unit", **parts}
    )


def configs_of(spec):
    return [choice.config for choice in Space(spec, ("unit",)).choices()]


def test_a_sweep_in_vllms_names():
    theirs = spec_of(
        base={"max_num_seqs": 4, "num_gpu_blocks": 11},
        axes={
            "num_gpu_blocks_override": [101, None],
            "max_num_seqs": {"from": 2, "to": 8, "steps": 3},
            "scheduling_policy": {"values": ["fcfs", "shortest_total"], "when": "kv_blocks == 100"},
        },
        variants=[{"name": "v", "set": {"max_num_batched_tokens": 99}}],
    )
    ours = spec_of(
        base={"max_batch_size": 4, "kv_blocks": 10},
        axes={
            "kv_blocks": [100, None],
            "max_batch_size": {"from": 2, "to": 8, "steps": 3},
            "policy": {"values": ["fcfs", "shortest_total"], "when": "kv_blocks == 100"},
        },
        variants=[{"name": "v", "set": {"max_num_batched_tokens": 99}}],
    )
    assert theirs.as_written() == ours.as_written()
    assert configs_of(theirs) == configs_of(ours)
    assert len(configs_of(theirs)) == 2 * 3 + 3


def test_a_range_of_blocks():
    spec = spec_of(axes={"num_gpu_blocks": {"from": 11, "to": 21, "steps": 3}})
    assert [config.kv_blocks for config in configs_of(spec)] == [10, 15, 20]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"base": {"max_num_seqs": 4, "max_batch_size": 4}},
            "base: max_num_seqs and max_batch_size are two names of one field",
        ),
        (
            {"axes": {"policy": ["fcfs"], "scheduling_policy": ["priority"]}},
            "axes: policy and scheduling_policy are two names of one field",
        ),
        (
            {
                "axes": {"max_batch_size": [4]},
                "variants": [{"name": "v", "set": {"max_num_seqs": 4}}],
            },
            "is an axis, too",
        ),
        ({"base": {"max_num_seq": 4}}, "did you mean 'max_num_seqs'?"),
        ({"axes": {"num_gpu_block": [4]}}, "did you mean 'num_gpu_blocks'?"),
        ({"axes": {"max_num_seqs": 4}}, "must be a list of values"),
        ({"base": ["max_num_seqs"]}, "base: must be a mapping"),
    ],
)
def test_bad_names_in_a_sweep(parts, message):
    with pytest.raises(SpecError) as caught:
        spec_of(**parts)
    assert message in str(caught.value)
