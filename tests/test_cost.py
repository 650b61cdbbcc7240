"""CostModel: terms in, exact tables out; files; and what it does not accept."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive.cost import iteration_ps, table_value_ps

from vecsched import CostModel
from vecsched.clock import HORIZON_S
from vecsched.cost import CostTables, Terms
from vecsched.errors import CostError
from vecsched.tables import expand

MS = 10**9
ROUND = {"fixed_s": 1.0}  # every iteration lasts a second


def duration_ps(cost: CostTables, prefills, decode_contexts) -> int:
    """The formula of the docstring of `vecsched.cost`, on expanded tables.

    Args:
        cost: the tables.
        prefills: (chunk, prompt tokens computed before) of each prefill.
        decode_contexts: KV tokens that each decode reads.
    """
    n, context = len(decode_contexts), sum(decode_contexts)
    if not prefills:
        return int(cost.decode_ps[n] + cost.decode_context_ps[n] * context)
    chunks = sum(chunk for chunk, _ in prefills)
    return int(
        cost.fixed_ps
        + cost.token_ps[chunks + n]
        + cost.sequence_ps[len(prefills) + n]
        + cost.mixed_decode_ps[n]
        + cost.mixed_context_ps[n] * context
        + cost.prefill_attention_ps
        * sum(chunk * (2 * before + chunk) for chunk, before in prefills)
        + cost.prefill_context_ps * sum(before for _, before in prefills)
        + cost.chunk_decode_ps * chunks * n
    )


# Tables


def test_a_table_is_linear_between_its_points_and_beyond():
    # From 0 (not given, so 0) to 1 s at n = 2, to 2 s at n = 4, and on by 0.5 s.
    table = expand(((2, 1.0), (4, 2.0)), 6)
    assert table.tolist() == [0, 500 * MS, 1000 * MS, 1500 * MS, 2000 * MS, 2500 * MS, 3000 * MS]
    assert table.dtype == np.int64


def test_a_lone_point():
    assert expand(((0, 0.002),), 2).tolist() == [2 * MS] * 3  # at 0: a constant
    assert expand(((2, 0.002),), 3).tolist() == [0, MS, 2 * MS, 3 * MS]  # elsewhere: a line
    assert expand((), 2).tolist() == [0, 0, 0]


def test_halves_are_rounded_upwards():
    # 3 ps in 2 steps are 1.5 a step; -3 ps are -1.5, of which upwards is -1.
    assert expand(((0, 0.0), (2, 3e-12)), 3).tolist() == [0, 2, 3, 5]
    assert expand(((0, 0.0), (2, -3e-12)), 3).tolist() == [0, -1, -3, -4]


def seconds(least_ps: int, most_ps: int):
    return st.integers(least_ps, most_ps).map(lambda ps: ps / 10**12)


def points(values):
    return st.dictionaries(st.integers(0, 40), values, max_size=5).map(
        lambda at: tuple(sorted(at.items()))
    )


@given(points(seconds(-(10**13), 10**13)), st.integers(1, 60))
def test_tables_equal_the_oracles(given_points, largest):
    expected = [table_value_ps(given_points, n) for n in range(largest + 1)]
    assert expand(given_points, largest).tolist() == expected


small_s = seconds(0, 10**6)
# Points that only rise keep every duration above zero.
rising = points(small_s).map(
    lambda at: tuple(
        (n, sum(step for _, step in at[: place + 1])) for place, (n, _) in enumerate(at)
    )
)
terms = st.fixed_dictionaries(
    {"fixed_s": small_s},
    optional=dict.fromkeys(("token_s", "sequence_s", "decode_s", "context_s"), rising),
)


@given(
    terms,
    terms,
    st.tuples(small_s, small_s, small_s),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), max_size=3),
    st.lists(st.integers(1, 30), max_size=5),
)
def test_durations_equal_the_oracles(decode, mixed, factors, prefills, decode_contexts):
    names = ("prefill_attention_s", "prefill_context_s", "chunk_decode_s")
    model = CostModel.tabulated(decode, mixed, **dict(zip(names, factors, strict=True)))
    expected = iteration_ps(model.to_dict(), prefills, decode_contexts)
    assert duration_ps(model.tables(20, 8), prefills, decode_contexts) == expected


def test_an_affine_cost_by_hand():
    model = CostModel.affine(0.010, 2e-3, 5e-4, 1e-5, 1e-6)
    tables = model.tables(64, 8)
    # 10 ms + 3 decodes x 0.5 ms + 60 KV tokens x 0.01 ms
    assert duration_ps(tables, [], [10, 20, 30]) == 12_100_000_000
    # 10 ms + 20 tokens x 2 ms + 2 decodes x 0.5 ms + 40 x 0.01 ms + 20 x (2 x 5 + 20) x 0.001 ms
    assert duration_ps(tables, [(20, 5)], [15, 25]) == 52_000_000_000
    assert duration_ps(tables, [(1, 0)], []) == 12_001_000_000


tenths_of_a_ps = st.integers(10, 10**6).map(lambda tenths: tenths / 10**13)


@given(tenths_of_a_ps, tenths_of_a_ps, st.integers(0, 8))
def test_a_decode_of_an_affine_cost_costs_the_same_beside_a_prefill(token_s, decode_s, decodes):
    # Even where the rounded difference is not the difference of the rounded: 2.6 - 1.2 ps is 1 ps
    # in the one way, 3 - 1 = 2 ps in the other.
    model = CostModel.affine(0.0, token_s, decode_s, 0.0)
    tables = model.tables(64, 16)
    alone, beside = (duration_ps(tables, prefills, [1] * decodes) for prefills in ([], [(5, 0)]))
    assert beside - alone == 5 * round(token_s * 10**12)


def test_a_unit_cost():
    tables = CostModel.unit().tables(64, 8)
    assert duration_ps(tables, [], [10] * 8) == duration_ps(tables, [(64, 0)], []) == 10**12


def test_tables_reach_to_the_largest_iteration_and_are_kept():
    model = CostModel.affine(0.01, 1e-3, 1e-4, 1e-6)
    tables = model.tables(100, 8)
    assert (len(tables.token_ps), len(tables.decode_ps)) == (101, 9)
    assert model.tables(100, 8) is tables
    assert model.tables(100, 9) is not tables
    # A batch of decodes has as many tokens, whatever the budget for prefills.
    assert len(model.tables(4, 8).token_ps) == 9


def test_bounds_are_those_of_the_tables():
    model = CostModel.tabulated(
        {"fixed_s": 1.0, "decode_s": [[4, 2.0], [8, 1.0]], "context_s": [[0, 0.25]]},
        {"fixed_s": 2.0, "token_s": [[1, 0.5]], "sequence_s": [[1, 1.0]], "context_s": [[0, 0.5]]},
    )
    tables = model.tables(10, 8)
    assert tables.longest_decode_ps == 3 * 10**12  # 1 + 2, at 4 decodes
    assert tables.longest_mixed_ps == 15 * 10**12  # 2 + 10 x 0.5 + 8 x 1
    assert tables.longest_context_ps == 5 * 10**11


# What is refused


NUMBER = "must be a number of seconds from 0 to 4611686, not"


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ((-0.01, 0, 0, 0), f"fixed_s {NUMBER} -0.01"),
        ((0, math.nan, 0, 0), f"per_prefill_token_s {NUMBER} nan"),
        ((0, 0, math.inf, 0), f"per_decode_s {NUMBER} inf"),
        ((0, 0, 0, "1"), f"per_context_token_s {NUMBER} '1'"),
        ((0, 0, 0, 0, True), f"per_prefill_attention_s {NUMBER} True"),
        ((HORIZON_S, 0, 0, 0), f"fixed_s {NUMBER} {HORIZON_S}"),
        ((0, 0, 0, 1e-13), "per_context_token_s = 1e-13 s is below the clock's picosecond"),
    ],
)
def test_bad_figures_of_an_affine_cost(figures, text):
    with pytest.raises(CostError) as caught:
        CostModel.affine(*figures)
    assert str(caught.value) == text


ASCENDING = "n must be whole numbers in ascending order, not"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"fixed_s": -1}, f"decode.fixed_s {NUMBER} -1"),
        ({"fixd_s": 1}, "decode: unknown term 'fixd_s'; did you mean 'fixed_s'?"),
        (
            {5: 1},
            "decode: unknown term 5; known: fixed_s, token_s, sequence_s, decode_s, context_s",
        ),
        ({"token_s": 3}, "decode.token_s must be a list of points [n, seconds], not 3"),
        ({"token_s": "ab"}, "decode.token_s must be a list of points [n, seconds], not 'ab'"),
        ({"token_s": [3]}, "decode.token_s: 3 is not a point [n, seconds]"),
        ({"token_s": ["12"]}, "decode.token_s: '12' is not a point [n, seconds]"),
        ({"token_s": [[1, 2, 3]]}, "decode.token_s: [1, 2, 3] is not a point [n, seconds]"),
        ({"token_s": [[1, "2"]]}, "decode.token_s: [1, '2'] is not a point [n, seconds]"),
        ({"token_s": [[1, math.nan]]}, "decode.token_s: [1, nan] is not a point [n, seconds]"),
        ({"token_s": [[1, 1e99]]}, "decode.token_s: [1, 1e+99] is not a point [n, seconds]"),
        ({"token_s": [["1", 2]]}, f"decode.token_s: {ASCENDING} '1'"),
        ({"token_s": [[math.nan, 2]]}, f"decode.token_s: {ASCENDING} nan"),
        ({"token_s": [[math.inf, 2]]}, f"decode.token_s: {ASCENDING} inf"),
        ({"token_s": [[-1, 2]]}, f"decode.token_s: {ASCENDING} -1"),
        ({"token_s": [[0.5, 2]]}, f"decode.token_s: {ASCENDING} 0.5"),
        ({"token_s": [[2, 2], [2, 3]]}, f"decode.token_s: {ASCENDING} 2"),
        ({"token_s": [[2, 2], [1, 3]]}, f"decode.token_s: {ASCENDING} 1"),
    ],
)
def test_bad_terms_are_named(change, text):
    with pytest.raises(CostError) as caught:
        CostModel.tabulated(ROUND | change)
    assert str(caught.value) == text


def test_terms_are_checked_however_they_are_made():
    with pytest.raises(CostError, match=r"^context_s: .* ascending"):
        Terms(context_s=((1, 0.5), (1, 0.5)))
    assert Terms(fixed_s=1, token_s=[[2.0, 1]]) == Terms(fixed_s=1.0, token_s=((2, 1.0),))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"chunk_decode_s": -1e-6}, f"chunk_decode_s {NUMBER} -1e-06"),
        ({"prefill_context_s": None}, f"prefill_context_s {NUMBER} None"),
        ({"prefill_attention_s": 1e-13}, "prefill_attention_s = 1e-13 s is below the clock's pico"),
        ({"name": 5}, "name must be a text, not 5"),
    ],
)
def test_bad_factors_are_named(change, text):
    with pytest.raises(CostError) as caught:
        CostModel.tabulated(ROUND, **change)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("decode", "mixed", "text"),
    [
        # 1 ms - 0.5 ms a decode: 0 at 2, negative at 3.
        (
            {"fixed_s": 0.001, "decode_s": [[1, -0.0005]]},
            ROUND,
            "an iteration of 3 decodes would take negative time: -500000000 ps",
        ),
        # Beside 2 decodes there are 2 tokens at the least, so the dip at 3 counts.
        (
            ROUND,
            {"token_s": [[3, -0.5], [4, 1]], "decode_s": [[0, 3.0], [2, 0.25], [3, 3.0]]},
            "a prefill beside 2 decodes would take negative time: -250000000000 ps",
        ),
        (
            ROUND | {"context_s": [[0, 0.0], [1, -1e-9]]},
            ROUND,
            "a KV token read by one of 1 decodes would take negative time: -1000 ps",
        ),
        (
            ROUND,
            ROUND | {"context_s": [[0, 1e-9], [2, -1e-9]]},
            "a KV token read by one of 2 decodes beside a prefill would take negative time: "
            "-1000 ps",
        ),
    ],
)
def test_no_iteration_takes_negative_time(decode, mixed, text):
    model = CostModel.tabulated(decode, mixed)
    with pytest.raises(CostError) as caught:
        model.tables(8, 4)
    assert str(caught.value) == text


def test_no_iteration_outlasts_the_clock():
    # One table alone: 1,000 s a token, and more tokens than fit 53 days.
    model = CostModel.tabulated({"token_s": [[1, 1000.0]]})
    assert model.tables(4000, 1).token_ps[4000] == 4000 * 10**15
    with pytest.raises(CostError, match=r"a table's step of 1000\.0 s leaves the clock's range"):
        model.tables(5000, 1)
    # Each table by itself is within the clock, but four of them wrap around int64 to about zero.
    most = {name: [[0, 2.3e6]] for name in ("token_s", "sequence_s", "decode_s")}
    for decode, mixed in ((most, ROUND), (ROUND, most)):
        heavy = CostModel.tabulated(decode, mixed)
        with pytest.raises(CostError, match=r"could take 6\.9e\+06 s; the clock holds 4\.61e\+06"):
            heavy.tables(4, 4)


# Files


FULL = CostModel.tabulated(
    {"fixed_s": 0.001, "token_s": [[1, 1e-6]], "context_s": [[0, 1e-9], [8, 2e-9]]},
    {"fixed_s": 0.002, "sequence_s": [[2, 1e-6]], "decode_s": [[1, 1e-7]]},
    prefill_attention_s=1e-9,
    prefill_context_s=2e-9,
    chunk_decode_s=3e-9,
    name="mine",
)


@pytest.mark.parametrize(
    "model",
    [
        FULL,
        CostModel.unit(),
        CostModel.affine(0.006, 8e-5, 3e-5, 7e-8, 1e-9),
        CostModel.preset("llama3-8b-a100"),
        CostModel.preset("llama3-8b-h100"),
    ],
    ids=lambda model: model.name,
)
def test_a_model_comes_back_from_its_file(model, tmp_path):
    path = tmp_path / "cost.json"
    model.save(path)
    loaded = CostModel.load(path)
    assert loaded == model
    assert hash(loaded) == hash(model)
    assert loaded.to_dict() == model.to_dict()
    assert json.loads(path.read_text()) == model.to_dict()
    assert {**loaded.tables(64, 16)._asdict()}.keys() == set(CostTables._fields)
    ours, theirs = loaded.tables(64, 16), model.tables(64, 16)
    for mine, other in zip(
        [*ours._replace(attention=0), *ours.attention],
        [*theirs._replace(attention=0), *theirs.attention],
        strict=True,
    ):
        assert np.array_equal(mine, other)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", "cannot be read as a cost model: Expecting property name"),
        ("[]", "not a cost model of format 'vecsched-cost/1'"),
        ('{"format": "other"}', "not a cost model of format 'vecsched-cost/1'"),
        (
            {"chunk_decodes_s": 1},
            "unknown field 'chunk_decodes_s'; did you mean 'chunk_decode_s'?",
        ),
        ({"mixed": None}, "'mixed' must be a mapping of terms"),
        ({"mixed": {"fixed": 1}}, "mixed: unknown term 'fixed'; did you mean 'fixed_s'?"),
        ({"decode": {"token_s": [[1]]}}, "decode.token_s: [1] is not a point [n, seconds]"),
        ({"chunk_decode_s": -1}, f"chunk_decode_s {NUMBER} -1"),
        ({"name": None}, "name must be a text, not None"),
        ({"error": 0.1}, "error must be a mapping of figures, not 0.1"),
    ],
)
def test_a_bad_file_is_named(content, text, tmp_path):
    path = tmp_path / "cost.json"
    path.write_text(content if isinstance(content, str) else json.dumps(FULL.to_dict() | content))
    with pytest.raises(CostError) as caught:
        CostModel.load(path)
    assert str(caught.value).startswith(f"{path}: {text}")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CostError, match=r"absent\.json: cannot be read as a cost model: .*No such"):
        CostModel.load(tmp_path / "absent.json")


# Presets


@pytest.mark.parametrize("name", ["llama3-8b-a100", "llama3-8b-h100"])
def test_presets_are_plausible(name):
    model = CostModel.preset(name)
    assert model.name == name
    assert model.source
    assert model.licence
    assert model.error
    tables = model.tables(8192, 256)
    # 16 GB of weights at 2 to 3.4 TB/s: a decode step takes 5 to 8 ms and some overhead.
    assert 4 * MS < duration_ps(tables, [], [1000]) < 15 * MS
    # 2 x 8e9 operations for each of 8,192 tokens at 312 to 989 TFLOP/s, half of which is reached.
    assert 150 * MS < duration_ps(tables, [(8192, 0)], []) < 900 * MS


def test_the_h100_is_faster():
    a100, h100 = (
        CostModel.preset(f"llama3-8b-{gpu}").tables(4096, 256) for gpu in ("a100", "h100")
    )
    for prefills, contexts in ([], [1000] * 32), ([(2048, 0)], []), ([(512, 512)], [500] * 8):
        assert duration_ps(h100, prefills, contexts) < duration_ps(a100, prefills, contexts)


def test_an_unknown_preset_is_named():
    with pytest.raises(CostError) as caught:
        CostModel.preset("llama3-8b-a10")
    assert str(caught.value) == "unknown preset 'llama3-8b-a10'; did you mean 'llama3-8b-a100'?"
