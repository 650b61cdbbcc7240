"""Ctrl-C and SIGTERM: the first one ends the work in good order, the second one at once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from sweeps.cli.command import INTERRUPTED

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def orderly_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first signal; leave the process at the second."""

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
