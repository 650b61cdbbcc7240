"""Both implementations on the same input, and what it means for their results to be equal."""

import math
from collections import Counter
from collections.abc import Iterator

import naive
from naive.requests import BLOCK_REASONS
from naive.stats import to_seconds

from vecsched import CostModel, MetricOptions, Result, SchedulerConfig, Trace, simulate
from vecsched.clock import NEVER_PS
from vecsched.kernels.record import FIRST_PS, ITERATIONS, START_PS, STEP_PS, written_lines

TRACE_COLUMNS = (
    *("kv_blocks", "priority", "deadline_s", "cancel_at_s"),
    *("tenant", "predicted_output_tokens", "engine_time_s"),
)
INSTANTS = ("admitted_ps", "first_token_ps", "finished_ps")

# What the engine only repeats from the trace, and seconds that `in_oracle_shape` checks itself.
NOT_COMPARED = {"id", "tenant", "priority", "arrival_s", "start_s", "end_s"}


def trace_of(records: list[dict], prefix_block_tokens: int | None = None) -> Trace:
    """The oracle's dictionaries as columns; an optional key is in all of them or in none."""
    names = ["arrival_s", "prompt_tokens", "output_tokens"]
    names += [name for name in TRACE_COLUMNS if name in records[0]]
    columns = {name: [record[name] for record in records] for name in names}
    if prefix_block_tokens is not None:
        ids = [record["prefix_ids"] for record in records]
        return Trace(**columns, prefix_ids=ids, prefix_block_tokens=prefix_block_tokens)
    return Trace(**columns)


def as_oracle_takes_it(config: SchedulerConfig) -> dict:
    """The configuration as a dictionary, in which a switch without effect is off."""
    values = config.to_dict()
    is_vllm = config.discipline == "vllm"
    keeps_blocks = is_vllm and config.kv_reserve == "on_demand"
    return values | {
        "async_scheduling": config.async_scheduling and is_vllm,
        "enable_prefix_caching": config.enable_prefix_caching and keeps_blocks,
    }


def simulate_both(
    records: list[dict], config: SchedulerConfig, cost: CostModel, options: dict | None = None
) -> tuple[dict, dict]:
    """(engine's, oracle's) result, both in the oracle's shape."""
    options = options or {}
    result = simulate(
        trace_of(records), config, cost, log_iterations=True, metrics=MetricOptions(**options)
    )
    theirs = naive.simulate(records, as_oracle_takes_it(config), cost.to_dict(), options)
    return in_oracle_shape(result), theirs


def in_oracle_shape(result: Result) -> dict:
    """A logged result as `naive.simulate` gives it."""
    iterations = _iteration_rows(result)
    return {
        "requests": _request_rows(result, iterations),
        "iterations": iterations,
        "summary": result.summary,
    }


def _iteration_rows(result: Result) -> list[dict]:
    """Rows of the public log and of the stretches that they belong to, with exact bounds."""
    rows = result.iterations.to_dict("records")
    for row, (stretch, start, end) in zip(rows, _steps(result), strict=True):
        assert (row["start_s"], row["end_s"]) == (to_seconds(start), to_seconds(end)), row
        assert stretch["start_s"] <= row["start_s"] <= row["end_s"] <= stretch["end_s"], row
        assert stretch["blocked_reason"] == row["blocked_reason"], row
        assert stretch["scheduled_tokens"] == sum(tokens for _, tokens in row["scheduled"]), row
        row["start_ps"], row["end_ps"] = start, end
        row["blocked_row"] = None if row["blocked_row"] == -1 else row["blocked_row"]
        row["slots_in_use"] = stretch["batch_size"]
        row["held_kv_blocks"] = stretch["kv_blocks_held"]
    return rows


def _steps(result: Result) -> Iterator[tuple[dict, int, int]]:
    """(its stretch, start, end) of each iteration, in picoseconds."""
    lines = written_lines(result._engine.record).tolist()
    for stretch, line in zip(result.stretches.to_dict("records"), lines, strict=True):
        start = line[START_PS]
        for step in range(line[ITERATIONS]):
            end = start + line[FIRST_PS] + step * line[STEP_PS]
            yield stretch, start, end
            start = end


def _request_rows(result: Result, iterations: list[dict]) -> list[dict]:
    """Rows of the public table, with the exact instants and durations behind its seconds."""
    rows = result.requests.to_dict("records")
    for name in INSTANTS:
        column = getattr(result._engine.outcome, name).tolist()
        for row, instant in zip(result._trace.order.tolist(), column, strict=True):
            rows[row][name] = None if instant == NEVER_PS else instant
    blocked_ps = Counter()
    for it in iterations:
        blocked_ps[it["blocked_row"], it["blocked_reason"]] += it["end_ps"] - it["start_ps"]
    for number, row in enumerate(rows):
        row |= {f"blocked_{reason}_ps": blocked_ps[number, reason] for reason in BLOCK_REASONS}
    return rows


def same(ours, theirs) -> bool:
    """Equal, or both NaN."""
    return ours == theirs or (_is_nan(ours) and _is_nan(theirs))


def _is_nan(value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def assert_same(ours: dict, theirs: dict) -> None:
    """Every figure that the engine tells is the oracle's to the bit; summaries have the same."""
    for number, (mine, other) in enumerate(
        zip(ours["iterations"], theirs["iterations"], strict=False)
    ):
        _assert_same_figures(f"iteration {number}", mine, other)
    assert len(ours["iterations"]) == len(theirs["iterations"])
    for row, (mine, other) in enumerate(zip(ours["requests"], theirs["requests"], strict=True)):
        _assert_same_figures(f"row {row}", mine, other)
    _assert_same_figures("summary", ours["summary"], theirs["summary"])
    assert ours["summary"].keys() == theirs["summary"].keys()


def _assert_same_figures(place: str, ours: dict, theirs: dict) -> None:
    names = ours.keys() - NOT_COMPARED
    different = {
        name: (ours[name], theirs.get(name, "nothing"))
        for name in names
        if not same(ours[name], theirs.get(name, "nothing"))
    }
    assert not different, f"{place}: (engine, oracle) differ in {different}"
