"""Synthetic traces: streams, distributions, presets; and the statistics by which traces compare."""

import math
from itertools import pairwise

import numpy as np
import pytest

from sweeps.workloads import PRESETS, SyntheticSpec, describe, generate
from sweeps.workloads.arrivals import ARRIVALS, Diurnal, Gamma, OnOff, Poisson, Weibull
from sweeps.workloads.lengths import LENGTHS, Empirical, Lognormal, Zipf
from vecsched import Trace
from vecsched.errors import ConfigError

SPEC = SyntheticSpec(
    requests=1000,
    rate_per_s=4.0,
    prompt=Lognormal(mean=1000, median=800),
    output=Lognormal(median=100, sigma=0.5, max=150),
    seed=7,
)


def columns(trace: Trace) -> list[bytes]:
    return [x.tobytes() for x in (trace.arrival_s, trace.prompt_tokens, trace.output_tokens)]


# Streams


def test_a_seed_fixes_everything():
    assert columns(generate(SPEC)) == columns(generate(SPEC))
    for ours, others in zip(
        columns(generate(SPEC)), columns(generate(SPEC.replace(seed=8))), strict=True
    ):
        assert ours != others


def test_streams_are_the_three_children_of_the_seed():
    trace = generate(SPEC)
    children = np.random.SeedSequence(7).spawn(3)
    gaps, prompts, outputs = (np.random.default_rng(child) for child in children)
    # mean / median = 1.25, so sigma = sqrt(2 ln 1.25).
    sigma = math.sqrt(2 * math.log(1.25))
    assert trace.arrival_s[0] == 0.0
    assert trace.arrival_s[1] == gaps.standard_exponential() / 4.0
    assert trace.prompt_tokens[0] == round(800 * math.exp(sigma * prompts.standard_normal()))
    assert trace.output_tokens[0] == min(
        150, round(100 * math.exp(0.5 * outputs.standard_normal()))
    )


def test_common_random_numbers():
    arrival, prompt, output = columns(generate(SPEC))
    double = generate(SPEC.replace(rate_per_s=8.0))
    assert columns(double)[1:] == [prompt, output]
    # Twice the rate halves every instant, exactly: a division by a power of two.
    assert (2 * double.arrival_s == generate(SPEC).arrival_s).all()
    assert columns(generate(SPEC.replace(arrivals=Gamma(cv=3))))[1:] == [prompt, output]
    assert columns(generate(SPEC.replace(prompt=SPEC.output)))[::2] == [arrival, output]


def test_a_longer_trace_begins_with_the_shorter():
    long, short = generate(SPEC), generate(SPEC.replace(requests=10))
    assert (long.arrival_s[:10] == short.arrival_s).all()
    assert (long.prompt_tokens[:10] == short.prompt_tokens).all()
    assert (long.output_tokens[:10] == short.output_tokens).all()


def test_one_request():
    assert generate(SPEC.replace(requests=1)).arrival_s.tolist() == [0.0]


# Distributions. Draws are seeded, so the tolerances hold always; they are about four standard
# errors of the estimate.


@pytest.mark.parametrize(
    ("process", "cv"),
    [
        (Poisson(), 1.0),
        (Gamma(cv=0.5), 0.5),
        (Gamma(cv=2.0), 2.0),
        # CV^2 = G(1 + 2/0.5) / G(1 + 1/0.5)^2 - 1 = 24/4 - 1 = 5.
        (Weibull(shape=0.5), math.sqrt(5)),
        (Weibull(cv=2.0), 2.0),
        (Weibull(cv=0.5), 0.5),
    ],
)
def test_arrival_processes_have_their_rate_and_cv(process, cv):
    n = 200_000
    gaps = np.diff(process.times(np.random.default_rng(3), n, 5.0))
    assert gaps.mean() == pytest.approx(1 / 5.0, rel=4 * cv / math.sqrt(n))
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.02)


def test_gamma_of_cv_1_is_poisson():
    # P(gap > mean) = 1/e for exponential gaps; standard error sqrt(0.37 * 0.63 / 1e5) = 0.0015.
    gaps = np.diff(Gamma(cv=1.0).times(np.random.default_rng(5), 100_001, 1.0))
    assert (gaps > 1).mean() == pytest.approx(math.exp(-1), abs=0.006)


