"""Trace: columns in, validated once; scaled to a load; ordered by the picosecond."""

import math

import numpy as np
import pandas as pd
import pytest

from vecsched import Trace
from vecsched.clock import HORIZON_S
from vecsched.errors import InputError

INT_COLUMNS = (
    "prompt_tokens",
    "output_tokens",
    "kv_blocks",
    "priority",
    "predicted_output_tokens",
)


def three(**columns) -> Trace:
    """Three requests, a second apart, with changes."""
    given = {"arrival_s": [0.0, 1.0, 2.0], "prompt_tokens": [5, 6, 7], "output_tokens": [1, 2, 3]}
    return Trace(**given | columns)


def same_with_nan(column, expected) -> bool:
    return np.array_equal(column, expected, equal_nan=True)


# What goes in


def test_columns_and_their_types():
    trace = three(
        kv_blocks=[1, 2, 3],
        priority=[-1, 0, 1],
        tenant=["a", ("b", 1), None],
        deadline_s=[9.0, None, math.nan],
        cancel_at_s=(1, 2, 3),
        engine_time_s=[0, 0.5, 0.5],
        predicted_output_tokens=[4, 5, 0],
        id=["x", "y", "z"],
    )
    assert len(trace) == 3
    for name in INT_COLUMNS:
        assert getattr(trace, name).dtype == np.int64
    for name in ("arrival_s", "deadline_s", "cancel_at_s", "engine_time_s"):
        assert getattr(trace, name).dtype == np.float64
    assert trace.tenant.tolist() == ["a", ("b", 1), None]
    assert trace.id.tolist() == ["x", "y", "z"]
    assert same_with_nan(trace.deadline_s, [9.0, math.nan, math.nan])


def test_what_is_not_given():
    trace = three()
    assert trace.id.tolist() == [0, 1, 2]
    for name in (*INT_COLUMNS[2:], "tenant", "deadline_s", "cancel_at_s", "engine_time_s"):
        assert getattr(trace, name) is None


@pytest.mark.parametrize(
    "values",
    [
        [5, 6, 7],
        (5.0, 6.0, 7.0),
        np.array([5, 6, 7], np.uint8),
        np.array([5, 6, 7], np.float32),
        np.array([5, 6.0, np.int64(7)], object),
        pd.Series([5, 6, 7]),
        pd.array([5, 6, 7], "Int64"),
    ],
    ids=lambda values: f"{type(values).__name__} {getattr(values, 'dtype', '')}",
)
def test_whole_numbers_of_any_type(values):
    assert three(prompt_tokens=values).prompt_tokens.tolist() == [5, 6, 7]


def test_the_trace_is_read_only_and_the_callers_arrays_stay_theirs():
    arrival, tenant = np.array([0.0, 1.0, 2.0]), np.array(["a", "b", "c"], object)
    trace = three(arrival_s=arrival, tenant=tenant)
    arrival[0], tenant[0] = 9.0, "z"
    assert trace.arrival_s.tolist() == [0.0, 1.0, 2.0]
    assert trace.tenant.tolist() == ["a", "b", "c"]
    for column in (trace.arrival_s, trace.prompt_tokens, trace.tenant, trace.id):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
    with pytest.raises(AttributeError):
        trace.arrival_s = arrival


def test_an_empty_prompt_or_output_is_for_the_simulation_to_refuse():
    assert three(prompt_tokens=[0, 1, 1], output_tokens=[1, 0, 1]).prompt_tokens[0] == 0


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        # Each text names the first bad row, the field and the value.
        ("arrival_s", [0, math.nan, -1], "row 1, {}: nan: must be a finite number of seconds"),
        ("arrival_s", [0, 1, math.inf], "row 2, {}: inf: must be a finite number of seconds"),
        (
            "arrival_s",
            [0, -0.5, 1],
            "row 1, {}: -0.5: must not be negative: count from the start of the trace",
        ),
        (
            "arrival_s",
            [0, 1, HORIZON_S],
            f"row 2, {{}}: {HORIZON_S}: is beyond the clock's 53 days: subtract the first arrival, "
            "or check the unit",
        ),
        ("arrival_s", [0, "1", 2], "row 0, {}: '0': is not a number"),
        ("arrival_s", [0, None, 2], "row 1, {}: None: is not a number"),
        ("arrival_s", [[0, 1, 2]], "{}: must be one-dimensional, not 2-d"),
        ("arrival_s", 5.0, "{}: must be one-dimensional, not 0-d"),
        ("arrival_s", [[0], [1, 2]], "{}: must be one-dimensional"),
        ("prompt_tokens", [5, -6, 7], "row 1, {}: -6: must not be negative"),
        ("prompt_tokens", [5, 6.5, 7], "row 1, {}: 6.5: must be a whole number"),
        (
            "prompt_tokens",
            [5, 6, math.nan],
            "row 2, {}: nan: must be a whole number, not missing",
        ),
        ("prompt_tokens", [5, True, None], "row 1, {}: True: is not a number"),
        ("prompt_tokens", [True, True, False], "row 0, {}: True: is not a number"),
        ("prompt_tokens", [5, 2**31, 7], "row 1, {}: 2147483648: must not exceed 2147483647"),
        (
            "prompt_tokens",
            [5, 10**30, 7],
            "row 1, {}: 1e+30: must not exceed 2147483647",
        ),
        ("output_tokens", [1, math.inf, 3], "row 1, {}: inf: must not exceed 2147483647"),
        ("output_tokens", [1, 2], "{}: has 2 rows, but arrival_s has 3"),
        ("kv_blocks", [1, 2, -3], "row 2, {}: -3: must not be negative"),
        ("predicted_output_tokens", [1, 2, -3], "row 2, {}: -3: must not be negative"),
        ("priority", [1, 2, 0.5], "row 2, {}: 0.5: must be a whole number"),
        (
            "priority",
            np.array([1, 2, 2**63], np.uint64),
            "row 2, {}: 9223372036854775808: must fit 64 bits",
        ),
        ("priority", [1.0, -1e19, 0.0], "row 1, {}: -1e+19: must fit 64 bits"),
        ("priority", [math.inf, 1, 1], "row 0, {}: inf: must fit 64 bits"),
        ("deadline_s", [1, -2, 3], "row 1, {}: -2.0: must be an instant >= 0, or NaN for none"),
        (
            "cancel_at_s",
            [1, 2, math.inf],
            "row 2, {}: inf: must be an instant >= 0, or NaN for none",
        ),
        ("cancel_at_s", [1, "soon", 3], "row 0, {}: '1': is not a number"),
        ("engine_time_s", [1, 2, math.nan], "row 2, {}: nan: must be a finite number of seconds"),
        ("tenant", ["a", "b"], "{}: has 2 rows, but arrival_s has 3"),
        ("id", [1, 2, 3, 4], "{}: has 4 rows, but arrival_s has 3"),
    ],
)
def test_bad_input_is_named(column, values, text):
    with pytest.raises(InputError) as caught:
        three(**{column: values})
    assert str(caught.value) == "Trace, " + text.format(f"field {column!r}")


