"""Fixtures that several test modules share."""

import os
from pathlib import Path

import pytest

from sweeps.cli import main

SHARED_FOLDER = Path(os.environ.get("VECSCHED_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of conformance vectors and public data that lies beside the repository in CI.

    Without it the tests that need it are skipped, or fail where VECSCHED_REQUIRE_SHARED=1 says that
    it must be there.
    """
    if SHARED_FOLDER.is_dir():
        return SHARED_FOLDER
    missing = f"conformance data not found at {SHARED_FOLDER} (set VECSCHED_SHARED)"
    if os.environ.get("VECSCHED_REQUIRE_SHARED") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture
def vecsched(capsys):
    """Run a command in this process; returns exit code, stdout and stderr."""

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return run
