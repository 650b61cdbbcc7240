"""Every exception that vecsched raises on purpose.

Each one is also the nearest builtin, so callers who do not know vecsched can still catch it::

    VecschedError (Exception)
    ├── InputError (ValueError)           a trace, a table or a file holds something that cannot be
    ├── ConfigError (ValueError)          a scheduler configuration is impossible or misspelled
    ├── CostError (ValueError)            a cost model is incomplete or negative
    ├── BoundaryError (ValueError)        one of the four boundary functions was given bad state
    └── SimulationError (RuntimeError)    a run could not go on
        ├── ClockOverflowError (OverflowError)   simulated time left the range of the clock
        └── NoProgressError                      the scheduler stood still: a bug in vecsched
"""

import difflib
from collections.abc import Iterable

# Stands for "no value": None may be the value that is wrong, and this one survives pickling.
_ABSENT = ...


class VecschedError(Exception):
    """Root of the tree: catch this to catch everything vecsched raises on purpose."""


class InputError(VecschedError, ValueError):
    """Bad input data; says where it stands and what it is.

    The place is kept in the attributes `source` (file or table), `row` (0-based), `field` and
    `value`; each is None where it does not apply.
    """

    def __init__(
        self,
        problem: str,
        *,
        source: object = None,
        row: int | None = None,
        field: str | None = None,
        value: object = _ABSENT,
    ) -> None:
        self.problem, self.source, self.row, self.field = problem, source, row, field
        self.value = None if value is _ABSENT else value
        self._shown_value = value
        place = [] if source is None else [str(source)]
        place += [] if row is None else [f"row {row}"]
        place += [] if field is None else [f"field {field!r}"]
        shown = "" if value is _ABSENT else f"{value!r}: "
        super().__init__(f"{', '.join(place)}: {shown}{problem}" if place else f"{shown}{problem}")

    def at(self, source: object, field: str | None = None) -> "InputError":
        """Return the same complaint about `source`, for a reader that knows file and column."""
        field = self.field if field is None else field
        return InputError(
            self.problem, source=source, row=self.row, field=field, value=self._shown_value
        )


class ConfigError(VecschedError, ValueError):
    """A scheduler configuration that no engine could run, or a name that does not exist."""


class CostError(VecschedError, ValueError):
    """A cost model that is incomplete, negative or finer than the clock."""


class BoundaryError(VecschedError, ValueError):
    """State that the four boundary functions cannot work on; names the request and the value."""


class SimulationError(VecschedError, RuntimeError):
    """A simulation that could not be carried to its end."""


class ClockOverflowError(SimulationError, OverflowError):
    """Simulated time left the int64 picosecond clock (about 53 days are usable)."""


class NoProgressError(SimulationError):
    """The scheduler made no progress although requests were left: a bug in vecsched."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the tail of an error message: the nearest known name, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