@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[ns]"])
def test_dates_are_not_seconds(kind):
    # Their int64 is at hand, but in nanoseconds: taken as seconds it would be silently wrong.
    with pytest.raises(InputError, match=r"row 0, field 'arrival_s': .*is not a number"):
        three(arrival_s=np.array([0, 1, 2], kind))


def test_an_empty_trace_is_refused():
    with pytest.raises(InputError, match=r"^Trace: the trace is empty: at least one request"):
        Trace([], [], [])


def test_the_edges_of_the_ranges():
    last = math.nextafter(HORIZON_S, 0)
    trace = three(
        arrival_s=[0.0, 1.0, last],
        prompt_tokens=[0, 1, 2**31 - 1],
        priority=[-(2**63), 0, 2**63 - 1],
        deadline_s=[last, HORIZON_S, 1e300],  # beyond the clock: they never come
    )
    assert trace.arrival_s[2] == last
    assert trace.prompt_tokens[2] == 2**31 - 1
    assert trace.priority.tolist() == [-(2**63), 0, 2**63 - 1]
    assert same_with_nan(trace.deadline_s, [last, math.nan, math.nan])


# What comes out


def test_arrival_order_is_by_the_picosecond_then_by_row():
    # 0.4 ps apart is the same picosecond; rows 1 and 2 stand in row order, not by the float.
    trace = Trace([2.0, 1.0 + 4e-13, 1.0, 0.5], [1] * 4, [1] * 4)
    assert trace.arrival_s[1] > trace.arrival_s[2]
    assert trace.order.tolist() == [3, 1, 2, 0]
    assert trace.backward_steps == 3
    assert three().backward_steps == 0


def test_scaling_shrinks_the_gaps_and_keeps_distances():
    trace = three(
        arrival_s=[4.0, 2.0, 8.0],
        deadline_s=[5.0, math.nan, 9.5],
        cancel_at_s=[4.0, 2.5, 7.0],
        engine_time_s=[1.0, 2.0, 3.0],
        tenant=["a", "b", "c"],
        id=[7, 8, 9],
    )
    scaled = trace.scaled(2)
    # From the first arrival, 2: 2 + (4 - 2) / 2 = 3 and 2 + (8 - 2) / 2 = 5.
    assert scaled.arrival_s.tolist() == [3.0, 2.0, 5.0]
    assert same_with_nan(scaled.deadline_s, [4.0, math.nan, 6.5])
    assert scaled.cancel_at_s.tolist() == [3.0, 2.5, 4.0]
    assert scaled.engine_time_s.tolist() == [1.0, 2.0, 3.0]  # the engine's clock, not the trace's
    assert (scaled.tenant.tolist(), scaled.id.tolist()) == (["a", "b", "c"], [7, 8, 9])
    assert trace.scaled(0.5).arrival_s.tolist() == [6.0, 2.0, 14.0]
    assert trace.arrival_s.tolist() == [4.0, 2.0, 8.0]


def test_an_instant_ahead_of_its_arrival_cannot_leave_the_clock():
    trace = three(arrival_s=[0.0, 1.0, 10.0], deadline_s=[1.0, 2.0, 0.0])
    # Row 2: arrival 10 / 10 = 1, and ten seconds before that is ahead of the clock's start.
    assert trace.scaled(10).deadline_s.tolist() == [1.0, 1.1, 0.0]


def test_at_load_one_the_trace_is_itself():
    trace = three()
    assert trace.scaled(1) is trace


@pytest.mark.parametrize("load", [0, -1, math.nan, math.inf])
def test_a_load_factor_must_be_positive(load):
    with pytest.raises(InputError) as caught:
        three().scaled(load)
    assert str(caught.value) == f"field 'load': {load!r}: a load factor must be positive"


def test_a_scaled_trace_has_derived_columns_of_its_own():
    trace = three()
    trace.memo["work"] = 1
    assert trace.scaled(2).memo == {}
    assert trace.memo == {"work": 1}


def test_reading_a_file(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,5,1\n0.5,6,2\n")
    assert Trace.read(path).arrival_s.tolist() == [0.0, 0.5]
    with pytest.raises(InputError, match=r"missing\.csv: "):
        Trace.read(tmp_path / "missing.csv")
