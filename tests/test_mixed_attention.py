"""A measured grid for iterations with a prefill: the rule between its points, in the engine too."""

import json
from dataclasses import replace

import numpy as np
import pytest
from compare import assert_same, simulate_both
from hypothesis import given, settings
from hypothesis import strategies as st
from naive.cost import iteration_ps, measured_attention_ps
from paged_cases import comparable

from vecsched import CostModel, SchedulerConfig, Trace, simulate
from vecsched.errors import ClockOverflowError, CostError
from vecsched.mixed_attention import AXES, NO_GRID, MixedAttention, interpolate_ps, longest_ps

# Two points an axis; seconds = 1 + 2c + 4k + 8n + 16d, c, k, n, d in {0, 1}: sixteen different.
AXIS = {"chunk": [10, 20], "prefill_context": [0, 40], "decodes": [0, 4], "decode_context": [8, 16]}
SECONDS = 1 + np.tensordot([2.0, 4.0, 8.0, 16.0], np.indices((2, 2, 2, 2)), 1)
LINEAR = MixedAttention(**AXIS, seconds=SECONDS)


def at(grid, *points):
    """Seconds at points (chunk, prefill context, decodes, decode context)."""
    columns = np.array(points, np.float64).T
    return (interpolate_ps(grid.grid(), list(columns)) / 1e12).tolist()


def test_a_point_of_the_grid_is_what_was_measured():
    assert at(LINEAR, (10, 0, 0, 8), (20, 0, 0, 8), (10, 40, 0, 8)) == [1, 3, 5]
    assert at(LINEAR, (10, 0, 4, 8), (10, 0, 0, 16), (20, 40, 4, 16)) == [9, 17, 31]


def test_between_the_points_it_is_linear_along_each_axis():
    # Half-way on every axis: 1 + (2 + 4 + 8 + 16) / 2.
    assert at(LINEAR, (15, 20, 2, 12)) == [16]


def test_a_product_of_two_axes_is_met_everywhere():
    # seconds = chunk * prefill_context is one multilinear function: exact in between and beyond.
    product = np.multiply.outer([10.0, 20.0], [0.0, 40.0])[:, :, None, None] * np.ones((2, 2))
    grid = MixedAttention(**AXIS, seconds=product)
    assert at(grid, (12, 8, 1, 9), (30, 80, 4, 16)) == [12 * 8, 30 * 80]


def test_outside_the_first_point_holds_and_the_last_cell_goes_on():
    # Below: as at 10 and at 8. Beyond: 20 more tokens are 4 more, 8 more decodes are 16 more.
    assert at(LINEAR, (1, 0, 0, 8), (10, 0, 0, 1)) == [1, 1]
    assert at(LINEAR, (40, 0, 0, 8), (10, 0, 12, 8)) == [7, 25]


def test_a_time_is_never_negative():
    falling = MixedAttention(**AXIS, seconds=np.flip(SECONDS))
    assert at(falling, (10, 0, 0, 8), (500, 0, 0, 8)) == [31, 0]


def test_the_longest_bounds_every_point_inside():
    # At (40, 80, 8, 32): 1 + 2 * 3 + 4 * 2 + 8 * 2 + 16 * 3 = 79, the corner where all is most.
    assert longest_ps(LINEAR.grid(), (40, 80, 8, 32)) == 79e12
    assert longest_ps(LINEAR.grid(), (1, 1, 1, 1)) == 31e12
    assert longest_ps(NO_GRID, (40, 80, 8, 32)) == 0


def test_several_chunks_count_as_one_of_the_same_work():
    """Chunks of 8 behind 20 and 4 behind 2: work 8 * 48 + 4 * 8 = 416, of 12 tokens.

    One chunk of 12 does 12 * (2 * context + 12) = 416 at context (416 / 12 - 12) / 2 = 34 / 3.
    """
    grid = MixedAttention(**AXIS, seconds=SECONDS).to_dict()
    # 1 + 2 * (2 / 10) + 4 * (34 / 3) / 40 = 2.5333...
    assert measured_attention_ps(grid, [(8, 20), (4, 2)], []) == 2_533_333_333_333
    # Two fresh prompts of 6 do less work than one of 12 would: no context at all.
    assert measured_attention_ps(grid, [(6, 0), (6, 0)], []) == 1_400_000_000_000


# The engine against the oracle

counts = st.integers(1, 40)


@st.composite
def grids(draw):
    axes = {
        name: sorted(draw(st.sets(st.integers(0, 40), min_size=2, max_size=4))) for name in AXES
    }
    shape = [len(axis) for axis in axes.values()]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return MixedAttention(**axes, seconds=rng.random(shape) * draw(st.sampled_from([1e-9, 0.01])))


@settings(deadline=None)
@given(
    grids(),
    st.lists(st.tuples(counts, st.integers(0, 60)), min_size=1, max_size=3),
    st.lists(counts, max_size=50),
)
def test_the_vectorised_rule_equals_the_oracle(grid, prefills, contexts):
    tokens = sum(chunk for chunk, _ in prefills)
    work = sum(chunk * (2 * before + chunk) for chunk, before in prefills)
    n, mean = len(contexts), sum(contexts) / len(contexts) if contexts else 0.0
    where = [np.array([float(x)]) for x in (tokens, max((work / tokens - tokens) / 2, 0), n, mean)]
    got = interpolate_ps(grid.grid(), where)
    assert got.tolist() == [measured_attention_ps(grid.to_dict(), prefills, contexts)]


