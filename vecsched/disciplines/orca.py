"""`orca`: iteration-level scheduling with whole prompts (Yu et al., Orca, OSDI'22).

A new request's whole prompt runs in one iteration beside the decodes of the others, and its KV is
reserved up to the maximum length when it is admitted. That is `strict` with a chunk as long as any
prompt, and without the document's idle iteration.
"""

from vecsched.config import SchedulerConfig
from vecsched.disciplines.strict import run

__all__ = ["IDLE_ITERATION", "IS_PAGED", "lone_chunk", "run", "smallest_demand"]

IDLE_ITERATION = False
IS_PAGED = False
_WHOLE_PROMPT = 2**31


def smallest_demand(config: SchedulerConfig) -> int:
    """Whole prompts only."""
    return _WHOLE_PROMPT


def lone_chunk(config: SchedulerConfig) -> int:
    """Prompt tokens of one iteration: all of them."""
    return _WHOLE_PROMPT
