"""Result files of `vllm bench serve --save-result --save-detailed`: the requests of a real run."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeps.workloads.build import trace_of
from sweeps.workloads.convert import Cells, listed_numbers
from sweeps.workloads.draw import OPTIONS, Drawn
from sweeps.workloads.source import Format, Source
from vecsched import Trace
from vecsched.errors import InputError

NAMES = {
    "arrival_s": "start_times",
    "prompt_tokens": "input_lens",
    "output_tokens": "output_lens",
}


def recognises(source: Source) -> bool:
    """Tell by keys near the start of every result, summaries included, which `read` refuses."""
    return source.is_json and all(key in source.text for key in ('"num_prompts"', '"completed"'))


def read(
    source: Source,
    *,
    run: int | None = None,
    rate_per_s: float | None = None,
    arrivals: str | Mapping[str, Any] = "poisson",
    seed: int = 0,
) -> Trace:
    """Read the requests of a benchmark run, to replay them when it sent them.

    Failed requests, which have no output, stay in the trace.

    Args:
        source: one or, as `--append-result` makes them, several JSON objects.
        run: which of several, from 0; None: there must be one.
        rate_per_s: draw arrivals at this rate, for files without start times, as older versions of
            vLLM wrote them; those in the file are passed over.
        arrivals: the process to draw them; see `sweeps.workloads.draw.Drawn`.
        seed: of the process.

    Raises:
        InputError: naming file, row, field and value; also if the file is a summary only.
        ConfigError: the arrival process is impossible.
    """
    result = _choose(source, run)
    columns = {
        ours: _column(source, theirs, result[theirs])
        for ours, theirs in NAMES.items()
        if theirs in result
    }
    for name in ("prompt_tokens", "output_tokens"):
        if name not in columns:
            raise InputError(
                "there is nothing about single requests: run the benchmark with --save-detailed",
                source=source.path,
                field=NAMES[name],
            )
    requests = len(columns["prompt_tokens"])
    for name, column in columns.items():
        if len(column) != requests:
            raise InputError(
                f"has {len(column)} entries, but {NAMES['prompt_tokens']} has {requests}",
                source=source.path,
                field=NAMES[name],
            )
    drawn = Drawn(rate_per_s, arrivals, seed)
    if drawn.is_wanted(source, has_times="arrival_s" in columns):
        columns["arrival_s"] = drawn.times(source, requests)
    return trace_of(source, columns, NAMES)


def _column(source: Source, field: str, values: Any) -> np.ndarray:
    if not isinstance(values, list):  # --metadata can put a text there
        raise InputError("is not a list", source=source.path, field=field, value=values)
    return listed_numbers(values, Cells(source.path, field, 0))


def _choose(source: Source, run: int | None) -> dict[str, Any]:
    results = list(source.documents())
    if run is None and len(results) == 1:
        return results[0]
    if run is None or not 0 <= run < len(results):
        raise InputError(
            f"there are {len(results)} results in the file: name one by run=0 to "
            f"run={len(results) - 1}",
            source=source.path,
            field="run",
            value=run,
        )
    return results[run]


FORMAT = Format(
    "vLLM bench serve JSON with --save-detailed: input_lens, output_lens, start_times (s)",
    recognises,
    read,
    options=("run", *OPTIONS),
)