@pytest.mark.parametrize("discipline", ["strict", "static", "vllm", "prefill_first"])
@settings(deadline=None, max_examples=20)
@given(grid=grids(), seed=st.integers(0, 2**32))
def test_the_engine_equals_the_oracle(discipline, grid, seed):
    rng = np.random.default_rng(seed)
    columns = (
        np.sort(rng.integers(0, 40, 12)) / 8,
        rng.integers(1, 40, 12),
        rng.integers(1, 9, 12),
    )
    records = [
        {"arrival_s": float(a), "prompt_tokens": int(p), "output_tokens": int(o)}
        for a, p, o in zip(*columns, strict=True)
    ]
    config = SchedulerConfig(
        discipline=discipline,
        max_batch_size=4,
        max_num_batched_tokens=48 if discipline == "prefill_first" else 16,
        prefill_chunk_size=7,
        kv_blocks=16,
        block_size=4,
    )
    cost = replace(CostModel.affine(0.01, 0.001, 0.002, 1e-5), mixed_attention=grid)
    ours, theirs = simulate_both(records, config, cost, {})
    assert_same(comparable(ours), comparable(theirs))


# Files and errors


def model(grid=LINEAR):
    return replace(CostModel.unit(), mixed_attention=grid)


def test_a_file_keeps_the_grid(tmp_path):
    path = tmp_path / "cost.json"
    model().save(path)
    again = CostModel.load(path)
    assert again == model()
    assert hash(again) == hash(model())
    assert again != model(MixedAttention(**AXIS, seconds=SECONDS + 1))
    assert json.loads(path.read_text())["mixed_attention"]["chunk"] == [10, 20]


def test_a_model_without_a_grid_says_nothing_of_it():
    assert "mixed_attention" not in CostModel.unit().to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk": [10]}, "chunk must be at least two whole numbers >= 0, not [10]"),
        ({"chunk": [10, 10.5]}, "chunk must be at least two whole numbers"),
        ({"chunk": ["10", "20"]}, "chunk must be at least two whole numbers"),
        ({"decodes": [4, 4]}, "decodes must ascend, but 4 is followed by 4"),
        ({"decodes": [-1, 4]}, "decodes must be at least two whole numbers >= 0"),
        ({"decodes": [0, 1, 4]}, "nested as 2 x 2 x 3 x 2 of chunk, prefill_context, decodes"),
        ({"seconds": [[1.0], [2.0, 3.0]]}, "nested as 2 x 2 x 2 x 2"),
        ({"seconds": -SECONDS}, "seconds[0, 0, 0, 0] must be seconds >= 0, not"),
        ({"seconds": SECONDS * np.nan}, "seconds[0, 0, 0, 0] must be seconds >= 0, not"),
        ({"chunks": [1, 2]}, "unknown field 'chunks'; did you mean 'chunk'?"),
    ],
)
def test_bad_grids(change, message):
    values = model().to_dict()
    values["mixed_attention"] = LINEAR.to_dict() | change
    with pytest.raises(CostError) as caught:
        CostModel.from_mapping(values, "f.json")
    assert str(caught.value).startswith("f.json: mixed_attention")
    assert message in str(caught.value)


def test_what_is_no_grid_at_all():
    with pytest.raises(CostError, match="mixed_attention must be a mapping of chunk"):
        CostModel.from_mapping(model().to_dict() | {"mixed_attention": [1]})
    incomplete = {name: values for name, values in LINEAR.to_dict().items() if name != "decodes"}
    with pytest.raises(CostError, match="mixed_attention lacks 'decodes'"):
        CostModel.from_mapping(model().to_dict() | {"mixed_attention": incomplete})


def test_a_grid_that_leaves_the_clock_is_refused():
    trace = Trace(arrival_s=[0.0], prompt_tokens=[1000], output_tokens=[10])
    huge = MixedAttention(**AXIS, seconds=SECONDS * 1e3)
    with pytest.raises(ClockOverflowError):
        simulate(trace, SchedulerConfig(), model(huge))


def test_alone_on_an_idle_engine_a_request_pays_for_each_chunk():
    """A prompt of 25 in chunks of 10: 10 behind 0, 10 behind 10, 5 behind 20, then no decode.

    1 s each, and attention 1, 1 + 4 / 4, 1 + 4 / 2: a chunk of 5 counts as one of 10. 3 + 6 s; a
    second request, so the slowdown of the first is 1.
    """
    trace = Trace(arrival_s=[0.0], prompt_tokens=[25], output_tokens=[1])
    config = SchedulerConfig(discipline="vllm", max_num_batched_tokens=10, max_batch_size=1)
    requests = simulate(trace, config, model()).requests
    assert requests["e2e_s"].tolist() == [9.0]
    assert requests["slowdown"].tolist() == [1.0]
    cost = model().to_dict()
    assert iteration_ps(cost, [(10, 10)], []) == 3_000_000_000_000
