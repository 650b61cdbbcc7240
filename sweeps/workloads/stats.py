"""What a trace looks like in figures."""

import numpy as np

from sweeps.workloads.sharing import describe_sharing
from vecsched import Trace

_QUANTILES = (50, 90, 99)


def describe(trace: Trace) -> dict[str, float | int]:
    """Return the statistics by which traces are compared; NaN where there is nothing to measure.

    Returns:
        `requests`; `span_s`, first to last arrival; `rate_per_s`, (requests - 1) / span;
        `gap_cv`, standard deviation over mean of the gaps between arrivals in time order (1 for
        Poisson); `dispersion`, variance over mean of the arrivals in 1 s bins from the first
        arrival (1 for Poisson); for `prompt_tokens` and `output_tokens` the `_mean`, `_p50`,
        `_p90`, `_p99`, `_max` and `_zero`, the number of zeros; `ties`, arrivals at the instant of
        another before them; `backward_steps`, rows that arrive before the row ahead; `tenants`,
        the number of distinct labels (1 without labels); and, of a trace with prefix ids, what
        `sweeps.workloads.sharing.describe_sharing` tells.
    """
    arrival = trace.arrival_s[trace.order]
    gaps = np.diff(arrival)
    span = float(arrival[-1] - arrival[0])
    bins = np.bincount((arrival - arrival[0]).astype(np.int64))
    figures: dict[str, float | int] = {
        "requests": len(trace),
        "span_s": span,
        "rate_per_s": (len(trace) - 1) / span if span > 0 else np.nan,
        "gap_cv": _gap_cv(gaps),
        "dispersion": float(bins.var() / bins.mean()),
    }
    for name in ("prompt_tokens", "output_tokens"):
        figures |= _lengths(name, getattr(trace, name))
    figures["ties"] = int((gaps == 0).sum())
    figures["backward_steps"] = trace.backward_steps
    figures["tenants"] = 1 if trace.tenant is None else len(set(trace.tenant.tolist()))
    return figures | describe_sharing(trace)


def _lengths(name: str, tokens: np.ndarray) -> dict[str, float | int]:
    quantiles = np.percentile(tokens, _QUANTILES)
    return {
        f"{name}_mean": float(tokens.mean()),
        **{f"{name}_p{q}": float(x) for q, x in zip(_QUANTILES, quantiles, strict=True)},
        f"{name}_max": int(tokens.max()),
        f"{name}_zero": int((tokens == 0).sum()),
    }


def describe_tenants(trace: Trace) -> dict[str, dict[str, float | int]]:
    """Return statistics of each tenant's requests, the busiest tenant first.

    Returns:
        By label, as text: `requests`, `share` of all requests, `rate_per_s` (over the span of the
        whole trace), `gap_cv`, `prompt_tokens_mean`, `output_tokens_mean`. Empty for a trace
        without tenants.
    """
    if trace.tenant is None:
        return {}
    rows: dict[str, list[int]] = {}
    for row in trace.order.tolist():
        rows.setdefault(str(trace.tenant[row]), []).append(row)
    span = float(trace.arrival_s.max() - trace.arrival_s.min())
    busiest = sorted(rows, key=lambda label: -len(rows[label]))
    return {label: _tenant(trace, np.array(rows[label]), span) for label in busiest}


def _tenant(trace: Trace, rows: np.ndarray, span: float) -> dict[str, float | int]:
    return {
        "requests": len(rows),
        "share": len(rows) / len(trace),
        "rate_per_s": len(rows) / span if span > 0 else np.nan,
        "gap_cv": _gap_cv(np.diff(trace.arrival_s[rows])),
        "prompt_tokens_mean": float(trace.prompt_tokens[rows].mean()),
        "output_tokens_mean": float(trace.output_tokens[rows].mean()),
    }


def _gap_cv(gaps: np.ndarray) -> float:
    """Return standard deviation over mean of the gaps; NaN if none takes any time."""
    return float(gaps.std() / gaps.mean()) if gaps.sum() > 0 else np.nan
