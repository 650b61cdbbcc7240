"""Per-request and per-run figures, as docs/semantics.md defines them.

Rows come in arrival order (ties: row order), which is the order in which floats are summed. Whole
numbers (picoseconds, tokens, blocks) are summed exactly, with one division at the end.
"""

import math

from naive.stats import divide, gini, jain, largest, mean, quantile, to_seconds, variance
from naive.tenant_metrics import tenant_summary

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
LATENCIES = ("queue_wait_s", "ttft_s", "tpot_s", "e2e_s", "normalized_latency_s", "slowdown")
STATUSES = ("completed", "failed", "timed_out", "cancelled")
DEFAULT_OPTIONS = {
    "ttft_slo_s": None,
    "tpot_slo_s": None,
    "e2e_slo_s": None,
    "starvation_s": None,
    "warmup": 0.1,
    "cooldown": 0.1,
}


# One request.


def request_row(request, isolated_ps):
    """A request's result: integers in picoseconds (`_ps`), then floats in seconds (`_s`)."""
    row = {
        "row": request.row,
        "tenant": request.tenant,
        "arrival_ps": request.arrival_ps,
        "prompt_tokens": request.prompt,
        "output_tokens": request.output,
        "status": request.status,
        "reason": request.reason,
        "admitted_ps": request.admitted_ps,
        "first_token_ps": request.first_token_ps,
        "finished_ps": request.finished_ps,
        "max_itl_ps": request.max_itl_ps,
        "isolated_ps": isolated_ps,
        "preemptions": request.preemptions,
        "recomputed_tokens": request.recomputed_tokens,
    }
    for reason, picoseconds in request.blocked_ps.items():
        row[f"blocked_{reason}_ps"] = picoseconds
    instants = [name for name in row if name.endswith("_ps") and name != "isolated_ps"]
    row |= {name.replace("_ps", "_s"): to_seconds(row[name]) for name in instants}
    return row | latencies(row)


def latencies(row):
    """The latencies that the request has; the others are NaN."""

    def since_arrival(instant):
        return math.nan if row[instant] is None else to_seconds(row[instant] - row["arrival_ps"])

    found = dict.fromkeys(LATENCIES, math.nan)
    found["queue_wait_s"] = since_arrival("admitted_ps")
    found["ttft_s"] = since_arrival("first_token_ps")
    if row["status"] == "completed":
        output, e2e_ps = row["output_tokens"], row["finished_ps"] - row["arrival_ps"]
        found["e2e_s"] = to_seconds(e2e_ps)
        found["normalized_latency_s"] = found["e2e_s"] / output
        if row["isolated_ps"] is not None:
            found["slowdown"] = divide(float(e2e_ps), float(row["isolated_ps"]))
        if output > 1:
            decoding = to_seconds(row["finished_ps"] - row["first_token_ps"])
            found["tpot_s"] = decoding / (output - 1)
    return found


# One run.


def summarise(rows, iterations, itl_gaps_ps, config, options):
    """The flat summary of a run from its request rows, iteration records and token gaps."""
    by_arrival = sorted(rows, key=lambda row: (row["arrival_ps"], row["row"]))
    start_ps = by_arrival[0]["arrival_ps"]
    end_ps = max(row["finished_ps"] for row in rows)
    summary = latency_summary(by_arrival)
    gaps = [to_seconds(gap) for gap in itl_gaps_ps]
    summary["itl_p50_s"] = quantile(gaps, 0.5)
    summary["itl_p99_s"] = quantile(gaps, 0.99)
    summary["itl_max_s"] = largest(gaps)
    summary["makespan_s"] = to_seconds(end_ps - start_ps)
    summary |= throughput(by_arrival, (start_ps, end_ps), options)
    summary |= goodput(by_arrival, summary["makespan_s"], options)
    summary |= engine_use(iterations, end_ps - start_ps, config)
    summary |= starvation(by_arrival, options)
    summary |= fairness(by_arrival, summary)
    summary |= tenant_summary(by_arrival, iterations, config)
    summary["requests"] = len(rows)
    summary |= {status: sum(row["status"] == status for row in rows) for status in STATUSES}
    for name in ("preemptions", "recomputed_tokens"):
        summary[name] = sum(row[name] for row in rows)
    return summary


def present(rows, name):
    return [row[name] for row in rows if not math.isnan(row[name])]


def latency_summary(by_arrival):
    summary = {}
    for latency in LATENCIES:
        values = present(by_arrival, latency)
        stem, unit = (latency[:-2], "_s") if latency.endswith("_s") else (latency, "")
        summary[f"{stem}_mean{unit}"] = mean(values)
        summary |= {f"{stem}_{p}{unit}": quantile(values, q) for p, q in QUANTILES.items()}
        summary[f"{stem}_max{unit}"] = largest(values)
    return summary


def throughput(by_arrival, run_ps, options):
    """Rates over the makespan, and over the steady window (a, b] within it."""
    start, end = run_ps
    a = start + round(options["warmup"] * (end - start))
    b = end - round(options["cooldown"] * (end - start))
    completed = [row for row in by_arrival if row["status"] == "completed"]
    steady = [row for row in completed if a < row["finished_ps"] <= b]
    whole = rates(completed, to_seconds(end - start))
    within = rates(steady, to_seconds(max(b - a, 0)))
    return whole | {f"{name}_steady": value for name, value in within.items()}


