"""What commands share: `--json`, `--debug`, objectives, and errors of one message."""

import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from vecsched.errors import VecschedError

# Exit codes.
USAGE_ERROR = 2  # bad usage or bad input; nothing was written
INTERRUPTED = 130

AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else there.")
]
SweepOutput = Annotated[Path, typer.Argument(metavar="OUT.parquet", help="The output of a sweep.")]
Maximise = Annotated[
    list[str] | None,
    typer.Option("--max", metavar="COLUMN", help="More is better; may be repeated."),
]
Minimise = Annotated[
    list[str] | None,
    typer.Option("--min", metavar="COLUMN", help="Less is better; may be repeated."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


class Command(TyperCommand):
    """A command whose errors are one message on stderr and exit code 2, without a traceback.

    The traceback comes with `--debug`, which every command must have among its options.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command; only what vecsched raises on purpose is taken for the user's mistake."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # a closed pipe shows here, where it is handled, and not at exit
            return result
        except VecschedError as error:
            if ctx.params["debug"]:
                traceback.print_exc()
            else:
                typer.echo(f"error: {error}", err=True)
            raise typer.Exit(USAGE_ERROR) from None
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