def test_weibull_of_cv_or_shape_1_is_poisson():
    poisson = Poisson().times(np.random.default_rng(5), 1000, 2.0)
    shaped = Weibull(shape=1.0).times(np.random.default_rng(5), 1000, 2.0)
    assert (shaped == poisson).all()
    assert np.allclose(Weibull(cv=1.0).times(np.random.default_rng(5), 1000, 2.0), poisson)


def test_on_off_has_its_rate_in_the_mean_and_bursts():
    # 10 s on at 4 times 2.5 a second, 30 s off; 100,000 requests are about 1,000 cycles of 40 s.
    process = OnOff(on_s=10, off_s=30)
    times = process.times(np.random.default_rng(3), 100_000, 2.5)
    assert times[0] == 0
    assert (np.diff(times) >= 0).all()
    # Cycles vary like exponentials: a standard error of some 1/sqrt(1000) = 3 %.
    assert (len(times) - 1) / times[-1] == pytest.approx(2.5, rel=0.1)
    # Within bursts, the median gap is that of Poisson at 10 a second: ln 2 / 10.
    assert np.median(np.diff(times)) == pytest.approx(math.log(2) / 10, rel=0.02)
    # A request in 100 is followed by a silence: the chance of a burst's end before the next one
    # is 0.1 / (0.1 + 10), and half of the silences are longer than 30 ln 2 = 20.8 s.
    assert (np.diff(times) > 30 * math.log(2)).mean() == pytest.approx(0.0099 / 2, rel=0.15)


def test_on_off_with_a_low_rate_between_bursts():
    # 5 s each; a rate of 0.25 between bursts makes 1.6 and 0.4 of the mean.
    times = OnOff(on_s=5, off_s=5, off_rate=0.25).times(np.random.default_rng(3), 50_000, 4.0)
    assert np.diff(times).max() < 30  # ten mean gaps of 1 / 1.6 s, and not a phase without any
    assert (len(times) - 1) / times[-1] == pytest.approx(4.0, rel=0.05)
    # An off rate of 1 is Poisson, whatever the phases.
    gaps, _ = np.random.default_rng(3).spawn(2)
    poisson = np.cumsum(gaps.standard_exponential(9)) / 4.0
    same = OnOff(on_s=1, off_s=2, off_rate=1).times(np.random.default_rng(3), 10, 4.0)
    assert np.allclose(same[1:], poisson)


def test_diurnal_follows_its_cosine():
    # 40 days of 100 s at 20 a second: by tenths of the day, counts follow the integral of
    # 1 + 0.8 cos(2 pi (t - 25) / 100).
    process = Diurnal(amplitude=0.8, period_s=100, peak_s=25)
    times = process.times(np.random.default_rng(3), 80_000, 20.0)
    assert times[0] == 0
    assert times[-1] == pytest.approx(4000, rel=0.015)
    counts, edges = np.histogram(times % 100, bins=10, range=(0, 100))
    phase = 2 * np.pi * (edges - 25) / 100
    expected = np.diff(edges / 100 + 0.8 * np.sin(phase) / (2 * np.pi)) * len(times)
    assert np.allclose(counts, expected, atol=4 * np.sqrt(expected.max()))


def test_diurnal_begins_at_night_unless_told():
    times = Diurnal(amplitude=1).times(np.random.default_rng(3), 10_000, 10_000 / 86_400)
    by_quarter, _ = np.histogram(times, bins=4, range=(0, 86_400))
    # The integral of 1 - cos over the first quarter: 1/4 - 1/(2 pi) = 0.091; the next: 0.409.
    assert by_quarter[:2] / 10_000 == pytest.approx([0.091, 0.409], abs=0.02)
    flat = Diurnal(amplitude=0).times(np.random.default_rng(3), 100, 2.0)
    assert np.allclose(flat, Poisson().times(np.random.default_rng(3), 100, 2.0))


PROCESSES = [
    Poisson(),
    Gamma(cv=2),
    Weibull(cv=2),
    OnOff(on_s=0.5, off_s=2),
    OnOff(on_s=50, off_s=20, off_rate=0.1),
    Diurnal(amplitude=0.5, period_s=30),
]


