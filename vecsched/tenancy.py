"""Tenants: how a run's service was shared between them; definitions in `docs/semantics.md`."""

import math
from typing import Any

import numpy as np

from vecsched.clock import NEVER_PS, PS_PER_S, to_seconds
from vecsched.config import SchedulerConfig, parse_weights
from vecsched.fairness import prices_of
from vecsched.kernels.engine import Engine
from vecsched.kernels.fair import PRICE
from vecsched.kernels.record import (
    START_PS,
    line_durations_ps,
    written_gaps,
    written_lines,
    written_periods,
)
from vecsched.kernels.tenants import (
    DIFFERENCES,
    DT,
    LARGEST,
    LARGEST_IN_ROW,
    PLACES,
    SQUARES_DT,
    TIMES_DT,
    Shares,
    Timeline,
    share_service,
)
from vecsched.prefix_metrics import hit_rate
from vecsched.quantiles import SelectionScratch, quantiles_of, quotient
from vecsched.requests import COMPLETED
from vecsched.trace import Trace

ENTRIES = (
    "jain_tenant_service",
    "service_difference_max",
    "service_difference_mean",
    "service_difference_variance",
    "backlogged_service_difference_max",
    "ttft_p99_worst_tenant_s",
    "ttft_p99_best_tenant_s",
)


def summarise_tenants(trace: Trace, config: SchedulerConfig, engine: Engine) -> dict[str, Any]:
    """The tenants' part of a summary; NaN with fewer than two tenants."""
    tenants = len(trace.tenants)
    if tenants < 2:
        return {"tenants": tenants, **dict.fromkeys(ENTRIES, math.nan)}
    shares = measure(trace, config, engine)
    largest, mean, variance, in_row = _differences(shares)
    if len(written_lines(engine.record)) == 0:
        largest = math.nan  # No iteration, no difference.
    slowest = [quantile for _, quantile in _ttft(trace, engine, 0.99) if not math.isnan(quantile)]
    found = (
        jain_of(backlogged_rates(shares)),
        largest,
        mean,
        variance,
        in_row,
        max(slowest, default=math.nan),
        min(slowest, default=math.nan),
    )
    return {"tenants": tenants, **dict(zip(ENTRIES, found, strict=True))}


def measure(
    trace: Trace, config: SchedulerConfig, engine: Engine, *, curve: bool = False
) -> Shares:
    """Replay the record of a run; with `curve`, keep what each tenant had at each line's end."""
    tenants = len(trace.tenants)
    timeline = _timeline(trace, engine)
    zeros = [np.zeros(tenants, np.int64) for _ in range(7)]
    shares = Shares(
        price=prices_of(trace, config),
        decodes=zeros[0],
        backlog=zeros[1],
        gain=zeros[2],
        service=zeros[3],
        row_service=zeros[4],
        backlogged_service=zeros[5],
        backlogged_ps=zeros[6],
        place=np.zeros(PLACES, np.int64),
        difference=np.zeros(DIFFERENCES, np.float64),
        curve=np.empty((len(timeline.lines) if curve else 0, tenants), np.int64),
    )
    share_service(timeline, shares)
    return shares


def _timeline(trace: Trace, engine: Engine) -> Timeline:
    outcome, requests, record = engine.outcome, engine.requests, engine.record
    periods = written_periods(record)
    gone_ps = np.minimum(outcome.admitted_ps, outcome.finished_ps)
    first = outcome.first_token_ps
    has_token = np.flatnonzero(first != NEVER_PS)
    return Timeline(
        lines=written_lines(record),
        lone_gaps=written_gaps(record),
        periods=periods,
        by_start=np.argsort(periods[:, 1], kind="stable"),
        arrival_ps=requests.arrival_ps,
        gone_ps=gone_ps,
        by_gone=np.argsort(gone_ps, kind="stable"),
        first_token_ps=first,
        by_first_token=has_token[np.argsort(first[has_token], kind="stable")],
        admitted=outcome.admitted_ps != NEVER_PS,
        prompt=requests.prompt,
        tenant=trace.tenant_codes[trace.order],
    )


def _differences(shares: Shares) -> tuple[float, ...]:
    """(largest, mean, variance, largest within rows of iterations with all backlogged)."""
    found = shares.difference.tolist()
    mean = quotient(found[TIMES_DT], found[DT])
    variance = quotient(found[SQUARES_DT], found[DT]) - mean * mean
    return found[LARGEST], mean, variance, found[LARGEST_IN_ROW] / PRICE


def backlogged_rates(shares: Shares) -> list[float]:
    """Service / weight per second of backlog, of the tenants that ever were backlogged."""
    pairs = zip(shares.backlogged_service.tolist(), shares.backlogged_ps.tolist(), strict=True)
    return [service / PRICE / (ps / PS_PER_S) for service, ps in pairs if ps > 0]


def jain_of(values: list[float]) -> float:
    """Jain's index, (sum x)^2 / (n sum x^2), one addition after another."""
    total = squares = 0.0
    for value in values:
        total += value
        squares += value * value
    return quotient(total * total, len(values) * squares)


def _ttft(trace: Trace, engine: Engine, q: float) -> list[tuple[Any, float]]:
    """(tenant, quantile of its TTFT) in the order of tenants."""
    outcome, requests = engine.outcome, engine.requests
    codes = trace.tenant_codes[trace.order]
    known = outcome.first_token_ps != NEVER_PS
    ttft = (outcome.first_token_ps - requests.arrival_ps) / PS_PER_S
    scratch = SelectionScratch.for_size(len(ttft))
    return [
        (tenant, quantiles_of(ttft[known & (codes == code)], [q], scratch)[0])
        for code, tenant in enumerate(trace.tenants)
    ]


def tenant_rows(trace: Trace, config: SchedulerConfig, engine: Engine) -> list[dict[str, Any]]:
    """One row a tenant: requests, service, backlog and TTFT."""
    shares = measure(trace, config, engine)
    weights = parse_weights(config.tenant_weights)
    codes = trace.tenant_codes[trace.order]
    completed = engine.outcome.status == COMPLETED
    p50, p99 = _ttft(trace, engine, 0.5), _ttft(trace, engine, 0.99)
    rows = []
    for code, tenant in enumerate(trace.tenants):
        backlogged_s = int(shares.backlogged_ps[code]) / PS_PER_S
        served = int(shares.backlogged_service[code]) / PRICE
        rows.append(
            {
                "tenant": tenant,
                "weight": weights.get(str(tenant), 1.0),
                "requests": int((codes == code).sum()),
                "completed": int((completed & (codes == code)).sum()),
                "service": int(shares.service[code]),
                "backlogged_s": backlogged_s,
                "backlogged_service_per_s": quotient(served, backlogged_s),
                "ttft_p50_s": p50[code][1],
                "ttft_p99_s": p99[code][1],
                "prefix_hit_rate": hit_rate(engine, codes == code),
            }
        )
    return rows


def service_curve(trace: Trace, config: SchedulerConfig, engine: Engine) -> dict[str, np.ndarray]:
    """Service received by each tenant up to the end of each stretch, by column."""
    shares = measure(trace, config, engine, curve=True)
    lines = written_lines(engine.record)
    ends = lines[:, START_PS] + line_durations_ps(lines)
    columns = {str(tenant): shares.curve[:, code] for code, tenant in enumerate(trace.tenants)}
    return {"end_s": to_seconds(ends), **columns}
