"""ServeGen client pools (Alibaba): a model of arrivals and lengths, from which requests are drawn.

A client is two files, `chunk-7-trace.csv` (rate and burstiness in windows of ten minutes) and
`chunk-7-dataset.json` (distributions of lengths in windows of six hours). Published with Xiang et
al., "ServeGen: Workload characterization and generation of large language model serving in
production", 2025, at https://github.com/alibaba/ServeGen.
"""

import os
import re
from dataclasses import replace

import numpy as np

from sweeps.workloads.build import trace_of
from sweeps.workloads.formats.servegen_client import GAPS, Client, Interval, read_client
from sweeps.workloads.parameters import check_positive, check_whole
from sweeps.workloads.source import Format, Source, Window
from vecsched import Trace
from vecsched.errors import InputError

_FILE = re.compile(r"chunk-(\d+)-(trace\.csv|dataset\.json)")


def recognises(source: Source) -> bool:
    """Tell by the file's name, or by the names in the folder."""
    return bool(_clients(source))


def read(source: Source, *, seed: int = 0, rate_per_s: float | None = None) -> Trace:
    """Draw the requests of a pool of clients; a tenant is a client.

    In every window, as many requests arrive as its rate says. Their gaps have the family and the
    shape of the window, and are stretched to fill it: the scale in the file does not agree with the
    rate. Lengths come from the latest distributions at or before the window that are not empty; the
    parts of a multimodal prompt are added up. Every window of every client has a seed of its own,
    so part of a pool, or of the time (`window_s` counts from the model's start), draws the same
    requests.

    Args:
        source: a folder of clients, or one file of a client.
        seed: >= 0.
        rate_per_s: mean rate of all clients together over the time drawn; None: what the model has.

    Raises:
        InputError: naming file, row, field and value; also if there is no traffic.
        ConfigError: seed or rate is impossible.
    """
    check_whole("seed", seed, least=0)
    numbers = _clients(source)
    if not numbers:
        raise InputError(
            "there is no client: files are called chunk-7-trace.csv and chunk-7-dataset.json",
            source=source.path,
        )
    folder = source.path if source.kind == "folder" else os.path.dirname(source.path)
    clients = [read_client(folder, number) for number in numbers]
    span = source.window or Window(0.0, max(client.stop_s for client in clients))
    factor = 1.0
    if rate_per_s is not None:
        check_positive("rate_per_s", rate_per_s)
        modelled = sum(each.requests_within(span.start_s, span.stop_s) for each in clients)
        factor = rate_per_s * (span.stop_s - span.start_s) / modelled if modelled else 1.0
    arrivals, prompts, outputs, owners = (
        np.concatenate(parts)
        for parts in zip(*(_draw(client, span, seed, factor) for client in clients), strict=True)
    )
    if len(arrivals) == 0:
        raise InputError(
            f"there is no traffic from {span.start_s:g} to {span.stop_s:g} s", source=source.path
        )
    order = np.argsort(arrivals, kind="stable")
    columns = {
        "arrival_s": arrivals[order],
        "prompt_tokens": prompts[order],
        "output_tokens": outputs[order],
        "tenant": owners[order],
    }
    return trace_of(replace(source, window=None), columns, {})


def _clients(source: Source) -> list[int]:
    """Return the numbers of the clients whose files are there."""
    names = source.files if source.kind == "folder" else [os.path.basename(source.path)]
    return sorted({int(match[1]) for match in map(_FILE.fullmatch, names) if match})


def _draw(client: Client, span: Window, seed: int, factor: float) -> tuple[np.ndarray, ...]:
    """Draw arrivals, prompts, outputs and labels of a client's requests in a span of time."""
    parts = [_draw_interval(client, each, seed, factor) for each in client.within(*span)]
    nothing = (np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
    arrivals, prompts, outputs = map(np.concatenate, zip(nothing, *parts, strict=True))
    inside = (span.start_s <= arrivals) & (arrivals < span.stop_s)
    labels = np.full(inside.sum(), f"chunk-{client.number}", object)
    return arrivals[inside], prompts[inside], outputs[inside], labels


def _draw_interval(
    client: Client, interval: Interval, seed: int, factor: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw arrivals, prompts and outputs of one of a client's windows."""
    key = (client.number, interval.number)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    length = interval.stop_s - interval.start_s
    # A fraction of a request is one, or none, by chance.
    count = int(interval.rate_per_s * length * factor + rng.random())
    reached = np.cumsum(GAPS[interval.family](rng, interval.shape, count + 1))
    # Gaps that are all too small for a double fill nothing: the requests come at once.
    arrivals = interval.start_s + length * (reached[:-1] / (reached[-1] or 1.0))
    lengths = client.lengths_at(interval.start_s)
    return arrivals, lengths.prompts(rng, count), lengths.outputs(rng, count)


FORMAT = Format(
    "ServeGen client pool: a folder of chunk-N-trace.csv and chunk-N-dataset.json, or one of them; "
    "requests are drawn",
    recognises,
    read,
    options=("seed", "rate_per_s"),
)
