"""ServeGen client pools: what is drawn from a made-up pool, and from the public ones."""

import csv
import json

import numpy as np
import pytest
from workload_files import refused, write

from sweeps.workloads import read_trace
from vecsched.errors import ConfigError, InputError

IDLE = "{start},0,0,,0,0"
LENGTHS = {"input_tokens": "{100: 0.25, 300: 0.75}", "output_tokens": "{7: 1.0}"}


def client(folder, number, windows, dataset=None):
    """Write a client; a window is its line's end: rate,cv,family,shape,scale; None: idle."""
    lines = [
        IDLE.format(start=600 * n) if line is None else f"{600 * n},{line}"
        for n, line in enumerate(windows)
    ]
    write(folder, "\n".join(lines), f"chunk-{number}-trace.csv")
    dataset = {"0": LENGTHS} if dataset is None else dataset
    write(folder, json.dumps(dataset, indent=2), f"chunk-{number}-dataset.json")
    return folder


def test_every_window_has_its_number_of_requests_wherever_its_file_is(tmp_path):
    # 0.05 * 600 = 30 requests, none, 0.1 * 600 = 60. The file's scales are of no consequence.
    folder = tmp_path / "pool"
    client(folder, 3, ["0.05,2,Gamma,0.25,1e9", None, "0.1,1.5,Weibull,0.7,1e-9"])
    for path in (folder, folder / "chunk-3-trace.csv", folder / "chunk-3-dataset.json"):
        trace = read_trace(path)
        assert len(trace) == 90
        assert trace.backward_steps == 0
        first = trace.arrival_s[:30]
        assert first[0] == 0
        assert first[-1] < 600
        # The clock begins at the first request, less than 600 s after that of the model.
        assert (trace.arrival_s[30:] > 600).all()
        assert trace.arrival_s[-1] < 1800
        assert set(trace.tenant) == {"chunk-3"}
        assert set(trace.prompt_tokens) == {100, 300}
        assert set(trace.output_tokens) == {7}


def test_clients_are_drawn_one_by_one(tmp_path):
    line = "0.05,2,Gamma,0.25,1"
    both = client(client(tmp_path / "both", 2, [line]), 10, [line])
    trace = read_trace(both)
    assert sorted(set(trace.tenant)) == ["chunk-10", "chunk-2"]
    alone = read_trace(client(tmp_path / "alone", 10, [line]))
    mine = trace.arrival_s[trace.tenant == "chunk-10"]
    # The same gaps, up to the rounding of two clocks' zeros.
    assert np.allclose(np.diff(mine), np.diff(alone.arrival_s), atol=1e-9)
    assert trace.prompt_tokens[trace.tenant == "chunk-10"].tolist() == alone.prompt_tokens.tolist()


def test_a_seed_fixes_everything(tmp_path):
    pool = client(tmp_path / "pool", 0, ["0.05,2,Gamma,0.25,1"] * 3)
    one, same, other = read_trace(pool), read_trace(pool, seed=0), read_trace(pool, seed=1)
    assert one.arrival_s.tobytes() == same.arrival_s.tobytes()
    assert one.arrival_s.tobytes() != other.arrival_s.tobytes()
    assert len(one) == len(other)


def test_rescaled_to_a_rate(tmp_path):
    # The model has 30 + 60 requests in 1,800 s; 0.5 a second are 900, of which a third come first.
    pool = client(tmp_path / "pool", 0, ["0.05,2,Gamma,0.25,1", None, "0.1,1,Gamma,1,1"])
    trace = read_trace(pool, rate_per_s=0.5)
    assert len(trace) == 900
    assert (trace.arrival_s < 600).sum() == 300
    # 0.0251 a second are 45.18 requests: 15.06 and 30.12, rounded up or down by chance.
    assert len(read_trace(pool, rate_per_s=0.0251)) in (45, 46, 47)


