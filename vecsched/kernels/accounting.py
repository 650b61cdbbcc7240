"""Where the time went: sums over the lines of a record."""

import numpy as np

from vecsched._jit import entry_point, kernel
from vecsched.kernels.engine import NOT_BLOCKED
from vecsched.kernels.record import (
    BLOCK_REASON,
    BLOCKED_ROW,
    FIRST_PS,
    ITERATIONS,
    KV_HELD,
    SLOTS_USED,
    STEADY_DECODES,
    STEP_PS,
    TOKENS,
)
from vecsched.kernels.stretch import stretch_ps

# Sums over iterations. Those of something x time outgrow int64, so each is kept in two words.
(
    RUN_ITERATIONS,
    RUN_TOKENS,
    RUN_SLOTS,
    RUN_GAPS,  # tokens that came one iteration after the one before
    SHORTEST_GAP_PS,
    LONGEST_GAP_PS,
    BUSY_PS,
    BLOCKED_PS,  # three places, by reason
) = range(8)
SUMS = BLOCKED_PS + 3
SLOT_TIME, KV_TIME, TOKEN_TIME, PRODUCTS = range(4)

WORD_BITS = 20
_LOW = (1 << WORD_BITS) - 1


def products_as_int(products: np.ndarray) -> list[int]:
    """Join the two words of each sum: [sum of x times ps] as Python integers."""
    return [(int(high) << WORD_BITS) + int(low) for high, low in products]


@entry_point
def account(lines, lone_gaps, sums, products):
    """Sum up a record into `sums` (SUMS,) and `products` (PRODUCTS, 2), zeros at first."""
    shortest, longest = 2**62, 0
    for line in lines:
        iterations = line[ITERATIONS]
        duration = stretch_ps(iterations, line[FIRST_PS], line[STEP_PS])
        sums[RUN_ITERATIONS] += iterations
        sums[RUN_TOKENS] += iterations * line[TOKENS]
        sums[RUN_SLOTS] += iterations * line[SLOTS_USED]
        sums[BUSY_PS] += duration
        if line[BLOCK_REASON] != NOT_BLOCKED:
            sums[BLOCKED_PS + line[BLOCK_REASON]] += duration
        if line[STEADY_DECODES] > 0:
            sums[RUN_GAPS] += iterations * line[STEADY_DECODES]
            shortest = min(shortest, line[FIRST_PS])
            longest = max(longest, line[FIRST_PS] + line[STEP_PS] * (iterations - 1))
        add_product(products[SLOT_TIME], line[SLOTS_USED], duration)
        add_product(products[KV_TIME], line[KV_HELD], duration)
        add_product(products[TOKEN_TIME], line[TOKENS], duration)
    for gap in lone_gaps:
        sums[RUN_GAPS] += gap[2]
        shortest = min(shortest, gap[1])
        longest = max(longest, gap[1])
    sums[SHORTEST_GAP_PS] = shortest
    sums[LONGEST_GAP_PS] = longest


@kernel
def add_product(total, amount, duration):
    """Add amount * duration to a sum of two words."""
    total[0] += amount * (duration >> WORD_BITS)
    total[1] += amount * (duration & _LOW)


@entry_point
def charge_blocked_heads(lines, blocked_ps):
    """Charge each stretch to the blocked head of its queue: blocked_ps (reasons, n)."""
    for line in lines:
        if line[BLOCK_REASON] != NOT_BLOCKED:
            duration = stretch_ps(line[ITERATIONS], line[FIRST_PS], line[STEP_PS])
            blocked_ps[line[BLOCK_REASON], line[BLOCKED_ROW]] += duration