@pytest.mark.parametrize("process", PROCESSES)
def test_longer_draws_begin_with_the_shorter(process):
    draws = [process.times(np.random.default_rng(9), count, 3.0) for count in (1, 2, 50, 5000)]
    for short, long in pairwise(draws):
        assert (long[: len(short)] == short).all()
    assert draws[-1][0] == 0
    assert (np.diff(draws[-1]) >= 0).all()


def test_every_process_and_distribution_is_tested():
    assert {type(process) for process in PROCESSES} == set(ARRIVALS.values())
    assert set(LENGTHS.values()) == {Lognormal, Zipf, Empirical}


@pytest.mark.parametrize(
    "lengths",
    [
        Lognormal(mean=1000, median=800),
        Lognormal(mean=1000, sigma=math.sqrt(2 * math.log(1.25))),
        Lognormal(median=800, sigma=math.sqrt(2 * math.log(1.25))),
    ],
)
def test_two_parameters_fix_a_lognormal(lengths):
    tokens = lengths.tokens(np.random.default_rng(1), 200_000)
    assert tokens.dtype == np.int64
    # Standard deviation 1000 sqrt(1.25^2 - 1) = 750, error of the mean 750 / sqrt(2e5) = 1.7.
    assert tokens.mean() == pytest.approx(1000, abs=7)
    assert np.median(tokens) == pytest.approx(800, abs=7)


def test_lognormal_bounds():
    assert set(Lognormal(median=5, sigma=0).tokens(np.random.default_rng(0), 9)) == {5}
    tokens = Lognormal(median=2, sigma=3, max=10).tokens(np.random.default_rng(0), 1000)
    assert (tokens.min(), tokens.max()) == (1, 10)


def test_zipf_by_its_probabilities():
    # 1, 1/2, 1/3, 1/4 for 1 to 4: of 25/12, the shares 0.48, 0.24, 0.16, 0.12.
    tokens = Zipf(exponent=1, max=4).tokens(np.random.default_rng(1), 100_000)
    assert tokens.dtype == np.int64
    shares = np.bincount(tokens, minlength=5) / 100_000
    assert shares == pytest.approx([0, 0.48, 0.24, 0.16, 0.12], abs=0.007)
    tokens = Zipf(exponent=300.0, min=1000, max=5000).tokens(np.random.default_rng(1), 1000)
    assert tokens.min() == 1000  # 2^-300 and less would not be zero, but 5000^-300 is
    assert set(Zipf(exponent=2, min=7, max=7).tokens(np.random.default_rng(1), 9)) == {7}


def test_empirical_lengths_have_their_shares():
    rng = np.random.default_rng(1)
    tokens = Empirical(values=[100, 5, 300], weights=[1, 0, 3]).tokens(rng, 40_000)
    assert set(tokens) == {100, 300}
    assert (tokens == 300).mean() == pytest.approx(0.75, abs=0.009)
    even = Empirical(values=(7, 7, 9)).tokens(rng, 30_000)
    assert (even == 7).mean() == pytest.approx(2 / 3, abs=0.011)


@pytest.mark.parametrize("lengths", [Zipf(exponent=1.1, max=500), Empirical(values=[3, 1, 2])])
def test_longer_lengths_begin_with_the_shorter(lengths):
    short = lengths.tokens(np.random.default_rng(4), 10)
    assert (lengths.tokens(np.random.default_rng(4), 1000)[:10] == short).all()


# Specifications


def test_from_mapping():
    values = {
        "requests": 1000,
        "rate_per_s": 4.0,
        "arrivals": {"process": "gamma", "cv": 2},
        "prompt": {"distribution": "lognormal", "mean": 1000, "median": 800},
        "output": {"distribution": "lognormal", "median": 100, "sigma": 0.5, "max": 150},
        "seed": 7,
    }
    assert SyntheticSpec.from_mapping(values) == SPEC.replace(arrivals=Gamma(cv=2))
    assert SyntheticSpec.from_mapping(values | {"arrivals": "poisson"}) == SPEC
    assert isinstance(values["arrivals"], dict)  # the input is as it was


