"""Axes, conditions and designs: which combinations of values are tried."""

import math

import numpy as np
import pytest
from pydantic import TypeAdapter

from sweeps.axes import Axes, Axis
from sweeps.designs import rows_of
from sweeps.errors import SpecError
from sweeps.sections import DesignSection
from sweeps.space import Space
from sweeps.spec import SweepSpec

SMALL = {"trace": {"synthetic": "azure-conv-like", "requests": 20}, "cost": "unit"}


def axis(given) -> Axis:
    return Axis.model_validate(given)


def rows(method, **axes):
    design = DesignSection.model_validate(method)
    checked = TypeAdapter(Axes).validate_python(axes)
    return list(rows_of(design, checked, {"discipline": "strict", "max_batch_size": 256}))


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([3, None, "x", True], [3, None, "x", True]),
        ({"values": [3, 1]}, [3, 1]),
        ({"from": 1, "to": 5, "steps": 3}, [1, 3, 5]),
        ({"from": 1, "to": 6, "steps": 3}, [1, 4, 6]),  # 3.5 is rounded to even
        ({"from": 1.0, "to": 6, "steps": 3}, [1.0, 3.5, 6.0]),
        ({"from": 1, "to": 3, "steps": 6}, [1, 2, 3]),  # twins are dropped
        ({"from": 16, "to": 256, "steps": 5, "scale": "log"}, [16, 32, 64, 128, 256]),
        ({"from": 0.01, "to": 1.0, "steps": 3, "scale": "log"}, [0.01, pytest.approx(0.1), 1.0]),
        ({"from": 1, "to": 5}, None),
    ],
)
def test_values_of_an_axis(given, values):
    assert axis(given).listed == values


def test_shares_of_an_axis():
    assert [axis(["a", "b", "c"]).at(u) for u in (0, 0.33, 0.34, 0.999)] == ["a", "a", "b", "c"]
    # Whole numbers from 1 to 4 own a quarter each: 1 from 0.5 to 1.5, of 0.5 to 4.5.
    whole = axis({"from": 1, "to": 4})
    assert [whole.at(u) for u in (0, 0.24, 0.26, 0.51, 0.76, 0.999)] == [1, 1, 2, 3, 4, 4]
    real = axis({"from": 1.0, "to": 4})
    assert (real.at(0), real.at(0.5)) == (1.0, 2.5)
    assert axis({"from": 1.0, "to": 16.0, "scale": "log"}).at(0.75) == pytest.approx(8)
    # On a log scale from 0.5 to 16.5, half-way is the root of their product, 2.87.
    assert axis({"from": 1, "to": 16, "scale": "log"}).at(0.5) == 3


def test_grid_is_every_combination_in_order():
    assert rows("grid", policy=["a", "b"], block_size=[1, 2]) == [
        {"policy": policy, "block_size": size} for policy in "ab" for size in (1, 2)
    ]
    assert rows("grid") == [{}]


def test_zip_pairs_values():
    assert rows("zip", policy=["a", "b"], block_size=[2, 1]) == [
        {"policy": "a", "block_size": 2},
        {"policy": "b", "block_size": 1},
    ]


def test_an_axis_that_exists_under_one_discipline():
    found = rows(
        "grid",
        discipline=["vllm", "orca"],
        watermark={"values": [0.0, 0.1], "when": "discipline == 'vllm'"},
        block_size=[8, 16],
    )
    assert found == [
        *(
            {"discipline": "vllm", "watermark": share, "block_size": size}
            for share in (0.0, 0.1)
            for size in (8, 16)
        ),
        {"discipline": "orca", "block_size": 8},
        {"discipline": "orca", "block_size": 16},
    ]


def test_conditions_see_base_and_earlier_axes_only():
    assert rows("grid", block_size={"values": [1], "when": "max_batch_size == 256"}) == [
        {"block_size": 1}
    ]
    assert rows(
        "zip", policy=["a", "b"], block_size={"values": [1, 2], "when": "policy == 'b'"}
    ) == [{"policy": "a"}, {"policy": "b", "block_size": 2}]


