"""How long an iteration takes; see `vecsched.cost` for the formula."""

from typing import NamedTuple

from vecsched._jit import entry_point, kernel
from vecsched.kernels.stretch import stretch_ps


class PrefillWork(NamedTuple):
    """Sums over the prefill chunks of one iteration; `attention` is chunk * (2 * before + chunk)."""

    chunks: int
    tokens: int
    context: int
    attention: int


@kernel
def decode_ps(cost, decodes, context_tokens):
    """(duration, growth from one iteration to the next) of iterations that only decode."""
    context_ps = cost.decode_context_ps[decodes]
    return cost.decode_ps[decodes] + context_ps * context_tokens, context_ps * decodes


@kernel
def mixed_ps(cost, decodes, context_tokens, prefill):
    """Duration of an iteration with at least one prefill chunk."""
    return (
        cost.fixed_ps
        + cost.token_ps[decodes + prefill.tokens]
        + cost.sequence_ps[decodes + prefill.chunks]
        + cost.mixed_decode_ps[decodes]
        + cost.mixed_context_ps[decodes] * context_tokens
        + cost.prefill_attention_ps * prefill.attention
        + cost.prefill_context_ps * prefill.context
        + cost.chunk_decode_ps * prefill.tokens * decodes
    )


@entry_point
def fill_isolated_ps(cost, requests, chunk, idle_iteration, isolated_ps):
    """Fill in the end-to-end time of each request alone on an idle engine.

    Args:
        cost: tables of the cost model.
        requests: columns in arrival order.
        chunk: prompt tokens an iteration computes.
        idle_iteration: whether a request with one output token waits out an iteration of 0 tokens.
        isolated_ps: int64 (n,), filled.
    """
    for row in range(len(isolated_ps)):
        prompt, output = requests.prompt[row], requests.output[row]
        isolated_ps[row] = 0
        if min(prompt, chunk) >= len(cost.token_ps):
            continue  # No iteration may be that large: the request is refused.
        whole, rest = prompt // chunk, prompt % chunk
        # Over chunks, chunk * (2 * before + chunk) telescopes to the square of the prompt.
        total = cost.prefill_attention_ps * prompt * prompt
        if whole > 0:
            total += whole * lone_chunk_ps(cost, chunk)
            total += cost.prefill_context_ps * chunk * (whole * (whole - 1) // 2)
        if rest > 0:
            total += lone_chunk_ps(cost, rest) + cost.prefill_context_ps * whole * chunk
        if output > 1:
            first_ps, step_ps = decode_ps(cost, 1, prompt + 1)
            total += stretch_ps(output - 1, first_ps, step_ps)
        elif idle_iteration:
            total += cost.decode_ps[0]
        isolated_ps[row] = total


@kernel
def lone_chunk_ps(cost, chunk):
    """Duration of an iteration with one chunk, without what depends on the context before it."""
    return cost.fixed_ps + cost.token_ps[chunk] + cost.sequence_ps[1] + cost.mixed_decode_ps[0]
