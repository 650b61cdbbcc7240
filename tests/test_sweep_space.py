"""Points in order, their configurations, and the keys that tell results apart."""

from dataclasses import replace

import numpy as np
import pytest

from sweeps.errors import SpecError
from sweeps.keys import key_context, point_key, trace_fingerprint
from sweeps.space import Space, check_on_trace
from sweeps.spec import SweepSpec
from vecsched import CostModel, MetricOptions, SchedulerConfig, Trace
from vecsched.errors import ConfigError


def spec_of(**parts) -> SweepSpec:
    small = {"trace": {"synthetic": "azure-conv-like", "requests": 20}, "cost": "unit"}
    return SweepSpec.from_mapping(small | parts, "s.yaml")


def build(spec: SweepSpec) -> Space:
    return Space(spec, ("unit",))


def complaint(**parts) -> str:
    with pytest.raises(SpecError) as caught:
        build(spec_of(**parts))
    return str(caught.value)


def test_order_of_points():
    space = build(
        spec_of(
            base={"kv_blocks": 50, "block_size": 8},
            axes={"max_batch_size": [1, 2], "load": [1, 2], "policy": ["fcfs"], "seed": [7, 5]},
            variants=[{"name": "a"}, {"name": "b", "set": {"block_size": 4}}],
        )
    )
    points = list(space)
    assert len(space) == len(points) == 16
    assert [point.index for point in points] == list(range(16))
    seen = [(p.seed, p.load, p.choice.variant, p.choice.config.max_batch_size) for p in points]
    # Seeds outermost, then loads, then variants, then the other axes; each in the file's order.
    assert seen == [
        (seed, load, variant, size)
        for seed in (7, 5)
        for load in (1.0, 2.0)
        for variant in ("a", "b")
        for size in (1, 2)
    ]
    last = points[-1].choice
    assert last.axes == {"max_batch_size": 2, "policy": "fcfs"}
    assert last.config == SchedulerConfig(
        policy="fcfs", max_batch_size=2, kv_blocks=50, block_size=4
    )
    assert str(points[-1]) == (
        "point 15 (variant='b', max_batch_size=2, policy='fcfs', load=2.0, seed=5)"
    )


def test_one_point_without_axes():
    (point,) = build(spec_of())
    assert (point.load, point.seed, point.choice.config) == (1.0, 0, SchedulerConfig())
    assert str(point) == "point 0 (base, load=1.0, seed=0)"


def test_a_file_has_no_seed(tmp_path):
    (point,) = build(spec_of(trace={"path": "x.csv"}))
    assert point.seed is None
    assert str(point) == "point 0 (base, load=1.0)"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            {"base": {"kv_blocks": 0}},
            "s.yaml: base.kv_blocks = 0: "
            "kv_blocks must be a whole number from 1 to 2147483647, not 0",
        ),
        (
            {"axes": {"max_batch_size": [1, 2.5]}},
            "s.yaml: axes.max_batch_size[1] = 2.5: "
            "max_batch_size must be a whole number from 1 to 2147483647, not 2.5",
        ),
        (
            {"variants": [{"name": "a"}, {"name": "b", "set": {"discipline": "statik"}}]},
            "s.yaml: variants[1].set.discipline = 'statik': "
            "unknown discipline 'statik'; did you mean 'static'?",
        ),
        (
            {"axes": {"policy": ["fcfs", "shortest_promt"]}},
            "s.yaml: axes.policy[1] = 'shortest_promt': "
            "unknown policy 'shortest_promt'; did you mean 'shortest_prompt'?",
        ),
    ],
)
def test_impossible_values(parts, expected):
    assert complaint(**parts) == expected


def test_impossible_combination(monkeypatch):
    """Fields that are possible each but not together: the combination is named."""
    possible = SchedulerConfig.from_mapping

    def from_mapping(values):
        if values.get("max_batch_size") == 2 and values.get("lookahead") == 1:
            raise ConfigError("not these two")
        return possible(values)

    monkeypatch.setattr(SchedulerConfig, "from_mapping", from_mapping)
    assert complaint(
        base={"lookahead": 1},
        axes={"load": [1, 3], "policy": ["fcfs"], "max_batch_size": [1, 2]},
        variants=[{"name": "v"}],
    ) == ("s.yaml: configuration (variant='v', policy='fcfs', max_batch_size=2): not these two")