def rates(completed, duration_s):
    output = sum(row["output_tokens"] for row in completed)
    prompt = sum(row["prompt_tokens"] for row in completed)
    return {
        "requests_per_s": divide(len(completed), duration_s),
        "output_tokens_per_s": divide(output, duration_s),
        "total_tokens_per_s": divide(prompt + output, duration_s),
    }


def goodput(by_arrival, makespan_s, options):
    completed = [row for row in by_arrival if row["status"] == "completed"]
    good = sum(meets_slos(row, options) for row in completed)
    return {
        "goodput_requests_per_s": divide(good, makespan_s),
        "slo_attainment": divide(good, len(by_arrival)),
        "slo_attainment_completed": divide(good, len(completed)),
    }


def meets_slos(row, options):
    """A TPOT that does not exist (one output token) is not above any bound."""
    latencies_and_bounds = [
        (row[f"{name}_s"], options[f"{name}_slo_s"]) for name in ("ttft", "tpot", "e2e")
    ]
    return not any(bound is not None and value > bound for value, bound in latencies_and_bounds)


def engine_use(iterations, makespan_ps, config):
    n = len(iterations)
    durations = [it["end_ps"] - it["start_ps"] for it in iterations]
    tokens = [sum(count for _, count in it["scheduled"]) for it in iterations]
    slots = [it["slots_in_use"] for it in iterations]
    held = [it["held_kv_blocks"] for it in iterations]
    busy_ps = sum(durations)

    def time_weighted(amounts, bound):
        if bound is None:
            return math.nan
        weighted = sum(amount * ps for amount, ps in zip(amounts, durations, strict=True))
        return divide(weighted, bound * busy_ps)

    summary = {
        "iterations": n,
        "mean_batch_tokens": divide(sum(tokens), n),
        "mean_batch_size": divide(sum(slots), n),
        "batch_occupancy": time_weighted(slots, config["max_batch_size"]),
        "kv_utilization": time_weighted(held, config["kv_blocks"]),
        "token_budget_utilization": time_weighted(tokens, config["max_num_batched_tokens"]),
        "busy_fraction": divide(busy_ps, makespan_ps),
    }
    unblocked_ps = makespan_ps
    for reason in ("slot", "kv_blocks", "token_budget"):
        blocked_ps = sum(
            ps
            for it, ps in zip(iterations, durations, strict=True)
            if it["blocked_reason"] == reason
        )
        summary[f"blocked_{reason}_share"] = divide(blocked_ps, makespan_ps)
        unblocked_ps -= blocked_ps
    summary["empty_queue_share"] = divide(unblocked_ps, makespan_ps)
    return summary


def starvation(by_arrival, options):
    """Over the requests that did not fail; one that was never admitted waited until its end.

    One that cannot run alone counts with its wait only.
    """
    can_run = [row for row in by_arrival if row["status"] != "failed"]
    waits_ps = []
    for row in can_run:
        until = row["finished_ps"] if row["admitted_ps"] is None else row["admitted_ps"]
        waits_ps.append(until - row["arrival_ps"])
    waits = [to_seconds(wait) for wait in waits_ps]
    bound = options["starvation_s"]
    if bound is None:
        alone = [row["isolated_ps"] for row in can_run if row["isolated_ps"] is not None]
        bound = 10 * quantile([to_seconds(picoseconds) for picoseconds in alone], 0.5)
    ratios = [
        divide(float(wait), float(row["isolated_ps"]))
        for wait, row in zip(waits_ps, can_run, strict=True)
        if row["isolated_ps"] is not None
    ]
    return {
        "starved_requests": sum(wait > bound for wait in waits),
        "starvation_s": bound,
        "max_queue_wait_s": largest(waits),
        "wait_over_isolated_p99": quantile([x for x in ratios if not math.isnan(x)], 0.99),
    }


def fairness(by_arrival, summary):
    slowdowns = present(by_arrival, "slowdown")
    return {
        "jain_slowdown": jain(slowdowns),
        "jain_tpot": jain(present(by_arrival, "tpot_s")),
        "ttft_p99_over_p50": divide(summary["ttft_p99_s"], summary["ttft_p50_s"]),
        "slowdown_p99_over_p50": divide(summary["slowdown_p99"], summary["slowdown_p50"]),
        "slowdown_variance": variance(slowdowns),
        "slowdown_gini": gini(slowdowns),
        "long_over_short_wait": long_over_short_wait(by_arrival),
    }


def long_over_short_wait(by_arrival):
    """Who pays for shortest-first: the longest tenth's mean wait over the shortest tenth's."""
    admitted = [row for row in by_arrival if row["admitted_ps"] is not None]
    if not admitted:
        return math.nan
    by_length = sorted(admitted, key=lambda row: row["prompt_tokens"] + row["output_tokens"])
    tenth = max(1, len(admitted) // 10)

    def mean_wait(part):
        rows = {row["row"] for row in part}
        return mean([row["queue_wait_s"] for row in admitted if row["row"] in rows])

    return divide(mean_wait(by_length[-tenth:]), mean_wait(by_length[:tenth]))
