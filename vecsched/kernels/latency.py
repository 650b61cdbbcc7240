"""Per-request figures of a run and their sums; definitions in `docs/semantics.md`."""

from typing import NamedTuple

import numpy as np

from vecsched._jit import entry_point, kernel
from vecsched.clock import NEVER_PS, PS_PER_S
from vecsched.requests import COMPLETED, FAILED

# Rows of `Latencies.values`: float64, the requests that have the value, in arrival order.
WAIT, TTFT, TPOT, E2E, NORMALIZED, SLOWDOWN, WAIT_RATIO, LATENCIES = range(8)

# Places in `Latencies.totals`.
(
    GOOD,  # completed requests that meet every SLO
    COMPLETED_OUTPUT,  # output tokens of completed requests
    COMPLETED_TOKENS,  # their prompt and output tokens
    STEADY_REQUESTS,  # completed in the steady window
    STEADY_OUTPUT,
    STEADY_TOKENS,
    STARVED,
    LONGEST_WAIT_PS,
    TOTALS,
) = range(9)


class Goals(NamedTuple):
    """SLOs in seconds (infinite if not given), the starvation limit, and the steady window."""

    ttft_s: float
    tpot_s: float
    e2e_s: float
    starvation_s: float
    steady_from_ps: int
    steady_to_ps: int


class Latencies(NamedTuple):
    """values (LATENCIES, n); by latency: how many, their sum, sum of squares; whole totals."""

    values: np.ndarray
    counts: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    totals: np.ndarray


@entry_point
def measure_latencies(requests, outcome, isolated_ps, goals, result):
    """Fill `result` from the instants of each request."""
    values, totals = result.values, result.totals
    waits, ratios, tokens_seen, finished_count, spread_count, slowed = 0, 0, 0, 0, 0, 0
    for row in range(len(outcome.status)):
        arrival, admitted = requests.arrival_ps[row], outcome.admitted_ps[row]
        alone = isolated_ps[row]
        if outcome.status[row] != FAILED:
            # A request that was never admitted has waited until its end.
            waited = min(admitted, outcome.finished_ps[row]) - arrival
            totals[LONGEST_WAIT_PS] = max(totals[LONGEST_WAIT_PS], waited)
            totals[STARVED] += waited / PS_PER_S > goals.starvation_s
            if alone > 0:
                values[WAIT_RATIO, ratios] = waited / alone
                ratios += 1
        if admitted == NEVER_PS:
            continue
        values[WAIT, waits] = (admitted - arrival) / PS_PER_S
        waits += 1
        first_token = outcome.first_token_ps[row]
        if first_token == NEVER_PS:
            continue
        ttft = (first_token - arrival) / PS_PER_S
        values[TTFT, tokens_seen] = ttft
        tokens_seen += 1
        if outcome.status[row] != COMPLETED:
            continue
        output, finished = requests.output[row], outcome.finished_ps[row]
        e2e = (finished - arrival) / PS_PER_S
        values[E2E, finished_count] = e2e
        values[NORMALIZED, finished_count] = e2e / output
        finished_count += 1
        if alone > 0:
            values[SLOWDOWN, slowed] = (finished - arrival) / alone
            slowed += 1
        tpot = 0.0
        if output > 1:
            tpot = (finished - first_token) / PS_PER_S / (output - 1)
            values[TPOT, spread_count] = tpot
            spread_count += 1
        totals[GOOD] += ttft <= goals.ttft_s and tpot <= goals.tpot_s and e2e <= goals.e2e_s
        tokens = output + requests.prompt[row]
        totals[COMPLETED_OUTPUT] += output
        totals[COMPLETED_TOKENS] += tokens
        if goals.steady_from_ps < finished <= goals.steady_to_ps:
            totals[STEADY_REQUESTS] += 1
            totals[STEADY_OUTPUT] += output
            totals[STEADY_TOKENS] += tokens
    counts = (waits, tokens_seen, spread_count, finished_count, finished_count, slowed, ratios)
    for latency in range(LATENCIES):
        result.counts[latency] = counts[latency]


@entry_point
def sum_latencies(values, count, total, squares):
    """Sums, and sums of squares, of each row of `values`, one addition after another.

    The rows are added up side by side: each sum waits for its last addition, not for the others.
    """
    for place in range(values.shape[1]):
        for latency in range(LATENCIES):
            if place < count[latency]:
                value = values[latency, place]
                total[latency] += value
                squares[latency] += value * value


@entry_point
def last_end_ps(finished_ps):
    """The last instant at which a request ended."""
    last = 0
    for instant in finished_ps:
        last = max(last, instant)
    return last


@entry_point
def sum_of_squared_deviations(values, mean):
    """Sum of (x - mean)^2, one addition after another."""
    total = 0.0
    for value in values:
        total += (value - mean) * (value - mean)
    return total


@entry_point
def sum_weighted_by_rank(ascending):
    """Sum of i * x_i, i from 1, one addition after another."""
    total = 0.0
    for place in range(len(ascending)):
        total += (place + 1) * ascending[place]
    return total


@entry_point
def mean_waits_of_extremes(requests, admitted_ps, by_size, admitted, part):
    """Mean wait in seconds of the shortest and of the longest tenth of the admitted requests.

    Args:
        requests: columns in arrival order.
        admitted_ps: int64 (n,).
        by_size: int64 (n,), rows by prompt + output, ascending.
        admitted: how many were admitted, at least 1.
        part: int8 (n,), zeros; scratch.
    """
    tenth = max(1, admitted // 10)
    mark_first(by_size, 1, tenth, admitted_ps, part)
    mark_first(by_size[::-1], 2, tenth, admitted_ps, part)
    short, long = 0.0, 0.0
    for row in range(len(part)):
        if part[row] != 0:
            wait = (admitted_ps[row] - requests.arrival_ps[row]) / PS_PER_S
            short += wait if part[row] & 1 else 0.0
            long += wait if part[row] & 2 else 0.0
    return short / tenth, long / tenth


@kernel
def mark_first(rows, mark, wanted, admitted_ps, part):
    """Mark the first `wanted` of `rows` that were admitted."""
    for row in rows:
        if wanted == 0:
            return
        if admitted_ps[row] != NEVER_PS:
            part[row] |= mark
            wanted -= 1


@entry_point
def count_statuses(status, counts):
    """Count the requests by status code."""
    for code in status:
        counts[code] += 1
