"""The one place that names Numba's options and the folder of compiled kernels.

Numba's own cache does not notice an edit in *another* module: a kernel whose helper changed would
be reused as it was. So the folder is named after a digest of every source file of this package, the
versions of Numba and NumPy and the flags that change the code; the same digest is the engine
version that results carry.

`NUMBA_DISABLE_JIT=1` runs every kernel as plain Python.
"""

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import numba
import numpy as np
from numba import config as numba_config
from numba.core import types
from numba.extending import intrinsic

from vecsched._version import __version__

Function = TypeVar("Function", bound=Callable)

JIT_ENABLED = not numba_config.DISABLE_JIT
_PACKAGE = Path(__file__).parent


@cache
def source_digest() -> str:
    """Digest (12 hex digits) of all that determines the compiled code."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    digest.update(f"boundscheck={numba_config.BOUNDSCHECK} jit={JIT_ENABLED}".encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def engine_version() -> str:
    """Version of the engine that computed a result: release and digest of the kernels' sources."""
    return f"{__version__}+{source_digest()}"


@cache
def cache_folder() -> Path:
    """Folder for compiled kernels: `$VECSCHED_CACHE_DIR`, or the user's cache directory."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vecsched"
    folder = Path(os.environ.get("VECSCHED_CACHE_DIR") or home) / source_digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        fallback = Path(tempfile.mkdtemp(prefix="vecsched-"))
        warnings.warn(
            f"cannot write compiled kernels to {folder} ({error}); they will be compiled again by "
            "every process. Set VECSCHED_CACHE_DIR to a writable folder.",
            RuntimeWarning,
            stacklevel=2,
        )
        return fallback


def is_compiled() -> bool:
    """Tell whether an earlier process has left compiled kernels for exactly these sources."""
    return not JIT_ENABLED or any(cache_folder().rglob("*.nbc"))


def kernel(function: Function) -> Function:
    """Compile `function` for use by other kernels only: Python must not call it."""
    return _compiled(function, no_cpython_wrapper=True)


def entry_point(function: Function) -> Function:
    """Compile `function` for calls from Python: one for each discipline and each metric pass.

    The wrapper that unpacks Python arguments is most of the time to compile a small function, so
    only these have one.
    """
    return _compiled(function, no_cpython_wrapper=False)


def _compiled(function: Function, no_cpython_wrapper: bool) -> Function:
    """Compile without the GIL, cached on disk, in strict IEEE arithmetic, on one thread.

    Reordered ("fast") arithmetic and Numba's own threads stay off: both may change the last bit.
    All arrays belong to the caller, so counting references to them (`_nrt`) is off; with it on,
    passing a NamedTuple of fifty arrays costs more than the simulation. Hence kernels allocate
    nothing and return no arrays.
    """
    if not JIT_ENABLED:
        return function
    compiled = numba.njit(
        nogil=True,
        error_model="numpy",
        forceinline=True,
        _nrt=False,
        no_cfunc_wrapper=True,
        no_cpython_wrapper=no_cpython_wrapper,
    )(function)
    before, numba_config.CACHE_DIR = numba_config.CACHE_DIR, str(cache_folder())
    try:
        compiled.enable_caching()
    finally:
        numba_config.CACHE_DIR = before
    return compiled


def _lowest_bit_in_python(word):
    return (int(word) & -int(word)).bit_length() - 1


@intrinsic
def _lowest_bit_in_llvm(typing_context, word):
    def emit(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, 0))

    return types.int64(types.int64), emit


# Index of the lowest bit set in a non-zero int64: one machine instruction when compiled.
lowest_bit = _lowest_bit_in_llvm if JIT_ENABLED else _lowest_bit_in_python
