"""The KV cache as a run finds it: which form of the free queue, and every block in it."""

import numpy as np

from vecsched.config import SchedulerConfig
from vecsched.kernels.cache import NO_CACHE, NO_POOL, POOL, RUNS, Cache, empty_runs, full_pool
from vecsched.kernels.record import Record
from vecsched.prefixes import block_keys, has_common_prefixes
from vecsched.trace import Trace

# More blocks than all requests take are never needed, but in a small pool numbers can be looked at.
_SMALL_POOL = 65536


def cache_kind(trace: Trace, config: SchedulerConfig) -> int:
    """How the free queue is kept; see `kernels.cache`."""
    if config.discipline != "vllm" or not config.enable_prefix_caching:
        return NO_CACHE
    if config.kv_reserve == "full":
        return NO_CACHE
    # Runs will do if nobody finds another's blocks, and those without a hash are at the head.
    if config.vllm_version == "0.19" or has_common_prefixes(trace):
        return POOL
    return RUNS


def cache_state(trace: Trace, config: SchedulerConfig, *, block_by_block: bool) -> Cache:
    """Return the state of the cache before a run.

    Args:
        trace: the requests.
        config: the knobs.
        block_by_block: keep the free queue so in any case.

    Raises:
        InputError: there are too many blocks to keep apart.
    """
    kind = cache_kind(trace, config)
    if block_by_block and kind == RUNS:
        kind = POOL
    pool = NO_POOL
    if kind == POOL:
        numbers = block_keys(trace, config.block_size, config.max_model_len)
        taken = len(numbers.keys)
        # Without a bound every block taken is a new one.
        blocks = taken if config.kv_blocks is None else config.kv_blocks
        pool = full_pool(
            min(blocks, max(taken, _SMALL_POOL)),
            numbers.different,
            numbers.keys,
            numbers.begin[trace.order],
            config.block_size,
        )
    runs = empty_runs(len(trace) if kind == RUNS else 0)
    return Cache(kind, config.vllm_version == "0.19", runs, pool)


def with_moves(record: Record, cache: Cache, slots: int) -> Record:
    """Return the record with room for the moves of blocks."""
    # At one boundary, each member gives up what it holds and takes as much again, at most.
    pool = cache.pool
    ends = np.append(pool.begin, len(pool.keys))
    longest = int(np.diff(np.sort(ends)).max(initial=0))
    room = 2 * (2 * slots * longest) + 8 * len(record.lines)
    return record._replace(moves=np.empty((room, 4), np.int64))
