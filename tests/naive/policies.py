"""The order of the waiting queue: a policy gives a request a key, and the smallest goes first."""

import math

MASK = 2**64 - 1


def total_tokens(record):
    return record["prompt_tokens"] + record["output_tokens"]


def deadline(row, record, parameter):
    """A request without a deadline comes last."""
    instant = record.get("deadline_s")
    return math.inf if instant is None or math.isnan(instant) else instant


def splitmix64(row, record, seed):
    """Lot of a row: the mixing function of SplitMix64 on a counter that starts from the seed."""
    z = ((row + 1) * 0x9E3779B97F4A7C15 + int(seed) * 0xD1B54A32D192ED03) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


POLICIES = {
    "fcfs": lambda row, record, parameter: 0,
    "shortest_prompt": lambda row, record, parameter: record["prompt_tokens"],
    "shortest_output": lambda row, record, parameter: record["output_tokens"],
    "shortest_total": lambda row, record, parameter: total_tokens(record),
    "longest_total": lambda row, record, parameter: -total_tokens(record),
    "priority": lambda row, record, parameter: record["priority"],
    "deadline": deadline,
    "edf": deadline,
    "aging": lambda row, record, rate: total_tokens(record) + rate * record["arrival_s"],
    "random": splitmix64,
}
DEFAULT_PARAMETER = {"aging": 100.0, "random": 0.0}


def policy_key(policy, row, record):
    """Key of a request under "name" or "name(parameter)"."""
    name, _, parameter = policy.replace(" ", "").rstrip(")").partition("(")
    value = float(parameter) if parameter else DEFAULT_PARAMETER.get(name, 0.0)
    return POLICIES[name](row, record, value)
