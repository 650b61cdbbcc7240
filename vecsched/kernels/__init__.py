"""Building blocks of the disciplines: small compiled functions on arrays.

They also run as plain Python with `NUMBA_DISABLE_JIT=1`. None of them raises: a kernel returns a
status, and `vecsched.simulation` turns it into an exception.
"""
