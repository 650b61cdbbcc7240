"""Per-request figures of a run and their sums; definitions in `docs/semantics.md`."""

from typing import NamedTuple

import numpy as np

from vecsched._jit import entry_point
from vecsched.clock import NEVER_PS, PS_PER_S
from vecsched.requests import COMPLETED

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
    count: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    totals: np.ndarray


@entry_point
def measure_latencies(requests, outcome, isolated_ps, goals, result):
    """Fill `result` from the instants of each request."""
    values, count, totals = result.values, result.count, result.totals
    for row in range(len(outcome.status)):
        if requests.door[row] != 0:
            continue
        arrival = requests.arrival_ps[row]
        admitted = outcome.admitted_ps[row]
        # A request that was never admitted has waited until its end.
        waited = min(admitted, outcome.finished_ps[row]) - arrival
        totals[LONGEST_WAIT_PS] = max(totals[LONGEST_WAIT_PS], waited)
        if waited / PS_PER_S > goals.starvation_s:
            totals[STARVED] += 1
        alone = isolated_ps[row]
        if alone > 0:
            values[WAIT_RATIO, count[WAIT_RATIO]] = waited / alone
            count[WAIT_RATIO] += 1
        if admitted == NEVER_PS:
            continue
        values[WAIT, count[WAIT]] = waited / PS_PER_S
        count[WAIT] += 1
        first_token = outcome.first_token_ps[row]
        if first_token == NEVER_PS:
            continue
        ttft = (first_token - arrival) / PS_PER_S
        values[TTFT, count[TTFT]] = ttft
        count[TTFT] += 1
        if outcome.status[row] != COMPLETED:
            continue
        output = requests.output[row]
        finished = outcome.finished_ps[row]
        e2e = (finished - arrival) / PS_PER_S
        done = count[E2E]
        values[E2E, done] = e2e
        values[NORMALIZED, done] = e2e / output
        count[E2E] = done + 1
        if alone > 0:
            values[SLOWDOWN, count[SLOWDOWN]] = (finished - arrival) / alone
            count[SLOWDOWN] += 1
        tpot = 0.0
        if output > 1:
            tpot = (finished - first_token) / PS_PER_S / (output - 1)
            values[TPOT, count[TPOT]] = tpot
            count[TPOT] += 1
        totals[GOOD] += ttft <= goals.ttft_s and tpot <= goals.tpot_s and e2e <= goals.e2e_s
        tokens = output + requests.prompt[row]
        totals[COMPLETED_OUTPUT] += output
        totals[COMPLETED_TOKENS] += tokens
        if goals.steady_from_ps < finished <= goals.steady_to_ps:
            totals[STEADY_REQUESTS] += 1
            totals[STEADY_OUTPUT] += output
            totals[STEADY_TOKENS] += tokens
    count[NORMALIZED] = count[E2E]
    for latency in range(LATENCIES):
        total, squares = 0.0, 0.0
        for place in range(count[latency]):
            value = values[latency, place]
            total += value
            squares += value * value
        result.total[latency] = total
        result.squares[latency] = squares


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
def mean_waits_of_extremes(waits, admitted_by_size, tenth, part):
    """Mean wait of the shortest and of the longest tenth of the admitted requests.

    Args:
        waits: float64 (n,), seconds, in arrival order.
        admitted_by_size: int64 (n,), places in `waits` by prompt + output, ascending.
        tenth: how many requests a tenth is.
        part: int8 (n,), zeros; scratch.
    """
    for place in range(tenth):
        part[admitted_by_size[place]] |= 1
        part[admitted_by_size[len(waits) - 1 - place]] |= 2
    short, long = 0.0, 0.0
    for place in range(len(waits)):
        if part[place] & 1:
            short += waits[place]
        if part[place] & 2:
            long += waits[place]
    return short / tenth, long / tenth


@entry_point
def count_statuses(status, counts):
    """Count the requests by status code."""
    for code in status:
        counts[code] += 1
