"""How tenants fared, from request rows in arrival order and iteration records."""

import math
from fractions import Fraction

from naive.fair import UNIT, price_of
from naive.stats import divide, jain, largest, quantile, total

NAMES = (
    *("jain_tenant_service", "service_difference_max", "service_difference_mean"),
    *("service_difference_variance", "backlogged_service_difference_max"),
    *("ttft_p99_worst_tenant_s", "ttft_p99_best_tenant_s"),
)


def tenant_summary(by_arrival, iterations, config):
    """The tenants' entries of the summary: all but the number measure nothing with one tenant."""
    tenants = list(dict.fromkeys(row["tenant"] for row in by_arrival))
    if len(tenants) < 2:
        return {"tenants": 1, **dict.fromkeys(NAMES, math.nan)}
    price = {tenant: price_of(tenant, config) for tenant in tenants}
    groups = lasting(iterations)
    service = [total_service([service_of(it, by_arrival, tenants) for it in g]) for g in groups]
    backlogged = [backlogged_in(group[-1], by_arrival) for group in groups]
    durations_ps = [group[-1]["end_ps"] - group[-1]["start_ps"] for group in groups]
    worst, best = ttft_extremes(by_arrival, tenants)
    return {
        "tenants": len(tenants),
        "jain_tenant_service": jain(service_rates(service, backlogged, durations_ps, price)),
        **service_differences(service, durations_ps),
        "backlogged_service_difference_max": backlogged_difference(service, backlogged, price),
        "ttft_p99_worst_tenant_s": worst,
        "ttft_p99_best_tenant_s": best,
    }


def lasting(iterations):
    """Each iteration that lasts, behind those of 0 s ahead of it; some of 0 s may be at the end."""
    groups, group = [], []
    for it in iterations:
        group.append(it)
        if it["end_ps"] > it["start_ps"]:
            groups.append(group)
            group = []
    return [*groups, group] if group else groups


def total_service(parts):
    """{tenant: sum over the iterations}."""
    return {tenant: sum(part[tenant] for part in parts) for tenant in parts[0]}


def service_of(iteration, by_arrival, tenants):
    """{tenant: tokens of service in the iteration}: prompts of new ones, outputs twice."""
    service = dict.fromkeys(tenants, 0)
    for row in by_arrival:
        if row["row"] in iteration["newly_admitted"]:
            service[row["tenant"]] += row["prompt_tokens"]
        if row["row"] in iteration["got_token"]:
            service[row["tenant"]] += 2
    return service


def backlogged_in(iteration, by_arrival):
    return {row["tenant"] for row in by_arrival if row["row"] in iteration["backlogged"]}


def service_rates(service, backlogged, durations_ps, price):
    """Service over weight and time while backlogged, of each tenant that ever was."""
    rates = []
    for tenant in price:
        own = [i for i, those in enumerate(backlogged) if tenant in those]
        received = sum(service[i][tenant] for i in own) * price[tenant] / UNIT
        if own:
            rates.append(divide(received, sum(durations_ps[i] for i in own) / 1e12))
    return rates


def service_differences(service, durations_ps):
    """Between the tenants served most and least since the start, whatever their weights."""
    received = dict.fromkeys(service[0], 0) if service else {}
    differences = []
    for tokens in service:
        received = {tenant: received[tenant] + tokens[tenant] for tenant in received}
        differences.append(max(received.values()) - min(received.values()))
    seconds = [duration / 1e12 for duration in durations_ps]
    pairs = list(zip(differences, seconds, strict=True))
    mean = divide(total([d * dt for d, dt in pairs]), total(seconds))
    square = divide(total([d * d * dt for d, dt in pairs]), total(seconds))
    return {
        "service_difference_max": largest(differences),
        "service_difference_mean": mean,
        "service_difference_variance": square - mean * mean,
    }


def backlogged_difference(service, backlogged, price):
    """The largest difference that arose over weights within a row in which all are backlogged."""
    received, found = dict.fromkeys(price, 0), Fraction(0)
    for tokens, those in zip(service, backlogged, strict=True):
        if those == price.keys():
            received = {name: received[name] + tokens[name] * price[name] for name in price}
            found = max(found, Fraction(max(received.values()) - min(received.values()), UNIT))
        else:
            received = dict.fromkeys(price, 0)
    return float(found)


def ttft_extremes(by_arrival, tenants):
    """(largest, smallest) p99 time to first token of a tenant that had one at all."""
    of_tenants = [
        [row["ttft_s"] for row in by_arrival if row["tenant"] == tenant] for tenant in tenants
    ]
    p99 = [quantile([x for x in ttft if not math.isnan(x)], 0.99) for ttft in of_tenants]
    measured = [x for x in p99 if not math.isnan(x)]
    return max(measured, default=math.nan), min(measured, default=math.nan)