@pytest.mark.parametrize("method", ["random", "latin_hypercube", "sobol"])
@pytest.mark.parametrize("points", [64, 50, 1])
def test_samples_are_reproducible_and_in_range(method, points):
    design = {"method": method, "points": points, "seed": 3}
    axes = {
        "max_batch_size": {"from": 1, "to": 512, "scale": "log"},
        "max_wait_s": {"from": 0.5, "to": 8.0},
        "policy": ["fcfs", "shortest_total"],
        "lookahead": {"values": [1, 2], "when": "policy == 'fcfs'"},
    }
    found = rows(design, **axes)
    assert found == rows(design, **axes)
    assert points == 1 or found != rows(design | {"seed": 4}, **axes)
    assert len(found) == points
    for row in found:
        assert type(row["max_batch_size"]) is int
        assert 1 <= row["max_batch_size"] <= 512
        assert 0.5 <= row["max_wait_s"] <= 8
        assert ("lookahead" in row) == (row["policy"] == "fcfs")


@pytest.mark.parametrize("method", ["latin_hypercube", "sobol"])
def test_samples_fill_every_axis_evenly(method):
    """Of 64 points, each 64th of an axis holds one."""
    found = rows(
        {"method": method, "points": 64},
        max_wait_s={"from": 0.0, "to": 64.0},
        timeout_s={"from": 1.0, "to": 2.0**64, "scale": "log"},
    )
    assert sorted(math.floor(row["max_wait_s"]) for row in found) == list(range(64))
    assert sorted(math.floor(np.log2(row["timeout_s"])) for row in found) == list(range(64))


def complaint(**parts) -> str:
    with pytest.raises(SpecError) as caught:
        Space(SweepSpec.from_mapping(SMALL | parts, "s.yaml"), ("unit",))
    return str(caught.value)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            {"axes": {"block_size": {"from": 1, "to": 4, "step": 2}}},
            "s.yaml: axes.block_size.step = 2: no such key; did you mean 'steps'?",
        ),
        (
            {"axes": {"block_size": {"from": 4, "to": 1}}},
            "s.yaml: axes.block_size = (4, 1): from must be less than to, and both are needed",
        ),
        (
            {"axes": {"block_size": {"from": 4}}},
            "s.yaml: axes.block_size = (4, None): from must be less than to, and both are needed",
        ),
        (
            {"axes": {"max_wait_s": {"from": 0, "to": 4, "scale": "log"}}},
            "s.yaml: axes.max_wait_s = (0, 4): "
            "a range must be finite, and on a log scale start above 0",
        ),
        (
            {"axes": {"block_size": {"values": [1], "from": 4}}},
            "s.yaml: axes.block_size: either values, or from and to, must be given",
        ),
        (
            {"axes": {"block_size": {"values": [1, 2], "steps": 4}}},
            "s.yaml: axes.block_size.steps = 4: goes with a range only",
        ),
        (
            {"axes": {"block_size": {"from": 1, "to": 4}}},
            "s.yaml: axes.block_size: "
            "a range without steps is a continuum, and a grid needs values",
        ),
        (
            {"axes": {"load": {"from": 1, "to": 4}}},
            "s.yaml: axes.load: must be values, or a range with steps, everywhere",
        ),
        (
            {"axes": {"load": {"values": [1], "when": "block_size == 16"}}},
            "s.yaml: axes.load: must be values, or a range with steps, everywhere",
        ),
        (
            {"axes": {"policy": ["fcfs"], "block_size": [1, 2]}, "design": "zip"},
            "s.yaml: axes.policy: has 1 values, but block_size has 2: a zip pairs them",
        ),
        (
            {"axes": {"block_size": {"values": [1], "when": "policy == 'x'"}, "policy": ["fcfs"]}},
            "s.yaml: axes.block_size.when = \"policy == 'x'\": no such name 'policy'; ",
        ),
        (
            {"axes": {"block_size": {"values": [1], "when": "kv_blocks > 3"}}},
            "s.yaml: axes: a condition cannot be told: '>' not supported between",
        ),
        ({"design": "sobol"}, "s.yaml: design = 'sobol': sobol needs points, how many to draw"),
        (
            {"design": {"method": "random", "points": 4}},
            "s.yaml: design: there are no axes to draw from",
        ),
        (
            {"design": {"method": "grid", "points": 4}},
            "s.yaml: design.points: goes with random, latin_hypercube, sobol, nsga2, tpe only",
        ),
        (
            {"design": "sobel"},
            "s.yaml: design.method = 'sobel': "
            "must be 'grid', 'zip', 'random', 'latin_hypercube', 'sobol', 'nsga2' or 'tpe'",
        ),
        (
            {"design": {"method": "sobol", "points": 4, "maximise": ["requests_per_s"]}},
            "s.yaml: design.maximise: goes with nsga2, tpe only",
        ),
        (
            {"design": {"method": "tpe", "points": 4, "maximise": []}},
            "s.yaml: design: there is nothing to maximise or minimise",
        ),
        (
            {"constraints": ["block_size < max_batchsize"]},
            "s.yaml: constraints[0] = 'block_size < max_batchsize': "
            "no such name 'max_batchsize'; did you mean 'max_batch_size'?",
        ),
        (
            {"constraints": ["true", "kv_blocks < 3"], "axes": {"block_size": [1, 2]}},
            "s.yaml: constraints[1] = 'kv_blocks < 3': cannot be told: '<' not supported between "
            "instances of 'NoneType' and 'int' (in block_size=1)",
        ),
        (
            {"constraints": ["block_size < 3"]},
            "s.yaml: the constraints leave no configuration",
        ),
    ],
)
def test_complaints(parts, expected):
    assert complaint(**parts).startswith(expected)


