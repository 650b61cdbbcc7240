"""Forming a batch with chunked prefill: what `vllm` and `sarathi` share."""

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE
from vecsched.kernels.blocks import look_up, take_on_day, take_uncounted
from vecsched.kernels.cache import NO_CACHE, POOL
from vecsched.kernels.demand import (
    fitting_tokens,
    more_blocks,
    spend_tokens,
    take_for,
    wanted_tokens,
)
from vecsched.kernels.engine import (
    DECODES,
    FREE_KV,
    ITERATION,
    KV_BLOCKS,
    MEMBERS,
    NOT_BLOCKED,
    PREFILL_LEFT,
    PREFILLS,
    SLOT,
    TOKEN_BUDGET,
    TOKENS_LEFT,
)
from vecsched.kernels.one_by_one import schedule_one_by_one
from vecsched.kernels.paged import (
    blocks_of,
    clear_plan,
    enter_running,
    is_leaving,
    is_steady,
    plan_chunk,
)
from vecsched.kernels.queue import first_waiting, may_pass_over, next_waiting, open_gates, row_at
from vecsched.kernels.running import first_member, last_member, next_member


@kernel
def schedule_running(engine, threshold, decodes_first):
    """Schedule the members; True if somebody was preempted.

    Only if blocks or tokens run short the members are gone through one by one.
    """
    if serves_all(engine, threshold, decodes_first):
        return False
    return schedule_one_by_one(engine, threshold, decodes_first)


@kernel
def serves_all(engine, threshold, decodes_first):
    """Give everybody what it wants, or the last member the rest; False if that is not to be had.

    Steady members need no look at all.
    """
    state, limits = engine.state, engine.limits
    clear_plan(engine)
    state[TOKENS_LEFT] = limits.tokens - state[DECODES]
    state[PREFILL_LEFT] = limits.prefill_tokens
    blocks = 0
    if not engine.paging_rules.reserve_all:
        blocks = engine.paging.takers[state[ITERATION] % engine.paging_rules.block_size]
    for place in range(state[PREFILLS]):
        row = engine.members.prefilling[place]
        wanted = wanted_tokens(engine, row, threshold)
        tokens = fitting_tokens(engine, row, wanted)
        is_served_last = decodes_first or row == last_member(engine)
        if tokens < wanted and not (state[PREFILLS] == 1 and is_served_last):
            return False
        spend_tokens(engine, row, tokens)
        engine.paging.chunk[row] = tokens
        blocks += more_blocks(engine, row, tokens)
    if blocks > state[FREE_KV]:
        return False
    hand_out(engine, blocks)
    for place in range(state[PREFILLS]):
        row = engine.members.prefilling[place]
        plan_chunk(engine, row, engine.paging.chunk[row])
    return True


@kernel
def hand_out(engine, blocks):
    """All members take the blocks they need for what they are given, `blocks` in all."""
    state = engine.state
    if engine.cache.kind != POOL:
        take_uncounted(engine, blocks)
    elif state[PREFILLS] == 0:
        take_on_day(engine, state[ITERATION] % engine.paging_rules.block_size, blocks)
    else:
        row = first_member(engine)
        while row != NONE:
            if not is_leaving(engine, row):
                tokens = 1 if is_steady(engine, row) else engine.paging.chunk[row]
                take_for(engine, row, tokens, more_blocks(engine, row, tokens))
            row = next_member(engine, row)


@kernel
def admit(engine, threshold):
    """Admit from the head of the queue while slots, blocks and tokens last."""
    queue = engine.queue
    open_gates(engine)
    position = first_waiting(engine)
    while position != NONE:
        row = row_at(queue, position)
        reason, tokens, cached = closed_gate(engine, row, threshold)
        if reason == NOT_BLOCKED:
            enter_running(engine, row, tokens, cached)
            spend_tokens(engine, row, tokens)
        elif not may_pass_over(engine, position, reason) or out_of_tokens(engine):
            return
        position = next_waiting(engine, position)


@kernel
def out_of_tokens(engine):
    """Tell whether nobody further can be admitted for want of tokens."""
    state = engine.state
    # Who finds all but its last token in the cache only decodes, beside any prefill.
    no_prefill = state[PREFILL_LEFT] == 0 and engine.cache.kind == NO_CACHE
    return state[TOKENS_LEFT] == 0 or no_prefill


@kernel
def closed_gate(engine, row, threshold):
    """(the first gate that keeps `row` out; tokens it is given, blocks it finds if none does).

    Blocks that it finds and somebody holds cost nothing; free ones are taken like new ones.
    """
    state, rules = engine.state, engine.paging_rules
    known = engine.paging.known[row]
    if state[MEMBERS] >= engine.limits.slots:
        return SLOT, 0, 0
    if out_of_tokens(engine):
        return TOKEN_BUDGET, 0, 0
    cached, cached_free = look_up(engine, row)
    found = cached * rules.block_size
    wanted = min(known - found, threshold) if threshold > 0 else known - found
    tokens = min(wanted, state[TOKENS_LEFT])
    if known - found > 1 or known == engine.requests.prompt[row]:
        tokens = min(tokens, state[PREFILL_LEFT])
    if tokens == 0 or (tokens < wanted and not rules.chunked):
        return TOKEN_BUDGET, 0, 0
    free = state[FREE_KV] - (rules.watermark if state[MEMBERS] > 0 else 0) + cached - cached_free
    if rules.reserve_prompt and blocks_of(engine, row, known) > free:
        return KV_BLOCKS, 0, 0
    if blocks_of(engine, row, found + tokens) > free:
        return KV_BLOCKS, 0, 0
    return NOT_BLOCKED, tokens, cached