def test_from_mapping_with_a_preset():
    preset = PRESETS["azure-conv-like"]
    assert SyntheticSpec.from_mapping({"preset": "azure-conv-like"}) == preset
    changed = SyntheticSpec.from_mapping({"preset": "azure-conv-like", "requests": 5, "seed": 3})
    assert changed == preset.replace(requests=5, seed=3)


COMPLETE = {"requests": 10, "rate_per_s": 1.0, "prompt": SPEC.prompt, "output": SPEC.output}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"request": 3}, "unknown parameter 'request'; did you mean 'requests'?"),
        ({"requests": 0}, "requests must be a whole number of at least 1, not 0"),
        ({"requests": 2.5}, "requests must be a whole number of at least 1, not 2.5"),
        ({"rate_per_s": 0}, "rate_per_s must be a number > 0, not 0"),
        ({"rate_per_s": "fast"}, "rate_per_s must be a number > 0, not 'fast'"),
        ({"rate_per_s": math.inf}, "not inf"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"seed": True}, "not True"),
        ({"arrivals": "poison"}, "unknown process 'poison'; did you mean 'poisson'?"),
        ({"arrivals": {"cv": 2}}, "unknown process 'None'; known: poisson, gamma"),
        ({"arrivals": {"process": "gamma"}}, "arrivals, gamma: parameter 'cv' is missing"),
        ({"arrivals": {"process": "gamma", "cv": -1}}, "arrivals, gamma: cv must be a number > 0"),
        ({"arrivals": {"process": "poisson", "cv": 1}}, "unknown parameter 'cv'; it has none"),
        ({"arrivals": 3}, "arrivals must be a process with its parameters, not 3"),
        ({"prompt": Poisson()}, "prompt must be a distribution"),
        ({"prompt": "lognormal"}, "exactly two of mean, median and sigma, not none"),
        (
            {"prompt": {"distribution": "lognormal", "mean": 5, "median": 4, "sigma": 1}},
            "not mean, median, sigma",
        ),
        (
            {"prompt": {"distribution": "lognormal", "mean": 5, "median": 6}},
            "a lognormal's mean is at least its median, but 5 < 6",
        ),
        (
            {"output": {"distribution": "lognormal", "mean": 5, "sigma": -1}},
            "output, lognormal: sigma must be a number >= 0, not -1",
        ),
        (
            {"output": {"distribution": "lognormal", "mean": 5, "sigma": 1, "max": 0}},
            "max must be a whole number of at least 1, not 0",
        ),
        ({"preset": "azure-conv"}, "did you mean 'azure-conv-like'?"),
        ({"arrivals": "weibull"}, "exactly one of shape and cv"),
        ({"arrivals": {"process": "weibull", "cv": 2, "shape": 1}}, "exactly one of shape and cv"),
        ({"arrivals": {"process": "weibull", "cv": 1e4}}, "cv must be a number from 0.0127"),
        (
            {"arrivals": {"process": "weibull", "shape": 0}},
            "shape must be a number from",
        ),
        ({"arrivals": {"process": "on_off", "on_s": 1}}, "parameter 'off_s' is missing"),
        ({"arrivals": {"process": "on_off", "on_s": 0, "off_s": 1}}, "on_s must be a number > 0"),
        (
            {"arrivals": {"process": "on_off", "on_s": 1, "off_s": 1, "off_rate": 2}},
            "off_rate must be a number from 0 to 1, not 2",
        ),
        ({"arrivals": {"process": "diurnal", "amplitude": 1.5}}, "amplitude must be a number from"),
        ({"arrivals": {"process": "diurnal", "amplitude": 1, "period_s": 0}}, "period_s must be"),
        ({"arrivals": {"process": "diurnal", "amplitude": 1, "peak_s": -1}}, "peak_s must be"),
        ({"prompt": {"distribution": "zipf", "exponent": 1, "max": 0}}, "max must be a whole"),
        (
            {"prompt": {"distribution": "zipf", "exponent": 1, "min": 5, "max": 4}},
            "max must be a whole number of at least 5, not 4",
        ),
        ({"prompt": {"distribution": "zipf", "exponent": 1, "max": 10**9}}, "at most 10000000"),
        ({"prompt": {"distribution": "empirical", "values": []}}, "values must be a list"),
        ({"prompt": {"distribution": "empirical", "values": [1, 0]}}, "each of values must be"),
        (
            {"prompt": {"distribution": "empirical", "values": [1, 2], "weights": [1]}},
            "weights must be as many as values, and not all 0",
        ),
        (
            {"prompt": {"distribution": "empirical", "values": [1], "weights": [-1]}},
            "each of weights must be a number >= 0",
        ),
    ],
)
def test_impossible_specifications(changes, words):
    with pytest.raises(ConfigError) as caught:
        SyntheticSpec.from_mapping(COMPLETE | changes)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["requests", "rate_per_s", "prompt", "output"])