def space_of(**parts) -> Space:
    spec = SweepSpec.from_mapping(SMALL | parts)
    return Space(spec, tuple(spec.cost_models()))


def test_constraints_leave_points_out():
    space = space_of(
        axes={
            "load": [1, 2],
            "prefill_chunk_size": [256, 512],
            "max_num_batched_tokens": [256, 1024],
        },
        constraints=["prefill_chunk_size < max_num_batched_tokens", "variant == 'b' or true"],
        variants=[{"name": "a"}, {"name": "b", "set": {"policy": "edf"}}],
    )
    kept = [(256, 1024), (512, 1024)]
    assert len(space) == len(list(space)) == 8
    assert [point.index for point in space] == list(range(8))
    assert [
        (p.choice.config.prefill_chunk_size, p.choice.config.max_num_batched_tokens) for p in space
    ] == kept * 4
    assert space.disciplines == {"strict": 4}
    assert space.policies == {
        "fcfs": "variant='a', prefill_chunk_size=256, max_num_batched_tokens=1024",
        "edf": "variant='b', prefill_chunk_size=256, max_num_batched_tokens=1024",
    }


def test_a_constraint_may_rescue_an_impossible_combination():
    """vllm decodes every slot in one iteration: its budget must not be less than its slots."""
    axes = {"discipline": ["vllm"], "max_batch_size": [64, 256], "max_num_batched_tokens": [128]}
    assert "is less than max_batch_size 256" in complaint(axes=axes)
    space = space_of(axes=axes, constraints=["max_num_batched_tokens >= max_batch_size"])
    assert [choice.config.max_batch_size for choice in space.choices()] == [64]


def test_a_configuration_drawn_twice_is_one_point():
    space = space_of(
        axes={"block_size": {"from": 1, "to": 4}}, design={"method": "random", "points": 100}
    )
    assert sorted(choice.config.block_size for choice in space.choices()) == [1, 2, 3, 4]
    assert len(space) == 4


def test_order_over_traces_and_costs():
    space = space_of(
        trace=[
            {"name": "file", "path": "x.csv"},
            {"synthetic": "azure-conv-like"},
        ],
        cost=["unit", {"name": "two", "preset": "llama3-8b-a100"}],
        axes={"load": [1, 2], "seed": [5, 6], "block_size": [4, 8]},
        constraints=["cost == 'unit' or block_size == 8"],
    )
    seen = [(p.trace, p.seed, p.load, p.choice.cost, p.choice.config.block_size) for p in space]
    choices = [("unit", 4), ("unit", 8), ("two", 8)]
    # A file has no seed; the synthetic trace has those of the axis.
    traces = [("file", None), ("azure-conv-like", 5), ("azure-conv-like", 6)]
    assert seen == [
        (*trace, load, *choice) for trace in traces for load in (1, 2) for choice in choices
    ]
    assert len(space) == 18
