"""Small files for the tests of trace readers."""

import json
from pathlib import Path
from typing import Any

import pytest

from sweeps.workloads import read_trace
from vecsched.errors import InputError


def write(folder: Path, content: str | bytes, name: str = "trace.csv") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def jsonl(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def refused(path: Path, format: str = "auto", **options: Any) -> InputError:
    """Return the error of reading a file, whose source must be the file."""
    with pytest.raises(InputError) as caught:
        read_trace(path, format, **options)
    assert caught.value.source == str(path)
    return caught.value