def test_missing_parts(name):
    rest = {key: value for key, value in COMPLETE.items() if key != name}
    with pytest.raises(ConfigError, match=f"synthetic trace: parameter '{name}' is missing"):
        SyntheticSpec.from_mapping(rest)


# The preset


def test_azure_conv_like_is_near_the_published_statistics():
    spec = PRESETS["azure-conv-like"]
    figures = describe(generate(spec.replace(requests=400_000)))
    # Load and burstiness: within 1 %.
    assert figures["rate_per_s"] == pytest.approx(5.530, rel=0.01)
    assert figures["gap_cv"] == pytest.approx(1.09, rel=0.01)
    assert figures["prompt_tokens_mean"] == pytest.approx(1154.7, rel=0.01)
    assert figures["prompt_tokens_p50"] == pytest.approx(1020, rel=0.01)
    assert figures["output_tokens_mean"] == pytest.approx(211.1, rel=0.01)
    assert figures["output_tokens_p50"] == pytest.approx(129, rel=0.01)
    # Tails, which a lognormal cannot match as well: p99 of prompts 22 % short of 4142, that of
    # outputs at the cut instead of 601.
    assert figures["prompt_tokens_p99"] == pytest.approx(4142 * 0.784, rel=0.01)
    assert figures["prompt_tokens_max"] <= 14_050
    assert figures["output_tokens_p99"] == figures["output_tokens_max"] == 1000
    # As long as the original: sampling adds its share, all within 3 %.
    short = describe(generate(spec))
    assert short["requests"] == 19_366
    assert short["span_s"] == pytest.approx(3501.7, rel=0.03)
    assert short["output_tokens_mean"] == pytest.approx(211.1, rel=0.03)


# Statistics


def test_describe_by_hand():
    # In time order 0, 1, 1, 4: gaps 1, 0, 3 (mean 4/3, variance (1 + 0 + 9)/3 - 16/9 = 14/9);
    # counts in 1 s bins 1, 2, 0, 0, 1 (mean 4/5, variance 6/5 - 16/25 = 14/25).
    trace = Trace([4.0, 0.0, 1.0, 1.0], [0, 10, 20, 30], [1, 1, 1, 5], tenant=["a", "b", "a", "a"])
    figures = describe(trace)
    assert figures == {
        "requests": 4,
        "span_s": 4.0,
        "rate_per_s": 3 / 4,
        "gap_cv": pytest.approx(math.sqrt(14 / 9) / (4 / 3)),
        "dispersion": pytest.approx((14 / 25) / (4 / 5)),
        "prompt_tokens_mean": 15.0,
        "prompt_tokens_p50": 15.0,
        "prompt_tokens_p90": 27.0,
        "prompt_tokens_p99": pytest.approx(29.7),
        "prompt_tokens_max": 30,
        "prompt_tokens_zero": 1,
        "output_tokens_mean": 2.0,
        "output_tokens_p50": 1.0,
        "output_tokens_p90": pytest.approx(3.8),
        "output_tokens_p99": pytest.approx(4.88),
        "output_tokens_max": 5,
        "output_tokens_zero": 0,
        "ties": 1,
        "backward_steps": 1,
        "tenants": 2,
    }


def test_describe_without_gaps():
    figures = describe(Trace([3.0], [1], [1]))
    assert figures["span_s"] == 0.0
    assert math.isnan(figures["rate_per_s"])
    assert math.isnan(figures["gap_cv"])
    assert figures["tenants"] == 1
