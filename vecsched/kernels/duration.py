"""How long an iteration takes; see `vecsched.cost` for the formula."""

from typing import NamedTuple

import numpy as np

from vecsched._jit import entry_point, kernel
from vecsched.kernels.stretch import stretch_ps


class PrefillWork(NamedTuple):
    """Sums over the prefill chunks of an iteration; attention: chunk * (2 * before + chunk)."""

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
        + grid_ps(cost.attention, decodes, context_tokens, prefill)
    )


@kernel
def grid_ps(grid, decodes, context_tokens, prefill):
    """Measured attention of an iteration with a prefill; 0 without a grid.

    Several chunks count as one of all their tokens, behind the context that makes its causal work
    that of the chunks together. See `vecsched.mixed_attention` for the rule between the points.
    """
    if len(grid.chunk) == 0:
        return 0
    tokens = float(prefill.tokens)
    before = max((float(prefill.attention) / tokens - tokens) / 2.0, 0.0)
    each = float(context_tokens) / decodes if decodes > 0 else 0.0
    total = multilinear(
        grid.ps,
        bracket(grid.chunk, tokens),
        bracket(grid.prefill_context, before),
        bracket(grid.decodes, float(decodes)),
        bracket(grid.decode_context, each),
    )
    return int(np.rint(max(total, 0.0)))


@kernel
def bracket(axis, x):
    """(The point below x, x's share of the way to the next point) on an ascending axis."""
    place = 0
    while place + 2 < len(axis) and axis[place + 1] <= x:
        place += 1
    return place, max((x - axis[place]) / (axis[place + 1] - axis[place]), 0.0)


@kernel
def multilinear(values, first, second, third, fourth):
    """Sum over the corners of a cell, in a fixed order, of value times product of shares."""
    total = 0.0
    for corner in range(16):
        a, b, c, d = corner >> 3, corner >> 2 & 1, corner >> 1 & 1, corner & 1
        weight = side(first[1], a) * side(second[1], b) * side(third[1], c) * side(fourth[1], d)
        total += weight * values[first[0] + a, second[0] + b, third[0] + c, fourth[0] + d]
    return total


@kernel
def side(share, upper):
    """Weight of an end of a cell: the share of the upper one, the rest for the lower one."""
    return share if upper else 1.0 - share


@entry_point
def fill_isolated_ps(cost, requests, limits, isolated_ps):
    """Fill in the end-to-end time of each request alone on an idle engine.

    Args:
        cost: tables of the cost model.
        requests: columns in arrival order.
        limits: the scheduler's knobs.
        isolated_ps: int64 (n,), filled; -1 where the request cannot run alone.
    """
    for row in range(len(isolated_ps)):
        prompt, output = requests.prompt[row], requests.output[row]
        isolated_ps[row] = -1
        if min(prompt, limits.chunk) > min(limits.tokens, limits.prefill_tokens):
            continue
        total = lone_prefill_ps(cost, prompt, limits.chunk)
        if output > 1:
            first_ps, step_ps = decode_ps(cost, 1, prompt + 1)
            total += stretch_ps(output - 1, first_ps, step_ps)
        elif limits.idle_iteration:
            total += cost.decode_ps[0]
        isolated_ps[row] = total


@kernel
def lone_prefill_ps(cost, prompt, chunk):
    """Duration of a prompt's chunks, one an iteration, with nothing beside them."""
    whole, rest = prompt // chunk, prompt % chunk
    # Over chunks, chunk * (2 * before + chunk) telescopes to the square of the prompt.
    total = cost.prefill_attention_ps * prompt * prompt
    if whole > 0:
        total += whole * lone_chunk_ps(cost, chunk)
        total += cost.prefill_context_ps * chunk * (whole * (whole - 1) // 2)
    if rest > 0:
        total += lone_chunk_ps(cost, rest) + cost.prefill_context_ps * whole * chunk
    if len(cost.attention.chunk) > 0:
        # A grid has no closed form over the chunks.
        for before in range(0, prompt, chunk):
            tokens = min(chunk, prompt - before)
            work = PrefillWork(1, tokens, before, tokens * (2 * before + tokens))
            total += grid_ps(cost.attention, 0, 0, work)
    return total


@kernel
def lone_chunk_ps(cost, chunk):
    """Duration of an iteration with one chunk, without what depends on the context before it."""
    return cost.fixed_ps + cost.token_ps[chunk] + cost.sequence_ps[1] + cost.mixed_decode_ps[0]
