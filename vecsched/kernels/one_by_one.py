"""Scheduling members in running order, when blocks or tokens run short: some lose their blocks."""

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE
from vecsched.kernels.demand import (
    fitting_tokens,
    is_decode,
    more_blocks,
    spend_tokens,
    take_for,
    wanted_tokens,
)
from vecsched.kernels.engine import FREE_KV, PREFILL_LEFT, TOKENS_LEFT
from vecsched.kernels.leaving import park, preempt
from vecsched.kernels.paged import is_leaving, is_steady, plan_chunk
from vecsched.kernels.running import choose_victim, first_member, next_member


@kernel
def schedule_one_by_one(engine, threshold, decodes_first):
    """Go through the members in order, preempting for blocks; True if somebody was preempted."""
    state, paging = engine.state, engine.paging
    state[TOKENS_LEFT] = engine.limits.tokens
    state[PREFILL_LEFT] = engine.limits.prefill_tokens
    row = first_member(engine)
    while row != NONE:
        paging.chunk[row] = 0
        paging.left_out[row] = False
        row = next_member(engine, row)
    preempted = False
    for turn in range(2 if decodes_first else 1):
        row = first_member(engine)
        while row != NONE and state[TOKENS_LEFT] > 0:
            skipped = 0
            if not is_leaving(engine, row) and (
                not decodes_first or is_decode(engine, row) == (turn == 0)
            ):
                served, somebody, skipped = serve(engine, row, threshold)
                preempted = preempted or somebody
                if not served and ends_pass(engine):
                    plan_served(engine)
                    return True
            row = next_to_serve(engine, row, skipped)
    plan_served(engine)
    return preempted


@kernel
def next_to_serve(engine, row, skipped):
    """The member behind `row`, behind as many others as are left out."""
    row = next_member(engine, row)
    while row != NONE and skipped > 0:
        engine.paging.left_out[row] = True
        row = next_member(engine, row)
        skipped -= 1
    return row


@kernel
def ends_pass(engine):
    """Tell whether a member that preempted itself ends the pass for those behind it."""
    rules = engine.paging_rules
    return not rules.by_priority or rules.stop_after_self


@kernel
def serve(engine, row, threshold):
    """Give a member what it wants and can have.

    Returns (False if it lost itself, if anyone was preempted, how many behind it are left out).
    """
    state, paging, skipped = engine.state, engine.paging, 0
    tokens = fitting_tokens(engine, row, wanted_tokens(engine, row, threshold))
    needed = more_blocks(engine, row, tokens)
    preempted = False
    while needed > state[FREE_KV]:
        victim = choose_victim(engine)
        if makes_scan_skip(engine, victim, row):
            skipped += 1
        spend_tokens(engine, victim, -paging.chunk[victim])
        preempt(engine, victim)
        preempted = True
        if victim == row:
            return False, True, skipped
    take_for(engine, row, tokens, needed)
    spend_tokens(engine, row, tokens)
    paging.chunk[row] = tokens
    return True, preempted, skipped


@kernel
def makes_scan_skip(engine, victim, row):
    """Tell whether a victim ahead of `row` shifts vLLM 0.19's scan of the running list.

    It goes through the list by index. A victim that was scheduled in this step moves the index
    back; one that was passed over does not, and so the next member is missed.
    """
    paging = engine.paging
    if not (engine.paging_rules.stop_after_self and paging.stamp[victim] < paging.stamp[row]):
        return False
    return is_leaving(engine, victim) or paging.left_out[victim]


@kernel
def plan_served(engine):
    """Turn what members were given one by one into the plan of the iteration."""
    paging = engine.paging
    row = first_member(engine)
    while row != NONE:
        if is_leaving(engine, row):
            pass
        elif not is_steady(engine, row):
            plan_chunk(engine, row, paging.chunk[row])
        elif paging.chunk[row] == 0:
            park(engine, row)
            plan_chunk(engine, row, 0)
        else:
            # Computed with all the steady ones.
            paging.chunk[row] = 0
        row = next_member(engine, row)
