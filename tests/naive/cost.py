"""How long one iteration takes, in whole picoseconds, from a cost model's dictionary."""

from naive.requests import to_ps


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
    return duration
