"""Conversations in the shape of ShareGPT: texts without times; lengths are estimated."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeps.workloads.build import trace_of
from sweeps.workloads.draw import OPTIONS, Drawn
from sweeps.workloads.parameters import check_positive
from sweeps.workloads.source import Format, Source
from vecsched import Trace
from vecsched.errors import InputError

# About right for English prose in vocabularies of 100,000 and more.
CHARACTERS_PER_TOKEN = 4.0
_USERS = ("human", "user")
_ASSISTANTS = ("gpt", "assistant", "chatgpt", "bing", "bard", "model")


def recognises(source: Source) -> bool:
    """Tell by the key that holds the turns."""
    return source.is_json and '"conversations"' in source.text


def read(
    source: Source,
    *,
    characters_per_token: float = CHARACTERS_PER_TOKEN,
    rate_per_s: float | None = None,
    arrivals: str | Mapping[str, Any] = "poisson",
    seed: int = 0,
) -> Trace:
    """Read conversations, one request each: the first answer to a user, and all that precedes it.

    Tokens are estimated from the number of characters, rounded up. A conversation without such an
    answer stays in the trace, as a request without output; one without turns has no prompt either.
    A request's id is the conversation's.

    Args:
        source: a JSON array of {"id": .., "conversations": [{"from": .., "value": ..}, ..]}, or one
            such object a line.
        characters_per_token: how to estimate tokens.
        rate_per_s: draw arrivals at this rate; needed.
        arrivals: the process to draw them; see `sweeps.workloads.draw.Drawn`.
        seed: of the process.

    Raises:
        InputError: naming file, row and field; a row is a conversation.
        ConfigError: the arrival process is impossible.
    """
    check_positive("characters_per_token", characters_per_token)
    drawn = Drawn(rate_per_s, arrivals, seed)
    drawn.is_wanted(source, has_times=False)  # refuses before the long read, not after
    ids, prompts, outputs = [], [], []
    for row, conversation in enumerate(source.documents()):
        prompt, output = _characters(source, row, conversation)
        ids.append(conversation.get("id", row))
        prompts.append(math.ceil(prompt / characters_per_token))
        outputs.append(math.ceil(output / characters_per_token))
    columns = {
        "arrival_s": drawn.times(source, len(ids)),
        "prompt_tokens": np.array(prompts, np.int64),
        "output_tokens": np.array(outputs, np.int64),
        "id": np.array(ids, object),
    }
    return trace_of(source, columns, {})


def _characters(source: Source, row: int, conversation: Mapping[str, Any]) -> tuple[int, int]:
    """Return the length of the first answer to a user, and of all that stands before it."""
    before, asked = 0, False
    for turn in _turns(source, row, conversation):
        if asked and turn["from"] in _ASSISTANTS:
            return before, len(turn["value"])
        asked = asked or turn["from"] in _USERS
        before += len(turn["value"])
    return before, 0


def _turns(source: Source, row: int, conversation: Mapping[str, Any]) -> list[dict[str, str]]:
    turns: Any = conversation.get("conversations")
    texts = isinstance(turns, list) and all(
        isinstance(turn, dict) and all(isinstance(turn.get(key), str) for key in ("from", "value"))
        for turn in turns
    )
    if not texts:
        raise InputError(
            'is not a list of turns, each {"from": text, "value": text}',
            source=source.path,
            row=row,
            field="conversations",
        )
    return turns


FORMAT = Format(
    "ShareGPT-shaped JSON: id, conversations of {from, value}; needs an arrival process",
    recognises,
    read,
    options=("characters_per_token", *OPTIONS),
)
