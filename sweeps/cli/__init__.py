"""The command line: `vecsched`.

One module a command. Each is imported when its command runs and not before, so that
`vecsched --help` answers at once: it needs no NumPy and no Numba.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from sweeps.cli.command import INTERRUPTED
from vecsched import __version__

COMMANDS = {
    "simulate": "Simulate one scheduler on one trace.",
    "sweep": "Simulate every point of a grid into one Parquet file.",
    "frontier": "List and draw the best trade-offs of a sweep.",
    "report": "Write what a sweep found as one page that needs no network.",
    "capacity": "Find the highest load that keeps the objectives.",
    "confidence": "Means over seeds, and differences on equal seeds, with intervals.",
    "calibrate": "Fit a cost model to measurements, with its error.",
    "validate": "Compare measured and simulated latency of a real run.",
    "trace": "Look at trace files and convert them.",
}

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Lazy(TyperCommand):
    """A line in the list of commands; stands for the `app` in the module of its name."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """Import the module and let the real command, or group of commands, parse its arguments."""
        module = importlib.import_module(f"{__name__}.{self.name}")
        return typer.main.get_command(module.app).make_context(info_name, args, *more, **extra)


def _stand_in() -> None:
    """Never called: `Lazy` hands over to the real command."""


for _name, _summary in COMMANDS.items():
    app.command(_name, cls=Lazy, help=_summary)(_stand_in)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vecsched {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Simulate LLM batch schedulers: one run, sweeps of thousands, and their frontier."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        arguments: what follows the program's name; None: the process's own.

    Raises:
        SystemExit: 0, all done; 1, some points of a sweep failed; 2, bad usage or bad input, or the
            disk failed; 130, interrupted.
    """
    try:
        app(args=arguments, prog_name="vecsched")
    except SystemExit as left:
        if arguments is None and left.code == INTERRUPTED:
            # Threads may be in the middle of a simulation, which cannot be stopped, and Python
            # would wait for them. Nothing is left to do: the process is ours to end.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise
