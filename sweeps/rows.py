"""The rows of a sweep's output: what a point is, and what came of it, as columns.

In this order: `point`, `key`, every field of the configuration, `load`, `seed`, `variant`, `trace`,
`cost`, every metric, `status` ("ok" or "error"), `error`, `engine_version`. A value that does not
exist is null: a metric with nothing to measure (NaN in the engine) as well as all metrics of a
point that failed. Whole numbers are int64, so they stay whole where nulls are among them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

import pyarrow as pa

from sweeps.space import Point
from vecsched import SchedulerConfig, engine_version

Columns = dict[str, list[Any]]
Summary = Mapping[str, int | float | str]
# Returns the rows of points that have run.
RowsOf = Callable[[Iterable[Point]], pa.Table]

_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
_NOT_NULL = ("point", "key", "load", "trace", "cost", "status", "engine_version")


class Outcomes(NamedTuple):
    """What became of some points: a column of values a metric, and their errors (None: fine)."""

    metrics: Columns
    errors: list[str | None]


class Rows(NamedTuple):
    """Some points, their keys, and what became of them."""

    points: Sequence[Point]
    keys: Sequence[str]
    outcomes: Outcomes


def outcomes_of(
    summaries: Sequence[Summary | None], errors: list[str | None], metrics: Sequence[str]
) -> Outcomes:
    """Turn summaries, None for a point that failed, into columns of the metrics named.

    Raises:
        KeyError: a summary has a metric that is not among them: a bug.
    """
    known = set(metrics)
    for summary in summaries:
        if summary is not None and not known.issuperset(summary):
            raise KeyError(f"metrics without a column: {sorted(set(summary) - known)}")
    columns = {
        name: [None if summary is None else summary.get(name) for summary in summaries]
        for name in metrics
    }
    return Outcomes(columns, errors)


def identity(points: Iterable[Point], keys: Iterable[str]) -> Columns:
    """Return the columns that say what the points are."""
    points = list(points)
    configs = [point.choice.config for point in points]
    return {
        "point": [point.index for point in points],
        "key": list(keys),
        **{name: [getattr(config, name) for config in configs] for name in _CONFIG_TYPES},
        "load": [point.load for point in points],
        "seed": [point.seed for point in points],
        "variant": [point.choice.variant for point in points],
        "trace": [point.trace for point in points],
        "cost": [point.choice.cost for point in points],
    }


def record_batch(rows: Sequence[Rows], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as one batch of the columns of `schema`."""
    points = chain.from_iterable(each.points for each in rows)
    columns = identity(points, chain.from_iterable(each.keys for each in rows))
    for name in rows[0].outcomes.metrics:
        columns[name] = [*chain.from_iterable(each.outcomes.metrics[name] for each in rows)]
    errors = columns["error"] = [*chain.from_iterable(each.outcomes.errors for each in rows)]
    columns["status"] = ["ok" if error is None else "error" for error in errors]
    columns["engine_version"] = [engine_version()] * len(errors)
    return pa.record_batch([array_of(columns[f.name], f) for f in schema], schema=schema)


def array_of(values: list[Any], field: pa.Field) -> pa.Array:
    """Return a column's values as Arrow holds them, NaN as null."""
    return pa.array(values, field.type, from_pandas=True)


def row_schema(sample: Summary) -> pa.Schema:
    """Return the columns and their types; `sample` is any summary with all metrics."""
    text, integer, real = pa.string(), pa.int64(), pa.float64()
    columns = {"point": integer, "key": text, **_CONFIG_TYPES}
    columns |= {"load": real, "seed": integer, "variant": text, "trace": text, "cost": text}
    for name, value in sample.items():
        columns[name] = (
            integer if isinstance(value, int) else text if isinstance(value, str) else real
        )
    columns |= {"status": text, "error": text, "engine_version": text}
    return pa.schema([pa.field(n, t, nullable=n not in _NOT_NULL) for n, t in columns.items()])


def _config_types() -> dict[str, pa.DataType]:
    """Arrow types of the configuration's fields, from their annotations."""
    types = {}
    for name, hint in get_type_hints(SchedulerConfig).items():
        (kind,) = [arg for arg in get_args(hint) if arg is not NoneType] or [hint]
        types[name] = _TYPES[kind]
    return types


_CONFIG_TYPES = _config_types()
