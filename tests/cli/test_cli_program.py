"""The program itself: help, version, bad usage, errors, pipes."""

import subprocess
import sys

import pytest

from sweeps.cli import COMMANDS
from vecsched import __version__

CODE = "import sys; from sweeps.cli import main; sys.argv[0] = 'vecsched'; main()"


def test_help_lists_the_commands_and_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from sweeps.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as left:\n    assert left.code == 0\n"
        "print({'numba', 'numpy', 'pandas', 'pydantic'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *help_text, heavy = done.stdout.splitlines()
    assert heavy == "set()"
    assert all(any(name in line for line in help_text) for name in COMMANDS)


def test_version(ok):
    assert ok("--version")[0] == f"vecsched {__version__}\n"


@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS], ["trace", "describe"]])
def test_every_command_has_help(ok, command):
    out, _ = ok(*command, "--help")
    assert " ".join(["Usage: vecsched", *command]) in out
    if command not in ([], ["trace"]):
        assert "--json" in out
        assert "--debug" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frontir"], "Did you mean 'frontier'?"),
        (["sweep", "--worker", "2"], "--workers"),
        (["trace", "describe"], "Missing argument 'FILE'"),
        (["simulate", "--max-batch-size", "many"], "'--max-batch-size'"),
        (["sweep", "-o", "out.csv"], "out.csv must end in .parquet, or be a folder"),
        (["simulate", "-o", "out.txt"], "out.txt must end in .parquet or .csv"),
    ],
)
def test_bad_usage(refused, arguments, message):
    assert message in refused(*arguments)


def test_debug_shows_the_traceback(vecsched):
    code, out, err = vecsched("trace", "describe", "nowhere.csv", "--debug")
    assert (code, out) == (2, "")
    assert err.startswith("Traceback")
    assert "InputError: nowhere.csv: there is no such file" in err


def test_a_closed_pipe_is_no_error():
    command = subprocess.Popen(
        [sys.executable, "-c", CODE, "trace", "formats"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    command.stdout.close()
    assert command.stderr.read() == ""
    command.stderr.close()
    command.wait()
