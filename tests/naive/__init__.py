"""A second implementation of the simulator, in plain Python, for comparison.

Written from docs/semantics.md, to be read and to be right: lists and dictionaries, the standard
library, one iteration after another, nothing skipped and nothing shared with `vecsched`.

Read `requests` (what a request is), `engine` (the loop) and `disciplines` (how a batch is formed);
then `cost`, `policies`, `metrics`. `boundary` holds the four functions of the source document on
their own, `invariants` what must hold in every run, whoever simulated it.
"""

from naive.boundary import (
    advance_iteration,
    form_iteration_batch,
    iteration_token_demand,
    release_terminal_requests,
)
from naive.invariants import check_invariants
from naive.simulation import simulate

__all__ = [
    "advance_iteration",
    "check_invariants",
    "form_iteration_batch",
    "iteration_token_demand",
    "release_terminal_requests",
    "simulate",
]
