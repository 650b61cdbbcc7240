"""The sweep driver's exceptions; they join the tree of `vecsched.errors`.

::

    VecschedError
    ├── SpecError (ValueError)      a sweep file is misspelled, or asks for something impossible
    ├── StoreError (OSError)        a sweep's output cannot be written or read
    ├── WorkerError (RuntimeError)  a cluster cannot be used, or its workers keep dying
    └── ScenarioError (ValueError)  a step log cannot be read
"""

from vecsched.errors import VecschedError


class SpecError(VecschedError, ValueError):
    """A sweep file that cannot be run; names the file, the key and the value."""


class StoreError(VecschedError, OSError):
    """Output that cannot be written or read; names the path and the reason."""


class WorkerError(VecschedError, RuntimeError):
    """A cluster that cannot be reached or runs other code, or workers that die again and again."""


class ScenarioError(VecschedError, ValueError):
    """A step log that cannot be read or is of another format."""
