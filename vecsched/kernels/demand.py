"""What members want of the token budget and of the free blocks, and what they take."""

from vecsched._jit import kernel
from vecsched.kernels.blocks import hash_computed, take_blocks
from vecsched.kernels.engine import PREFILL_LEFT, TOKENS_LEFT
from vecsched.kernels.paged import blocks_of, computed_tokens, is_steady, wants_one_token


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
def take_for(engine, row, tokens, blocks):
    """A member takes the `blocks` it needs for `tokens`; those of a chunk are hashed at once."""
    take_blocks(engine, row, blocks)
    if not is_steady(engine, row):
        hash_computed(engine, row, computed_tokens(engine, row) + tokens)
