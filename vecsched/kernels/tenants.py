"""Service that tenants receive over time, told iteration by iteration from the record of a run."""

from typing import NamedTuple

import numpy as np

from vecsched._jit import entry_point, kernel
from vecsched.clock import PS_PER_S
from vecsched.kernels.fair import OUTPUT_WEIGHT
from vecsched.kernels.record import (
    FIRST_PS,
    GAP_PS,
    ITERATIONS,
    NO_TOKEN,
    START_PS,
    STEP_PS,
)


class Timeline(NamedTuple):
    """What happens when, each sorted by time; rows are in arrival order.

    Attributes:
        lines, lone_gaps, periods: of the record; periods in order of their last line.
        by_start: periods in order of their first line.
        arrival_ps: by row.
        gone_ps: when a request left the queue of new ones, by row: admitted for the first time, or
            ended before.
        by_gone: rows by that.
        first_token_ps, by_first_token: the same for first tokens; only rows that have one.
        admitted: whether a request was ever admitted, by row.
        prompt, tenant: by row.
    """

    lines: np.ndarray
    lone_gaps: np.ndarray
    periods: np.ndarray
    by_start: np.ndarray
    arrival_ps: np.ndarray
    gone_ps: np.ndarray
    by_gone: np.ndarray
    first_token_ps: np.ndarray
    by_first_token: np.ndarray
    admitted: np.ndarray
    prompt: np.ndarray
    tenant: np.ndarray


class Shares(NamedTuple):
    """State and sums by tenant.

    Attributes:
        price: of a unit of service.
        decodes: steady decodes now.
        backlog: new requests waiting now.
        gain: service received in the present iteration.
        service: received so far.
        row_service: received in the present row of iterations with all backlogged, x price.
        backlogged_service: received in backlogged iterations, x price.
        backlogged_ps: their time.
        place: how far each list of the timeline is read.
        difference: over iterations, by place: largest, sum x dt, sum of squares x dt, sum of dt,
            and the largest within a row.
        curve: (lines, tenants): service at the end of each line; (0, tenants) if not wanted.
    """

    price: np.ndarray
    decodes: np.ndarray
    backlog: np.ndarray
    gain: np.ndarray
    service: np.ndarray
    row_service: np.ndarray
    backlogged_service: np.ndarray
    backlogged_ps: np.ndarray
    place: np.ndarray
    difference: np.ndarray
    curve: np.ndarray


# Places in `Shares.place`.
JOINED, GONE, FIRST_TOKENS, STARTED, ENDED, LONE, IN_ROW, PLACES = range(8)
# Places in `Shares.difference`.
LARGEST, TIMES_DT, SQUARES_DT, DT, LARGEST_IN_ROW, DIFFERENCES = range(6)


@entry_point
def share_service(timeline, shares):
    """Go through all iterations and fill in `shares`.

    Those of 0 s count together with the next one that lasts.
    """
    lines = timeline.lines
    shares.gain[:] = 0
    for number in range(len(lines)):
        line = lines[number]
        start_periods(timeline, shares, number)
        boundary, duration = line[START_PS], line[FIRST_PS]
        for _ in range(line[ITERATIONS]):
            change_queue(timeline, shares, boundary)
            boundary += duration
            make_tokens(timeline, shares, number, boundary)
            if duration > 0 or number == len(lines) - 1:
                account_iteration(shares, duration)
                shares.gain[:] = 0
            duration += line[STEP_PS]
        end_periods(timeline, shares, number)
        if len(shares.curve) > 0:
            for tenant in range(len(shares.service)):
                shares.curve[number, tenant] = shares.service[tenant]


@kernel
def start_periods(timeline, shares, line):
    """Some requests begin to decode in every iteration from this line on."""
    place, periods = shares.place, timeline.periods
    while place[STARTED] < len(periods) and periods[timeline.by_start[place[STARTED]], 1] <= line:
        shares.decodes[timeline.tenant[periods[timeline.by_start[place[STARTED]], 0]]] += 1
        place[STARTED] += 1


@kernel
def end_periods(timeline, shares, line):
    """Some requests have done so in this line for the last time."""
    place, periods = shares.place, timeline.periods
    while place[ENDED] < len(periods) and periods[place[ENDED], 2] <= line:
        shares.decodes[timeline.tenant[periods[place[ENDED], 0]]] -= 1
        place[ENDED] += 1


@kernel
def change_queue(timeline, shares, boundary):
    """New requests join the backlog, others leave it; the admitted bring their prompt's service."""
    place, rows = shares.place, len(timeline.arrival_ps)
    while place[JOINED] < rows and timeline.arrival_ps[place[JOINED]] <= boundary:
        shares.backlog[timeline.tenant[place[JOINED]]] += 1
        place[JOINED] += 1
    while place[GONE] < rows and timeline.gone_ps[timeline.by_gone[place[GONE]]] <= boundary:
        row = timeline.by_gone[place[GONE]]
        shares.backlog[timeline.tenant[row]] -= 1
        if timeline.admitted[row]:
            shares.gain[timeline.tenant[row]] += timeline.prompt[row]
        place[GONE] += 1


@kernel
def make_tokens(timeline, shares, line, end):
    """Count the output tokens of an iteration that ends at `end`."""
    place, tenant = shares.place, timeline.tenant
    if timeline.lines[line, GAP_PS] != NO_TOKEN:
        for owner in range(len(shares.decodes)):
            shares.gain[owner] += OUTPUT_WEIGHT * shares.decodes[owner]
    firsts = timeline.by_first_token
    while place[FIRST_TOKENS] < len(firsts):
        row = firsts[place[FIRST_TOKENS]]
        if timeline.first_token_ps[row] > end:
            break
        shares.gain[tenant[row]] += OUTPUT_WEIGHT
        place[FIRST_TOKENS] += 1
    while place[LONE] < len(timeline.lone_gaps) and timeline.lone_gaps[place[LONE], 3] <= line:
        # Lines with such tokens are single iterations; those of nobody in particular are steady.
        row = timeline.lone_gaps[place[LONE], 0]
        if row >= 0:
            shares.gain[tenant[row]] += OUTPUT_WEIGHT
        place[LONE] += 1


@kernel
def account_iteration(shares, duration):
    """Add the iteration's gains up, and compare the tenants."""
    tenants = len(shares.service)
    all_backlogged = True
    for tenant in range(tenants):
        shares.service[tenant] += shares.gain[tenant]
        if shares.backlog[tenant] > 0:
            gained = shares.gain[tenant] * shares.price[tenant]
            shares.backlogged_service[tenant] += gained
            shares.backlogged_ps[tenant] += duration
        else:
            all_backlogged = False
    spread, seconds = float(widest(shares.service)), duration / PS_PER_S
    shares.difference[LARGEST] = max(shares.difference[LARGEST], spread)
    shares.difference[TIMES_DT] += spread * seconds
    shares.difference[SQUARES_DT] += spread * spread * seconds
    shares.difference[DT] += seconds
    if all_backlogged:
        if shares.place[IN_ROW] == 0:
            shares.row_service[:] = 0
        for tenant in range(tenants):
            shares.row_service[tenant] += shares.gain[tenant] * shares.price[tenant]
        spread = float(widest(shares.row_service))
        shares.difference[LARGEST_IN_ROW] = max(shares.difference[LARGEST_IN_ROW], spread)
    shares.place[IN_ROW] = all_backlogged


@kernel
def widest(values):
    """Largest minus smallest."""
    low, high = values[0], values[0]
    for value in values:
        low = min(low, value)
        high = max(high, value)
    return high - low
