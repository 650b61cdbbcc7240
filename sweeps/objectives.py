"""What a frontier, and a search for it, look for unless told otherwise."""

from collections.abc import Sequence

MAXIMISE = ("goodput_requests_per_s",)
MINIMISE = ("slowdown_p99",)

Objectives = tuple[tuple[str, ...], tuple[str, ...]]


def or_default(maximise: Sequence[str] | None, minimise: Sequence[str] | None) -> Objectives:
    """Return (maximise, minimise) as asked for; naming any leaves out the default ones."""
    if maximise or minimise:
        return tuple(maximise or ()), tuple(minimise or ())
    return MAXIMISE, MINIMISE