def test_a_window_draws_the_same_requests(tmp_path):
    pool = client(tmp_path / "pool", 0, ["0.05,2,Gamma,0.25,1", None, "0.1,1,Gamma,1,1"])
    whole, part = read_trace(pool), read_trace(pool, window_s=[1200, 1800])
    assert np.allclose(np.diff(whole.arrival_s[30:]), np.diff(part.arrival_s), atol=1e-9)
    assert part.arrival_s[0] == 0
    assert part.prompt_tokens.tolist() == whole.prompt_tokens[30:].tolist()
    # Half a window: about half of its requests, all within 300 s.
    half = read_trace(pool, window_s=[1200, 1500])
    assert 0 < len(half) < 60
    assert half.arrival_s[-1] < 300
    assert "no traffic from 600 to 1200 s" in str(refused(pool, window_s=[600, 1200]))
    assert "no traffic" in str(refused(pool, window_s=[600, 1200], rate_per_s=3))


@pytest.mark.parametrize(("family", "shape"), [("Gamma", 0.25), ("Weibull", 0.5)])
def test_gaps_have_the_shape_of_their_window(tmp_path, family, shape):
    # Gamma: CV = 1/sqrt(0.25) = 2. Weibull: CV^2 = G(5)/G(3)^2 - 1 = 24/4 - 1 = 5.
    cv = {"Gamma": 2.0, "Weibull": 5**0.5}[family]
    pool = client(tmp_path / "pool", 0, [f"100,{cv},{family},{shape},1"])
    gaps = np.diff(read_trace(pool).arrival_s)
    assert len(gaps) == 59_999
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)


def test_lengths_are_the_latest_that_are_not_empty(tmp_path):
    empty = {"input_tokens": "{}", "output_tokens": "{}"}
    late = {"input_tokens": "{5: 1.0}", "output_tokens": "{6: 1.0}"}
    line = "0.05,1,Gamma,1,1"
    pool = client(
        tmp_path / "pool",
        0,
        [line, line, line],
        {"0": LENGTHS, "600": empty, "1200": late},
    )
    trace = read_trace(pool)
    assert set(trace.output_tokens[:60]) == {7}  # the second window has those of the first
    assert set(trace.output_tokens[60:]) == {6}
    pool = client(tmp_path / "none", 0, [line], {"0": empty})
    error = refused_file(pool, "chunk-0-dataset.json")
    assert "has no lengths for traffic at 0 s" in str(error)


def test_reasoning_is_part_of_the_output(tmp_path):
    lengths = LENGTHS | {"reason_ratio": "{0.25: 0.5, 0.75: 0.5}"}
    pool = client(tmp_path / "pool", 0, ["0.05,1,Gamma,1,1"], {"0": lengths})
    assert set(read_trace(pool).output_tokens) == {7}


def test_multimodal_prompts_are_sums(tmp_path):
    lengths = {
        "text_tokens": "{90: 1.0}",
        "image_tokens": "{1000: 0.5, 2000: 0.5}",
        "image_count": "{0: 0.5, 2: 0.5}",
        "video_tokens": "{0: 1.0}",
        "video_count": "{0: 1.0}",
        "output_tokens": "{3: 1.0}",
    }
    pool = client(tmp_path / "pool", 0, ["1,1,Gamma,1,1"], {"0": lengths})
    # Text alone, or with two images of one or two thousand tokens each.
    assert set(read_trace(pool).prompt_tokens) == {90, 2090, 3090, 4090}


def refused_file(pool, name, **options):
    with pytest.raises(InputError) as caught:
        read_trace(pool, **options)
    assert caught.value.source == str(pool / name)
    return caught.value


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        ("0.05,1,Gamma,0,1", "shape", "needs a shape > 0"),
        ("0.05,1,,0,0", "family", "needs one of Gamma, Weibull"),
        ("0.05,1,Pareto,1,1", "family", "needs one of Gamma, Weibull"),
        ("-1,1,Gamma,1,1", "rate", "number >= 0"),
        ("fast,1,Gamma,1,1", "rate", "number >= 0"),
        ("inf,1,Gamma,1,1", "rate", "number >= 0"),
        ("0.05,1,Gamma,1", None, "has 5 cells, not 6"),
    ],
)
def test_bad_windows(tmp_path, line, field, words):
    pool = client(tmp_path / "pool", 0, [None, line])
    error = refused_file(pool, "chunk-0-trace.csv")
    assert (error.row, error.field) == (1, field)
    assert words in str(error)


