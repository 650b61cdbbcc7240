"""How long one iteration takes, in whole picoseconds, from a cost model's dictionary."""

from itertools import product

from naive.requests import PS_PER_S, to_ps


def table_value_ps(points, n):
    """Value at n of a table given by points (n, seconds).

    Linear between the points, in picoseconds, rounded to the nearest with halves upwards; beyond
    the last point the last slope goes on. The value at 0 is 0 unless given. A lone point at 0 is a
    constant.
    """
    if not points:
        return 0
    known = [(at, to_ps(seconds)) for at, seconds in points]
    if known[0][0] != 0:
        known.insert(0, (0, 0))
    if len(known) == 1:
        return known[0][1]
    piece = 0
    while piece + 2 < len(known) and known[piece + 1][0] <= n:
        piece += 1
    (left, value), (right, next_value) = known[piece], known[piece + 1]
    width, rise = right - left, next_value - value
    # floor(x + 1/2), with x = rise * (n - left) / width, in whole numbers.
    return value + (2 * rise * (n - left) + width) // (2 * width)


def iteration_ps(cost, prefills, decode_contexts):
    """Duration of an iteration.

    `prefills` lists (chunk, prompt tokens computed before) of its prefills, `decode_contexts` the
    KV tokens that each of its decodes reads. A batch entry without a token is in neither.
    """
    chunk_tokens = sum(chunk for chunk, _ in prefills)
    n_decode = len(decode_contexts)
    terms = cost["mixed"] if prefills else cost["decode"]
    duration = (
        to_ps(terms.get("fixed_s", 0.0))
        + table_value_ps(terms.get("token_s"), chunk_tokens + n_decode)
        + table_value_ps(terms.get("sequence_s"), len(prefills) + n_decode)
        + table_value_ps(terms.get("decode_s"), n_decode)
        + table_value_ps(terms.get("context_s"), n_decode) * sum(decode_contexts)
    )
    attention = sum(chunk * (2 * before + chunk) for chunk, before in prefills)
    duration += to_ps(cost.get("prefill_attention_s", 0.0)) * attention
    duration += to_ps(cost.get("prefill_context_s", 0.0)) * sum(before for _, before in prefills)
    duration += to_ps(cost.get("chunk_decode_s", 0.0)) * chunk_tokens * n_decode
    if prefills and cost.get("mixed_attention"):
        duration += measured_attention_ps(cost["mixed_attention"], prefills, decode_contexts)
    return duration


def measured_attention_ps(measured, prefills, decode_contexts):
    """Attention of an iteration with a prefill, from a measured grid, to the nearest picosecond.

    The grid knows one chunk. Several are taken for one of all their tokens, behind a context that
    leaves the causal work, chunk * (2 * context + chunk), what it is; behind none, if even that is
    too much work. Decodes are taken to read the mean of their contexts.
    """
    tokens = float(sum(chunk for chunk, _ in prefills))
    work = float(sum(chunk * (2 * before + chunk) for chunk, before in prefills))
    context = max(0.0, (work / tokens - tokens) / 2)
    n_decode = len(decode_contexts)
    mean = float(sum(decode_contexts)) / n_decode if n_decode else 0.0
    cell = [
        cell_of(measured["chunk"], tokens),
        cell_of(measured["prefill_context"], context),
        cell_of(measured["decodes"], float(n_decode)),
        cell_of(measured["decode_context"], mean),
    ]
    total = 0.0
    for corner in product(*cell):
        seconds, weight = measured["seconds"], 1.0
        for place, share in corner:
            seconds, weight = seconds[place], weight * share
        total += weight * round(seconds * PS_PER_S)
    return max(0, round(total))


def cell_of(axis, x):
    """The two points of an axis around x, as (place, share of the weight), lower one first.

    Below the first point the first has all the weight; beyond the last the last two go on.
    """
    place = max(0, min(sum(point <= x for point in axis), len(axis) - 1) - 1)
    share = max(0.0, (x - axis[place]) / (axis[place + 1] - axis[place]))
    return (place, 1.0 - share), (place + 1, share)
