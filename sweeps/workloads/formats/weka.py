"""Sessions of coding agents, "weka" format: a JSON document a session, agents nested in it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sweeps.workloads.build import trace_of
from sweeps.workloads.convert import Cells, listed_numbers
from sweeps.workloads.draw import OPTIONS, Drawn
from sweeps.workloads.prefix import apart, concatenate, listed_ids
from sweeps.workloads.source import Format, Source, inspect
from vecsched import Trace
from vecsched.errors import InputError

NAMES = {
    "arrival_s": "t",
    "prompt_tokens": "in",
    "output_tokens": "out",
    "prefix_ids": "hash_ids",
}
BLOCK_SIZE = 64
LOCAL = "local"
_MARK = '"hash_id_scope"'


class Session(NamedTuple):
    """One session: whether its prefix ids are its own, their tokens, and its requests' columns.

    Instants are on its own clock.
    """

    is_local: bool
    block_tokens: int
    columns: dict[str, Any]


class Request(NamedTuple):
    """A request found in a session: its place, its instant, and the object that describes it."""

    place: str
    t: float
    fields: Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Tell by a key of every session; of a folder, by its first JSON file."""
    if source.kind == "folder":
        files = _files(source)
        return bool(files) and _MARK in inspect(files[0]).text
    return source.is_json and _MARK in source.text


def read(
    source: Source,
    *,
    rate_per_s: float | None = None,
    arrivals: str | Mapping[str, Any] = "poisson",
    seed: int = 0,
) -> Trace:
    """Read sessions, to replay every request when it was sent (open loop).

    A tenant is a session. The id of a request is the session's with its place in it: `trace_7/3`,
    or, inside the agent that stands at place 3, `trace_7/3.0`. Requests that were stopped or have
    no output stay in the trace. `hash_ids`, one for each full block of the prompt, become the
    trace's prefix ids; those that are local to their session are renumbered, so that no two
    sessions share any.

    Args:
        source: a file with one or several sessions, or a folder of such files.
        rate_per_s: sessions that start in a second; needed if there are several, as each has a
            clock of its own.
        arrivals: the process of their starts; see `sweeps.workloads.draw.Drawn`.
        seed: of the process.

    Raises:
        InputError: naming file, row, field and value; a row is a request, counted from the file's
            first.
        ConfigError: the arrival process is impossible.
    """
    files = _files(source) if source.kind == "folder" else [source.path]
    sessions = [session for path in files for session in _sessions(path)]
    if not sessions:
        raise InputError("there are no sessions", source=source.path)
    drawn = Drawn(rate_per_s, arrivals, seed)
    starts = np.zeros(len(sessions))
    if len(sessions) > 1 and rate_per_s is None:
        raise InputError(
            f"there are {len(sessions)} sessions, each with a clock of its own: give rate_per_s, "
            "sessions a second, to start them",
            source=source.path,
        )
    if drawn.is_wanted(source, has_times=True):
        starts = drawn.times(source, len(sessions))
    columns = {
        name: concatenate([each.columns[name] for each in sessions]) for name in sessions[0].columns
    }
    counts = [len(each.columns["id"]) for each in sessions]
    columns["arrival_s"] = np.repeat(starts, counts) + columns["arrival_s"]
    if len(sessions) > 1:
        # Those of the sessions that have a scope of their own; all others share one, number 0.
        scopes = [number if each.is_local else 0 for number, each in enumerate(sessions, 1)]
        columns["prefix_ids"] = apart(columns["prefix_ids"], np.repeat(scopes, counts))
    return trace_of(source, columns, NAMES, block_tokens=_block_tokens(source, sessions))


def _block_tokens(source: Source, sessions: Sequence[Session]) -> int:
    sizes = {each.block_tokens for each in sessions}
    if len(sizes) > 1:
        raise InputError(
            f"the sessions' blocks have different sizes ({', '.join(map(str, sorted(sizes)))}): "
            "read them apart",
            source=source.path,
            field="block_size",
        )
    (size,) = sizes
    return size


def _files(source: Source) -> list[str]:
    """Return the JSON files of a folder."""
    names = [name for name in source.files if Path(name).suffix in (".json", ".jsonl")]
    return [os.path.join(source.path, name) for name in names]


def _sessions(path: str) -> list[Session]:
    sessions: list[Session] = []
    row = 0
    for document in inspect(path).documents():
        label = str(document.get("id", Path(path).stem))
        found: list[Request] = []
        _collect(Cells(path, "requests", row), document.get("requests"), "", 0.0, found)
        sessions.append(_session(Cells(path, "", row), document, label, found))
        row += len(found)
    return sessions


def _collect(cells: Cells, requests: Any, place: str, origin: float, found: list[Request]) -> None:
    """Append a list's requests, those of nested agents in the place of the agent."""
    if not isinstance(requests, list):
        raise cells.error("is not a list of requests", len(found), requests)
    for number, request in enumerate(requests):
        if not isinstance(request, Mapping):
            raise cells.error("is not a JSON object", len(found), request)
        here, t = f"{place}{number}", _time(cells, request, len(found))
        if request.get("type") != "subagent":
            found.append(Request(here, origin + t, request))
            continue
        nested = request.get("requests")
        # An agent's clock may restart at its own 0, or be the session's: both are in circulation.
        # A clock that restarts begins before the agent does.
        restarts = _restarts(nested, t)
        _collect(cells, nested, f"{here}.", origin + t if restarts else origin, found)


def _time(cells: Cells, request: Mapping[str, Any], row: int) -> float:
    cells = Cells(cells.source, NAMES["arrival_s"], cells.first_row + row)
    return float(listed_numbers([request.get(cells.field)], cells)[0])


def _restarts(nested: Any, start: float) -> bool:
    times = [each.get("t") for each in nested if isinstance(each, Mapping)] if nested else []
    return any(isinstance(t, int | float) and t < start for t in times)


def _session(
    cells: Cells, document: Mapping[str, Any], label: str, found: Sequence[Request]
) -> Session:
    prompts, outputs = (
        listed_numbers([each.fields.get(name) for each in found], cells._replace(field=name))
        for name in (NAMES["prompt_tokens"], NAMES["output_tokens"])
    )
    block_tokens = document.get("block_size", BLOCK_SIZE)
    if type(block_tokens) is not int or block_tokens < 1:
        problem = "must be a whole number of tokens"
        raise InputError(problem, source=cells.source, field="block_size", value=block_tokens)
    ids = listed_ids(
        [each.fields.get(NAMES["prefix_ids"]) for each in found],
        cells._replace(field=NAMES["prefix_ids"]),
    )
    columns = {
        "arrival_s": np.array([each.t for each in found], np.float64),
        "prompt_tokens": prompts,
        "output_tokens": outputs,
        "tenant": np.full(len(found), label, object),
        "id": np.array([f"{label}/{each.place}" for each in found], object),
        "prefix_ids": ids,
    }
    return Session(document.get("hash_id_scope", LOCAL) == LOCAL, block_tokens, columns)


FORMAT = Format(
    'Agent sessions ("weka"), a JSON document each or a folder of them: t (s), in, out, hash_ids, '
    "nested subagents",
    recognises,
    read,
    options=OPTIONS,
)
