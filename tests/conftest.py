"""Fixtures that several test modules share."""

import os
from pathlib import Path

import pytest

SHARED_FOLDER = Path(os.environ.get("VECSCHED_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of conformance vectors and public data that lies beside the repository in CI."""
    if not SHARED_FOLDER.is_dir():
        pytest.skip(f"conformance data not found at {SHARED_FOLDER} (set VECSCHED_SHARED)")
    return SHARED_FOLDER
