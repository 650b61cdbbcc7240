"""The exception tree, and what its messages say."""

import pickle
import re

import pytest

from vecsched import errors
from vecsched.errors import InputError, did_you_mean

NEAREST_BUILTIN = {
    "InputError": ValueError,
    "ConfigError": ValueError,
    "CostError": ValueError,
    "BoundaryError": ValueError,
    "SimulationError": RuntimeError,
    "ClockOverflowError": OverflowError,
    "NoProgressError": RuntimeError,
}


def test_every_exception_is_also_the_nearest_builtin():
    classes = {
        name: thing
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, errors.VecschedError)
    }
    assert classes.keys() - {"VecschedError"} == NEAREST_BUILTIN.keys()
    for name, builtin in NEAREST_BUILTIN.items():
        assert issubclass(classes[name], builtin), name


def test_the_tree_is_drawn():
    assert errors.__doc__ is not None
    drawn = set(re.findall(r"\w+Error\b", errors.__doc__))
    builtins = {"ValueError", "RuntimeError", "OverflowError"}
    assert drawn - builtins == NEAREST_BUILTIN.keys() | {"VecschedError"}


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({}, "is wrong"),
        ({"value": None}, "None: is wrong"),
        ({"field": "load", "value": 0}, "field 'load': 0: is wrong"),
        ({"source": "t.csv", "row": 0}, "t.csv, row 0: is wrong"),
        (
            {"source": "t.csv", "row": 7, "field": "x", "value": "a"},
            "t.csv, row 7, field 'x': 'a': is wrong",
        ),
    ],
)
def test_an_input_error_says_where_and_what(place, text):
    error = InputError("is wrong", **place)
    assert str(error) == text
    assert error.problem == "is wrong"
    for name in ("source", "row", "field", "value"):
        assert getattr(error, name) == place.get(name)


def test_an_input_error_moves_to_the_file_it_came_from():
    error = InputError("is wrong", source="Trace", row=3, field="arrival_s", value=None)
    moved = error.at("t.csv", "TIMESTAMP")
    assert str(moved) == "t.csv, row 3, field 'TIMESTAMP': None: is wrong"
    assert str(error.at("t.csv")) == "t.csv, row 3, field 'arrival_s': None: is wrong"
    assert str(InputError("is wrong").at("t.csv")) == "t.csv: is wrong"


def test_an_input_error_survives_a_trip_between_processes():
    error = pickle.loads(pickle.dumps(InputError("is wrong", source="Trace", row=3)))
    assert str(error) == "Trace, row 3: is wrong"
    assert (error.source, error.row, error.value) == ("Trace", 3, None)
    assert str(error.at("t.csv")) == "t.csv, row 3: is wrong"


def test_did_you_mean():
    assert did_you_mean("fcsf", ["fcfs", "random"]) == "did you mean 'fcfs'?"
    assert did_you_mean("zzz", iter(["fcfs", "random"])) == "known: fcfs, random"
    assert did_you_mean(5, ["fcfs"]) == "known: fcfs"  # a key of a YAML file need not be a text