@pytest.mark.parametrize(
    ("dataset", "field", "words"),
    [
        ({"0": {"input_tokens": "{5: 1.0}"}}, "0.output_tokens", "is missing"),
        ({"0": {"output_tokens": "{5: 1.0}"}}, "0.text_tokens", "is missing"),
        ({"0": LENGTHS | {"input_tokens": "{5: 'x'}"}}, "0.input_tokens", "text of a dictionary"),
        ({"0": LENGTHS | {"input_tokens": "[5]"}}, "0.input_tokens", "text of a dictionary"),
        ({"0": LENGTHS | {"input_tokens": "open('x')"}}, "0.input_tokens", "text of a dictionary"),
        ({"0": LENGTHS | {"input_tokens": "{1.5: 1.0}"}}, "0.input_tokens", "text of a dictionary"),
        ({"0": LENGTHS | {"input_tokens": {"5": 1.0}}}, "0.input_tokens", "text of a dictionary"),
        ([LENGTHS], None, "must be a JSON object of windows"),
        ({"noon": LENGTHS}, None, "must be a JSON object of windows"),
    ],
)
def test_bad_lengths(tmp_path, dataset, field, words):
    pool = client(tmp_path / "pool", 0, ["0.05,1,Gamma,1,1"], dataset)
    error = refused_file(pool, "chunk-0-dataset.json")
    assert error.field == field
    assert words in str(error)


def test_half_a_client(tmp_path):
    pool = client(tmp_path / "pool", 0, ["0.05,1,Gamma,1,1"])
    (pool / "chunk-0-dataset.json").unlink()
    assert "cannot be read: No such file" in str(refused_file(pool, "chunk-0-dataset.json"))
    write(pool, "", "chunk-0-trace.csv")
    assert "empty" in str(refused(pool / "chunk-0-trace.csv"))
    assert "empty" in str(refused_file(pool, "chunk-0-trace.csv"))
    assert "there is no client" in str(refused(tmp_path, "servegen"))
    write(pool, "600,0,0,,0,0\n0,0,0,,0,0\n", "chunk-0-trace.csv")
    assert "one after another" in str(refused_file(pool, "chunk-0-trace.csv"))


def test_impossible_options(tmp_path):
    pool = client(tmp_path / "pool", 0, ["0.05,1,Gamma,1,1"])
    with pytest.raises(ConfigError, match="seed must be a whole number"):
        read_trace(pool, seed=-1)
    with pytest.raises(ConfigError, match="rate_per_s must be a number > 0"):
        read_trace(pool, rate_per_s=0)


POOLS = {
    "language/m-large": 3,
    "language/m-small": 2,
    "reason/deepseek-r1": 5,
    "multimodal/mm-image": 2,
}


@pytest.mark.parametrize("pool", POOLS)
def test_public_pools_have_the_rates_of_their_windows(shared, pool):
    folder = shared / "data/traces/servegen" / pool
    trace = read_trace(folder)
    assert trace.prompt_tokens.min() > 0
    clients = sorted(folder.glob("*-trace.csv"))
    assert len(clients) == POOLS[pool]
    for path in clients:
        # The rate column is a count of requests over 600 s.
        rows = csv.reader(path.read_text().splitlines())
        expected = sum(round(600 * float(rate)) for _, rate, *_ in rows)
        assert (trace.tenant == path.name.removesuffix("-trace.csv")).sum() == expected
    if pool == "multimodal/mm-image":
        # Client 5: text of 92 tokens and one image of 1163 to 1196 on average.
        mean = trace.prompt_tokens[trace.tenant == "chunk-5"].mean()
        assert 1255 < mean < 1288


def test_public_client_with_outputs_of_one_token(shared):
    trace = read_trace(shared / "data/traces/servegen/language/m-small/chunk-42-trace.csv")
    assert set(trace.output_tokens) == {1}
