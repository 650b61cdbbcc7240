"""The tenants of a trace and their weights, as the fair policies read them."""

import numpy as np

from vecsched.columns import once_per_trace
from vecsched.config import SchedulerConfig, parse_weights
from vecsched.kernels.bitset import NONE
from vecsched.kernels.fair import DRR, OUTPUT_WEIGHT, PRICE, STATIC, VTC, WFQ, Fair
from vecsched.policies import POLICIES, parse_policy, predicted_output
from vecsched.trace import Trace

_KINDS = {"vtc": VTC, "drr": DRR, "wfq": WFQ}


def prices_of(trace: Trace, config: SchedulerConfig) -> np.ndarray:
    """What a unit of service costs each tenant: int64 (tenants,)."""
    weights = parse_weights(config.tenant_weights)
    return np.array(
        [round(PRICE / weights.get(str(tenant), 1.0)) for tenant in trace.tenants], np.int64
    )


def fair_state(trace: Trace, config: SchedulerConfig) -> Fair:
    """Everybody's counter at zero; arrays of size 0 if the policy is not fair."""
    name, parameter = parse_policy(config.policy)
    nobody = np.empty(0, np.int64)
    tenant, begin, expected, price = nobody, nobody, nobody, nobody
    if POLICIES[name].is_fair:
        price = prices_of(trace, config)
        tenant, begin = once_per_trace(trace, "tenants", lambda: _tenant_ranges(trace))
        output = predicted_output(trace, config.prediction_error, config.prediction_seed)
        cost = trace.prompt_tokens + OUTPUT_WEIGHT * output
        expected = price[tenant] * cost[trace.order]
    counters = [np.zeros(len(price), np.int64) for _ in range(5)]
    return Fair(
        kind=_KINDS.get(name, STATIC),
        quantum=int(parameter) * PRICE if name == "drr" else 1,
        tenant=tenant,
        price=price,
        begin=begin,
        waiting=counters[0],
        decodes=counters[1],
        settled=counters[2],
        counter=counters[3],
        last_tag=counters[4],
        expected=expected,
        tag=np.zeros(len(expected), np.int64),
        turn=np.array([len(price) - 1, NONE, 0], np.int64),
    )


def _tenant_ranges(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """(tenant of each row, rank at which each tenant's requests begin), in arrival order."""
    tenant = trace.tenant_codes[trace.order]
    begin = np.searchsorted(np.sort(tenant), np.arange(len(trace.tenants)))
    return tenant, begin.astype(np.int64)
