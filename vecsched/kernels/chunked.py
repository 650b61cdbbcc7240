"""Forming a batch with chunked prefill: what `vllm` and `sarathi` share."""

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE
from vecsched.kernels.blocks import hash_computed, look_up, take_blocks, take_on_day, take_uncounted
from vecsched.kernels.cache import NO_CACHE, POOL
from vecsched.kernels.engine import (
    DECODES,
    FREE_KV,
    ITERATION,
    KV_BLOCKS,
    MEMBERS,
    NOT_BLOCKED,
    PREFILL_LEFT,
    PREFILLS,
    RUNNING_FIRST,
    RUNNING_LAST,
    SLOT,
    TOKEN_BUDGET,
    TOKENS_LEFT,
)
from vecsched.kernels.paged import (
    blocks_of,
    clear_plan,
    computed_tokens,
    enter_running,
    is_leaving,
    is_steady,
    park,
    plan_chunk,
    preempt,
    wants_one_token,
)
from vecsched.kernels.queue import (
    first_waiting,
    may_pass_over,
    next_waiting,
    open_gates,
    row_at,
)
from vecsched.kernels.running import choose_victim


@kernel
def schedule_running(engine, threshold, decodes_first):
    """Schedule the members; True if somebody was preempted.

    Mostly everybody gets what it wants, or the last member the rest: then steady members need no
    look at all. Only if blocks or tokens run short the members are gone through one by one.
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
        is_served_last = decodes_first or row == state[RUNNING_LAST]
        if tokens < wanted and not (state[PREFILLS] == 1 and is_served_last):
            return schedule_one_by_one(engine, threshold, decodes_first)
        spend_tokens(engine, row, tokens)
        engine.paging.chunk[row] = tokens
        blocks += more_blocks(engine, row, tokens)
    if blocks > state[FREE_KV]:
        return schedule_one_by_one(engine, threshold, decodes_first)
    hand_out(engine, blocks)
    for place in range(state[PREFILLS]):
        row = engine.members.prefilling[place]
        plan_chunk(engine, row, engine.paging.chunk[row])
    return False


@kernel
def hand_out(engine, blocks):
    """All members take the blocks they need for what they are given, `blocks` in all."""
    state = engine.state
    if engine.cache.kind != POOL:
        take_uncounted(engine, blocks)
    elif state[PREFILLS] == 0:
        take_on_day(engine, state[ITERATION] % engine.paging_rules.block_size, blocks)
    else:
        row = state[RUNNING_FIRST]
        while row != NONE:
            if is_steady(engine, row):
                take_blocks(engine, row, more_blocks(engine, row, 1))
            elif not is_leaving(engine, row):
                take_for_chunk(engine, row, engine.paging.chunk[row])
            row = engine.paging.behind[row]


@kernel
def take_for_chunk(engine, row, tokens):
    """A pending member takes the blocks for a chunk, which are hashed at once."""
    take_blocks(engine, row, more_blocks(engine, row, tokens))
    hash_computed(engine, row, computed_tokens(engine, row) + tokens)


@kernel
def wanted_tokens(engine, row, threshold):
    """Tokens that a member wants, cut to the threshold if there is one."""
    wanted = 1 if is_steady(engine, row) else engine.members.prompt_left[row]
    return min(wanted, threshold) if threshold > 0 else wanted


@kernel
def is_decode(engine, row):
    """Tell whether a member wants one token and has output already."""
    return is_steady(engine, row) or wants_one_token(engine, row)


@kernel
def fitting_tokens(engine, row, wanted):
    """Cut what a member wants to what is left for it."""
    tokens = min(wanted, engine.state[TOKENS_LEFT])
    return tokens if is_decode(engine, row) else min(tokens, engine.state[PREFILL_LEFT])


@kernel
def spend_tokens(engine, row, tokens):
    """Take tokens for a member off what is left; negative tokens come back."""
    engine.state[TOKENS_LEFT] -= tokens
    if not is_decode(engine, row):
        engine.state[PREFILL_LEFT] -= tokens


@kernel
def more_blocks(engine, row, tokens):
    """Blocks that a member needs beyond those it holds to compute `tokens`."""
    computed = computed_tokens(engine, row)
    return blocks_of(engine, row, computed + tokens) - blocks_of(engine, row, computed)


@kernel
def schedule_one_by_one(engine, threshold, decodes_first):
    """Go through the members in order, preempting for blocks; True if somebody was preempted."""
    state, paging = engine.state, engine.paging
    state[TOKENS_LEFT] = engine.limits.tokens
    state[PREFILL_LEFT] = engine.limits.prefill_tokens
    row = state[RUNNING_FIRST]
    while row != NONE:
        paging.chunk[row] = 0
        paging.left_out[row] = False
        row = paging.behind[row]
    preempted = False
    for turn in range(2 if decodes_first else 1):
        row = state[RUNNING_FIRST]
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
    row = engine.paging.behind[row]
    while row != NONE and skipped > 0:
        engine.paging.left_out[row] = True
        row = engine.paging.behind[row]
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
    if is_steady(engine, row):
        take_blocks(engine, row, needed)
    else:
        take_for_chunk(engine, row, tokens)
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
    row = engine.state[RUNNING_FIRST]
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
        row = paging.behind[row]


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
