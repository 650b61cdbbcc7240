"""Order statistics and sums that are found without listing or sorting what they are of."""

import numpy as np
import pytest

from vecsched._jit import JIT_ENABLED
from vecsched.kernels.accounting import (
    BLOCKED_PS,
    BUSY_PS,
    LONGEST_GAP_PS,
    PRODUCTS,
    RUN_GAPS,
    RUN_TOKENS,
    SHORTEST_GAP_PS,
    SUMS,
    account,
    products_as_int,
)
from vecsched.kernels.engine import NOT_BLOCKED, SLOT
from vecsched.kernels.gaps import GAP_BUCKETS, GapScratch, select_gaps
from vecsched.kernels.record import (
    BLOCK_REASON,
    FIRST_PS,
    ITERATIONS,
    KV_HELD,
    LINE_SIZE,
    SLOTS_USED,
    STEADY_DECODES,
    STEP_PS,
    TOKENS,
)
from vecsched.quantiles import SelectionScratch, ascending, quantiles_of


def samples():
    draw = np.random.default_rng(2)
    n = 20_000 if JIT_ENABLED else 1500
    for tiny in range(1, 8):
        yield draw.random(tiny)
    yield np.zeros(n)
    yield np.repeat(draw.random(3), n // 3)
    yield np.sort(draw.random(n))
    yield np.sort(draw.random(n))[::-1].copy()
    yield draw.exponential(1e-3, n)
    yield draw.lognormal(0.0, 8.0, n)  # over more than sixty powers of two
    yield np.append(draw.random(n) * 1e-9, [1e9, 1e300])  # nearly all in one bucket
    yield np.append(np.full(n, 0.25), draw.random(100))
    yield draw.integers(0, 50, n) / 8


def test_quantiles_are_numpys():
    percents = [0, 1, 50, 90, 95, 99, 100]
    for values in samples():
        before = values.copy()
        scratch = SelectionScratch.for_size(len(values))
        ours = quantiles_of(values, [percent / 100 for percent in percents], scratch)
        assert ours == np.percentile(values, percents, method="linear").tolist()
        assert np.array_equal(values, before)


def test_sorting():
    for values in samples():
        scratch = SelectionScratch.for_size(len(values) + 5)
        assert np.array_equal(ascending(values, scratch), np.sort(values))


# What a record holds, without listing it.


def lines_of(stretches):
    """A record's lines from (first, step, iterations, steady decodes)."""
    lines = np.zeros((len(stretches), LINE_SIZE), np.int64)
    lines[:, [FIRST_PS, STEP_PS, ITERATIONS, STEADY_DECODES]] = stretches
    lines[:, BLOCK_REASON] = NOT_BLOCKED
    return lines


def listed_gaps(stretches, lone_gaps):
    gaps = [ps for _, ps, tokens in lone_gaps for _ in range(tokens)]
    for first, step, iterations, steady in stretches:
        gaps += [first + k * step for k in range(iterations) for _ in range(steady)]
    return sorted(gaps)


def random_record(seed):
    draw = np.random.default_rng(seed)
    largest = 10 ** int(draw.integers(1, 13))
    stretches = [
        (
            int(draw.integers(largest)),
            int(draw.integers(0, 1 + largest // 50)) * int(draw.integers(2)),
            int(draw.integers(1, 40)),
            int(draw.integers(0, 5)),
        )
        for _ in range(draw.integers(1, 12))
    ]
    lone = [(0, int(draw.integers(3 * largest)), 1) for _ in range(draw.integers(0, 9))]
    return [*stretches, (largest, 0, 1, 1)], lone


@pytest.mark.parametrize("seed", range(60))
def test_gap_selection(seed):
    stretches, lone = random_record(seed)
    gaps = listed_gaps(stretches, lone)
    room = len(stretches) + len(lone)
    scratch = GapScratch(
        np.empty((room, 4), np.int64),
        np.empty((room, 4), np.int64),
        np.empty(GAP_BUCKETS, np.int64),
        np.empty(GAP_BUCKETS, np.int64),
    )
    lone_gaps = np.array(lone, np.int64).reshape(-1, 3)
    places = sorted({0, len(gaps) - 1, *np.random.default_rng(seed).integers(len(gaps), size=20)})
    chosen = np.array(places, np.int64)
    select_gaps(lines_of(stretches), lone_gaps, chosen, (gaps[0], gaps[-1]), scratch)
    assert chosen.tolist() == [gaps[place] for place in places]


def test_sums_over_a_record():
    """Also where a sum of something x time outgrows 64 bits."""
    stretches = [(3, 2, 4, 0), (2**58, 0, 3, 2), (5, 1, 10, 1)]
    lone = [(7, 2, 1), (8, 6, 1)]
    lines = lines_of(stretches)
    lines[:, [SLOTS_USED, KV_HELD, TOKENS]] = [(5, 0, 3), (250, 90_000, 2), (6, 1, 1)]
    lines[1, BLOCK_REASON] = SLOT
    sums, products = np.zeros(SUMS, np.int64), np.zeros((PRODUCTS, 2), np.int64)
    account(lines, np.array(lone), sums, products)
    # 4 x 3 + 2 x 6 = 24; 3 x 2^58; 10 x 5 + 45 = 95
    times = [24, 3 * 2**58, 95]
    assert sums[BUSY_PS] == sum(times)
    assert sums[BLOCKED_PS + SLOT] == times[1]
    assert sums[RUN_TOKENS] == 4 * 3 + 3 * 2 + 10 * 1
    assert sums[RUN_GAPS] == 3 * 2 + 10 + 2
    gaps = listed_gaps(stretches, lone)
    assert (sums[SHORTEST_GAP_PS], sums[LONGEST_GAP_PS]) == (gaps[0], gaps[-1])
    amounts = ((5, 250, 6), (0, 90_000, 1), (3, 2, 1))
    assert products_as_int(products) == [
        sum(amount * time for amount, time in zip(row, times, strict=True)) for row in amounts
    ]
