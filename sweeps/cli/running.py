"""Work that takes a while: how it is interrupted, how it goes on, and how it went."""

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from sweeps.cli.command import INTERRUPTED
from sweeps.cli.output import note
from sweeps.cli.progress import Lines
from sweeps.errors import StoreError
from sweeps.run import SweepOutcome

SOME_POINTS_FAILED = 1  # exit code

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def orderly_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first Ctrl-C or SIGTERM; leave the process at the second."""

    def first(*_: Any) -> NoReturn:
        for each in _SIGNALS:
            signal.signal(each, at_once)
        raise KeyboardInterrupt

    def at_once(*_: Any) -> NoReturn:
        os._exit(INTERRUPTED)

    before = {each: signal.signal(each, first) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def resumable(command: Sequence[str], progress: Lines) -> Iterator[None]:
    """Say how to go on, if the block is interrupted or the disk fails in the middle of it.

    Args:
        command: the arguments that resume.
        progress: who knows how far it is.
    """
    how = f"go on with: {shlex.join(['vecsched', *command])}"
    try:
        with orderly_interrupts():
            yield
    except KeyboardInterrupt:
        note(f"{progress.done:,} of {progress.points:,} points are done and kept; {how}")
        raise
    except StoreError as error:
        if progress.points and error.__cause__ is not None:  # the system said no, midway
            note(f"what is on disk is kept; {how}")
        raise


def report(outcome: SweepOutcome) -> None:
    """Say how it went; leave with an exit code of its own if points failed."""
    points = f"{outcome.points:,} points of {outcome.requests:,} requests"
    before = f", {outcome.resumed:,} of them by earlier runs" if outcome.resumed else ""
    note(f"{outcome.output}: {points} in {outcome.seconds:,.2f} s{before}")
    if outcome.failed:
        note(f"{outcome.failed:,} of {outcome.points:,} points failed, first {outcome.first_error}")
        raise typer.Exit(SOME_POINTS_FAILED)