def test_the_same_configuration_twice():
    variants = [{"name": "a"}, {"name": "b", "set": {"policy": "fcfs"}}]
    assert complaint(axes={"block_size": [4]}, variants=variants) == (
        "s.yaml: (variant='a', block_size=4) and (variant='b', block_size=4) "
        "are the same configuration"
    )


def test_what_only_the_trace_can_tell():
    trace = Trace([0.0, 1000.0], [1, 1], [1, 1])
    spec = spec_of(axes={"policy": ["fcfs", "deadline"], "block_size": [1, 2]})
    with pytest.raises(SpecError) as caught:
        check_on_trace(spec, build(spec), spec.trace[0], trace)
    assert str(caught.value) == (
        "s.yaml: configuration (policy='deadline', block_size=1): "
        "policy 'deadline' needs the trace column 'deadline_s', which is missing"
    )
    check_on_trace(
        spec, build(spec), spec.trace[0], replace(trace, deadline_s=np.array([1.0, 2.0]))
    )
    slow = spec_of(axes={"load": [1, 1e-6]})
    with pytest.raises(SpecError, match=r"s\.yaml: axes\.load = 1e-06: .*beyond the clock"):
        check_on_trace(slow, build(slow), slow.trace[0], trace)


TRACE = Trace(
    [0.0, 1.0],
    [10, 20],
    [1, 2],
    kv_blocks=[1, 2],
    priority=[0, 1],
    tenant=["a", "b"],
    deadline_s=[5.0, np.nan],
    cancel_at_s=[np.nan, 9.0],
)


@pytest.mark.parametrize(
    "change",
    [
        {"arrival_s": np.array([0.0, 1.5])},
        {"prompt_tokens": np.array([10, 21])},
        {"output_tokens": np.array([2, 1])},
        {"kv_blocks": None},
        {"priority": np.array([1, 1])},
        {"tenant": np.array(["a", "a"])},
        {"deadline_s": np.array([5.0, 6.0])},
        {"cancel_at_s": np.array([9.0, np.nan])},
        {"id": np.array(["x", "y"])},
    ],
)
def test_every_column_is_in_the_fingerprint(change):
    assert trace_fingerprint(replace(TRACE, **change)) != trace_fingerprint(TRACE)


def test_the_fingerprint_is_that_of_the_values():
    assert trace_fingerprint(replace(TRACE)) == trace_fingerprint(TRACE)
    assert len(trace_fingerprint(TRACE)) == 16


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "other"},
        {"cost": CostModel.affine(1, 0, 0, 0)},
        {"metrics": MetricOptions(ttft_slo_s=1.0)},
        {"engine": "2"},
    ],
)
def test_what_is_in_every_key(change):
    parts = {
        "fingerprint": "f",
        "cost": CostModel.unit(),
        "metrics": MetricOptions(),
        "engine": "1",
    }
    (point,) = build(spec_of())
    same, other = key_context(**parts), key_context(**parts | change)
    assert point_key(point, same) == point_key(point, key_context(**parts))
    assert point_key(point, same) != point_key(point, other)


def test_what_tells_the_keys_of_a_sweep_apart():
    space = build(
        spec_of(
            axes={
                "load": [1, 2],
                "seed": [0, 1],
                "max_wait_s": [None, 1],
                "policy": ["fcfs", "edf"],
            }
        )
    )
    keys = [point_key(point, b"context") for point in space]
    assert len(set(keys)) == len(space) == 16
    assert {len(key) for key in keys} == {16}


def test_a_key_survives_its_neighbours():
    """A point's number and its variant's name do not determine its result."""
    (alone,) = build(spec_of(base={"block_size": 8}))
    others = {"load": [3, 1], "block_size": [4, 8]}
    among = [p for p in build(spec_of(axes=others, variants=[{"name": "v"}])) if p.index == 3]
    assert point_key(among[0], b"") == point_key(alone, b"")
