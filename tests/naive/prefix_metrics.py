"""What prefix caching was worth, from request rows. Without it nothing is measured: all is NaN.

- `cached_tokens` of a request: tokens that it took from the cache instead of computing them, over
  all its admissions. `cached_own_tokens`: those of its resumptions, where a request mostly finds
  the blocks that it lost (with shared prefixes, perhaps some that others computed).
- `looked_up_tokens` of a request: its known tokens at each of its admissions. An attempt that does
  not lead to an admission counts nowhere.
- `prefix_hit_rate`: cached tokens over tokens looked up; of a run, or of one tenant's requests. It
  stays below 1, for the last known token is always computed.
- `evicted_blocks` of a run: blocks whose contents others could have found until they were taken.
"""

import math

from naive.stats import divide

COLUMNS = ("looked_up_tokens", "cached_tokens", "cached_own_tokens")


def prefix_columns(request, config):
    """A request's part."""
    if not config["enable_prefix_caching"]:
        return dict.fromkeys(COLUMNS, math.nan)
    return {name: getattr(request, name) for name in COLUMNS}


def prefix_summary(rows, events, config):
    """A run's part; `events` are those of the block pool."""
    evicted = events["evicted_blocks"] if config["enable_prefix_caching"] else math.nan
    return {"prefix_hit_rate": prefix_hit_rate(rows), "evicted_blocks": evicted}


def prefix_hit_rate(rows):
    """NaN, too, if nobody was admitted."""
    looked_up = sum(row["looked_up_tokens"] for row in rows)
    return divide(sum(row["cached_tokens"] for row in rows), looked_up)


def prefix_hit_rate_by_tenant(rows):
    """{tenant: its rate}."""
    tenants = dict.fromkeys(row["tenant"] for row in rows)
    return {name: prefix_hit_rate([r for r in rows if r["tenant"] == name]) for name in tenants}
