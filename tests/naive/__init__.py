"""A second implementation of the simulator, in plain Python, for comparison.

Written from docs/semantics.md, to be read and to be right: lists and dictionaries, the standard
library, one iteration after another, nothing skipped and nothing shared with `vecsched`.

Read `requests` (what a request is), `engine` (the loop), `discipline` (what a discipline is asked),
how batches are formed in `reserving`, `paged` and `vllm`, who comes first in `policies` and `fair`;
then `door`, `cost`, `predictions`, `metrics`, `tenant_metrics`. What vLLM does by default is in
`blocks` and `prefix_metrics` (prefix caching) and in `asynchronous`.
`boundary` holds the four functions of the source document on their own, `invariants` and `replay`
what must hold in every run, whoever simulated it.
"""

from naive.boundary import (
    advance_iteration,
    form_iteration_batch,
    iteration_token_demand,
    release_terminal_requests,
)
from naive.engine import LivelockError
from naive.invariants import check_invariants
from naive.simulation import simulate

__all__ = [
    "LivelockError",
    "advance_iteration",
    "check_invariants",
    "form_iteration_batch",
    "iteration_token_demand",
    "release_terminal_requests",
    "simulate",
]
