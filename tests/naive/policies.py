"""The order of the waiting queue: a policy gives a request a key, and the smallest goes first."""

import math

MASK = 2**64 - 1


def output_tokens(record):
    """What the scheduler believes them to be, where that is told."""
    predicted = record.get("predicted_output_tokens")
    return record["output_tokens"] if predicted is None else predicted


def total_tokens(record):
    return record["prompt_tokens"] + output_tokens(record)


def deadline(row, record, parameter):
    """A request without a deadline comes last."""
    instant = record.get("deadline_s")
    return math.inf if instant is None or math.isnan(instant) else instant


def priority(row, record, parameter):
    """Equal priorities go by the engine's time stamp, if there is one; else by arrival as ever."""
    return record["priority"], record.get("engine_time_s") or 0.0


def splitmix64(row, record, seed):
    """Lot of a row: the mixing function of SplitMix64 on a counter that starts from the seed."""
    z = ((row + 1) * 0x9E3779B97F4A7C15 + int(seed) * 0xD1B54A32D192ED03) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


POLICIES = {
    "fcfs": lambda row, record, parameter: 0,
    "shortest_prompt": lambda row, record, parameter: record["prompt_tokens"],
    "shortest_output": lambda row, record, parameter: output_tokens(record),
    "shortest_total": lambda row, record, parameter: total_tokens(record),
    "longest_total": lambda row, record, parameter: -total_tokens(record),
    "priority": priority,
    "deadline": deadline,
    "edf": deadline,
    "aging": lambda row, record, rate: total_tokens(record) + rate * record["arrival_s"],
    "random": splitmix64,
}
DEFAULT_PARAMETER = {"aging": 100.0, "random": 0.0, "drr": 2000.0}


def policy_name(policy):
    """The name in "name" or "name(parameter)"."""
    return policy.partition("(")[0].strip()


def policy_parameter(policy):
    """The parameter in "name(parameter)", or the default of "name"."""
    parameter = policy.partition("(")[2].strip(" )")
    return float(parameter) if parameter else DEFAULT_PARAMETER.get(policy_name(policy), 0.0)


def policy_key(policy, row, record):
    """Key of a request under "name" or "name(parameter)"; 0 for all where keys decide nothing."""
    key = POLICIES.get(policy_name(policy), POLICIES["fcfs"])
    return key(row, record, policy_parameter(policy))
