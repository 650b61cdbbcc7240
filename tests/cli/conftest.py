"""Fixtures that run the command line in this process."""

import pytest


@pytest.fixture
def ok(vecsched):
    """Run a command that must succeed; returns stdout and stderr."""

    def run(*arguments):
        code, out, err = vecsched(*arguments)
        assert code == 0, err
        return out, err

    return run


@pytest.fixture
def refused(vecsched):
    """Run a command that must be refused before it does anything; returns its one message."""

    def run(*arguments):
        code, out, err = vecsched(*arguments)
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        return err

    return run


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,3\n5,4,1\n2,6,2\n")
    return path
