"""JSON values of a file, one after another: lines, whole documents, or the elements of an array."""

import io
import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

import pyarrow as pa

from vecsched.errors import InputError

_CHUNK = 1 << 20  # characters
_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")


def documents(path: str) -> Iterator[Any]:
    """Yield the JSON values of a file; of an array, its elements.

    Only one value is in memory at a time, so that a data set of conversations may be larger.

    Raises:
        InputError: the file cannot be read, or the value of that number, from 0, is not JSON.
    """
    count = 0
    try:
        with io.TextIOWrapper(pa.input_stream(path), "utf-8-sig") as text:
            for value in _values(_Buffer(text)):
                yield value
                count += 1
    except json.JSONDecodeError as error:
        found = error.doc[error.pos : error.pos + 40]
        raise InputError(f"is not JSON: {error.msg}", source=path, row=count, value=found) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as JSON: {error}", source=path) from None


class _Buffer:
    """The text from the next value on, as far as it has been read."""

    def __init__(self, file: TextIO) -> None:
        self.file, self.text, self.position = file, "", 0

    def next_mark(self) -> str:
        """Return the next character that is no white space, and stay there; "" at the end."""
        while True:
            blanks = _BLANKS.match(self.text, self.position)
            self.position = blanks.end() if blanks else self.position
            if self.position < len(self.text):
                return self.text[self.position]
            if not self._read_on():
                return ""

    def skip_mark(self) -> None:
        """Step over the character that `next_mark` returned."""
        self.position += 1

    def value(self) -> Any:
        """Decode the next value and step over it."""
        while True:
            try:
                value, self.position = _DECODER.raw_decode(self.text, self.position)
                return value
            except json.JSONDecodeError:  # wrong, or not all of it is here yet
                if not self._read_on():
                    raise

    def _read_on(self) -> bool:
        """Append more of the file, at least as much as is waiting: retries stay linear in all."""
        rest = self.text[self.position :]
        more = self.file.read(max(_CHUNK, len(rest)))
        self.text, self.position = rest + more, 0
        return bool(more)


def _values(buffer: _Buffer) -> Iterator[Any]:
    while mark := buffer.next_mark():
        if mark == "[":
            buffer.skip_mark()
            yield from _elements(buffer)
        else:
            yield buffer.value()


def _elements(buffer: _Buffer) -> Iterator[Any]:
    if buffer.next_mark() == "]":
        buffer.skip_mark()
        return
    while True:
        yield buffer.value()
        mark = buffer.next_mark()
        if mark not in (",", "]"):
            raise json.JSONDecodeError("',' or ']' expected", buffer.text, buffer.position)
        buffer.skip_mark()
        if mark == "]":
            return
        buffer.next_mark()  # raw_decode does not skip white space
