"""Both implementations on the same input, and what it means for their results to be equal."""

from collections import Counter

import naive
import numpy as np
from naive.requests import BLOCK_REASONS
from naive.stats import to_seconds

from vecsched import CostModel, MetricOptions, Result, SchedulerConfig, Trace, simulate
from vecsched.clock import NEVER_PS
from vecsched.kernels.record import FIRST_PS, ITERATIONS, START_PS, STEP_PS, written_lines

TRACE_COLUMNS = ("kv_blocks", "priority", "deadline_s", "cancel_at_s")
INSTANTS = ("admitted_ps", "first_token_ps", "finished_ps")

# What only one of the two tells. The oracle's `arrival_s` is rounded to the clock, the engine's is
# as given; the oracle's picoseconds stand in the engine's table in seconds only.
ENGINE_ONLY = {"id", "tenant", "priority"}
ORACLE_ONLY = {"row", "arrival_ps", "max_itl_ps", "isolated_ps"}


def trace_of(records: list[dict]) -> Trace:
    """The oracle's list of dictionaries as columns; an optional key is in all of them or in none."""
    names = ["arrival_s", "prompt_tokens", "output_tokens"]
    names += [name for name in TRACE_COLUMNS if name in records[0]]
    return Trace(**{name: [record[name] for record in records] for name in names})


def simulate_both(
    records: list[dict], config: SchedulerConfig, cost: CostModel, options: dict | None = None
) -> tuple[dict, dict]:
    """(engine's, oracle's) result, both in the oracle's shape."""
    options = options or {}
    result = simulate(
        trace_of(records), config, cost, log_iterations=True, metrics=MetricOptions(**options)
    )
    theirs = naive.simulate(records, config.to_dict(), cost.to_dict(), options)
    return in_oracle_shape(result), theirs


def in_oracle_shape(result: Result) -> dict:
    """A logged result as `naive.simulate` gives it."""
    return {
        "requests": _request_rows(result),
        "iterations": _iteration_rows(result),
        "summary": result.summary,
    }


def _request_rows(result: Result) -> list[dict]:
    """Rows of the public table, with the exact instants behind its seconds."""
    rows = result.requests.to_dict("records")
    for place, row in enumerate(result._trace.order.tolist()):
        for name in INSTANTS:
            instant = int(getattr(result._engine.outcome, name)[place])
            rows[row][name] = None if instant == NEVER_PS else instant
    blocked_ps = _blocked_ps(result)
    for number, row in enumerate(rows):
        for reason in BLOCK_REASONS:
            row[f"blocked_{reason}_ps"] = blocked_ps[number, reason]
    return rows


def _blocked_ps(result: Result) -> Counter:
    """Blocked time by row and reason, added up from the log."""
    charged = Counter()
    for row, (start, end) in zip(
        result.iterations.to_dict("records"), _bounds_ps(result), strict=True
    ):
        charged[row["blocked_row"], row["blocked_reason"]] += end - start
    return charged


def _iteration_rows(result: Result) -> list[dict]:
    """Rows of the public log and of the stretches that they belong to, with exact bounds."""
    rows = result.iterations.to_dict("records")
    bounds = _bounds_ps(result)
    stretches = result.stretches
    of_stretch = stretches.loc[np.repeat(stretches.index, stretches["iterations"])]
    for row, (start, end), stretch in zip(
        rows, bounds, of_stretch.to_dict("records"), strict=True
    ):
        assert (row["start_s"], row["end_s"]) == (to_seconds(start), to_seconds(end)), row
        assert stretch["start_s"] <= row["start_s"] <= row["end_s"] <= stretch["end_s"], row
        assert stretch["blocked_reason"] == row["blocked_reason"], row
        assert stretch["scheduled_tokens"] == sum(tokens for _, tokens in row["scheduled"]), row
        row["start_ps"], row["end_ps"] = start, end
        row["blocked_row"] = None if row["blocked_row"] == -1 else row["blocked_row"]
        row["slots_in_use"] = stretch["batch_size"]
        row["held_kv_blocks"] = stretch["kv_blocks_held"]
    return rows


def _bounds_ps(result: Result) -> list[tuple[int, int]]:
    bounds = []
    for line in written_lines(result._engine.record).tolist():
        start = line[START_PS]
        for step in range(line[ITERATIONS]):
            end = start + line[FIRST_PS] + step * line[STEP_PS]
            bounds.append((start, end))
            start = end
    return bounds


def same(ours, theirs) -> bool:
    """Equal, or both NaN."""
    return ours == theirs or (ours != ours and theirs != theirs)


def assert_same(ours: dict, theirs: dict) -> None:
    """Every figure that both sides tell is the same to the bit."""
    for number, (mine, other) in enumerate(
        zip(ours["iterations"], theirs["iterations"], strict=False)
    ):
        _assert_same_entries(f"iteration {number}", mine, other, one_sided={"waiting", "ended"})
    assert len(ours["iterations"]) == len(theirs["iterations"])
    one_sided = ENGINE_ONLY | ORACLE_ONLY | {"arrival_s", "max_itl_s"}
    for row, (mine, other) in enumerate(zip(ours["requests"], theirs["requests"], strict=True)):
        _assert_same_entries(f"row {row}", mine, other, one_sided)
    _assert_same_entries("summary", ours["summary"], theirs["summary"], set())


def _assert_same_entries(place: str, ours: dict, theirs: dict, one_sided: set) -> None:
    mine, other = ours.keys() - one_sided, theirs.keys() - one_sided
    if place.startswith("iteration"):
        mine -= {"start_s", "end_s"}  # checked against the picoseconds already
    assert mine == other, f"{place}: {mine ^ other} on one side only"
    different = {n: (ours[n], theirs[n]) for n in mine if not same(ours[n], theirs[n])}
    assert not different, f"{place}: (engine, oracle) differ in {different}"
