"""Short ways to write small inputs in tests."""

from naive.requests import PS_PER_S
from naive.simulation import DEFAULT_CONFIG

UNIT_COST = {"decode": {"fixed_s": 1.0}, "mixed": {"fixed_s": 1.0}}

_SMALL = {
    "discipline": "strict",
    "policy": "fcfs",
    "max_batch_size": 4,
    "max_num_batched_tokens": 8,
    "prefill_chunk_size": 4,
    "kv_blocks": None,
    "block_size": 4,
    "max_tokens": None,
    "max_prefill_tokens": None,
    "max_wait_s": None,
    "timeout_s": None,
    "lookahead": 0,
    **DEFAULT_CONFIG,
}


def small_config(**changes):
    """A configuration of 4 slots, 8 tokens an iteration and chunks of 4, with changes."""
    assert changes.keys() <= _SMALL.keys()
    return {**_SMALL, **changes}


def request(arrival_s, prompt, output, **more):
    return {
        "arrival_s": float(arrival_s),
        "prompt_tokens": prompt,
        "output_tokens": output,
        **more,
    }


def affine_cost(fixed_s, prefill_s, decode_s, context_s, attention_s=0.0):
    """Seconds an iteration, a prefill token, a decode, a KV token read, an attention unit."""
    context = [[0, context_s], [1, context_s]]
    return {
        "decode": {"fixed_s": fixed_s, "decode_s": [[1, decode_s]], "context_s": context},
        "mixed": {
            "fixed_s": fixed_s,
            # Counts decodes too; what they cost more or less than a prefill token comes back below.
            "token_s": [[1, prefill_s]],
            "decode_s": [[1, decode_s - prefill_s]],
            "context_s": context,
        },
        "prefill_attention_s": attention_s,
    }


def table(result):
    """An event table: (start s, end s, [(row, tokens), ...]) of each iteration."""
    return [
        (it["start_ps"] / PS_PER_S, it["end_ps"] / PS_PER_S, it["scheduled"])
        for it in result["iterations"]
    ]


def column(result, name):
    return [row[name] for row in result["requests"]]


def seconds(values):
    return [None if value is None else value / PS_PER_S for value in values]
