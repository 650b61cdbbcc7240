"""Random cases for prefix caching and asynchronous scheduling: scarce KV, shared prefixes, ties."""

from typing import NamedTuple

import naive
from compare import trace_of
from hypothesis import strategies as st
from paged_cases import configurations, traces
from test_engine_equals_oracle import UNITS_S, costs, metric_options

from vecsched import CostModel, MetricOptions, Result, SchedulerConfig, simulate


class Case(NamedTuple):
    """One input of both sides."""

    records: list[dict]
    config: SchedulerConfig
    switches: dict  # the fields of the configuration that the cases are about
    prefix_block_tokens: int | None
    cost: CostModel
    options: dict


@st.composite
def prefix_ids(draw, records, piece):
    """Ids of each prompt: a way into one of a few conversations, which it may leave again."""
    conversations = draw(
        st.lists(st.lists(st.integers(0, 3), min_size=24, max_size=24), min_size=1, max_size=3)
    )
    found = []
    for record in records:
        pieces = -(-record["prompt_tokens"] // piece)
        ids = draw(st.sampled_from(conversations))[:pieces]
        if draw(st.integers(0, 2)) == 0:
            branch = draw(st.integers(0, pieces))
            ids = ids[:branch] + [9] * (pieces - branch)
        # Most often all of the prompt; else a part of it, or nothing.
        covered = draw(st.sampled_from([pieces, pieces, pieces, pieces // 2, 0]))
        found.append(ids[:covered])
    return found


@st.composite
def crowds(draw, unit):
    """Rows that are there at once, or nearly, and whose outputs end in different iterations."""
    return [
        {
            "arrival_s": draw(st.sampled_from([0, 0, 0, 1, 2, 9])) * unit,
            "prompt_tokens": draw(st.integers(1, 9)),
            "output_tokens": draw(st.integers(1, 12)),
            "priority": draw(st.integers(-2, 2)),
        }
        for _ in range(draw(st.integers(4, 14)))
    ]


@st.composite
def crowded(draw, config, records):
    """The configuration with slots for many of them, but blocks for few, and any victim."""
    block_size = draw(st.integers(1, 3))
    largest = max(r["prompt_tokens"] + r["output_tokens"] - 1 for r in records)
    return config.replace(
        policy="priority",
        max_batch_size=8,
        max_num_batched_tokens=draw(st.integers(8, 40)),
        max_prefill_tokens=None,
        max_model_len=None,
        block_size=block_size,
        kv_blocks=-(-draw(st.integers(largest, 3 * largest)) // block_size),
    )


@st.composite
def cases(draw, *, shared, asynchronous, caching=True):
    """Cases of `vllm`, most of them with prefix caching: unique prompts or shared prefixes."""
    unit = draw(st.sampled_from(UNITS_S))
    is_crowd = draw(st.booleans())
    records = draw(crowds(unit) if is_crowd else traces(unit))
    config = draw(configurations("vllm", records, unit))
    if caching:
        config = config.replace(kv_reserve="on_demand")
    if is_crowd:
        config = draw(crowded(config, records))
    piece = None
    if shared:
        # A part of a scheduler block, a whole one, several, and what divides neither way.
        piece = draw(st.sampled_from([1, 2, 3, 4, 5, 8, config.block_size]))
        ids = draw(prefix_ids(records, piece))
        records = [{**r, "prefix_ids": own} for r, own in zip(records, ids, strict=True)]
    switches = {"enable_prefix_caching": caching, "async_scheduling": asynchronous}
    return Case(records, config, switches, piece, draw(costs(unit)), draw(metric_options(unit)))


def run_oracle(case: Case, *, in_steps: bool = False, **changes: object) -> dict:
    """The oracle's result, perhaps with some switches changed."""
    return naive.simulate(
        case.records,
        case.config.to_dict() | case.switches | changes,
        case.cost.to_dict(),
        case.options,
        prefix_block_tokens=case.prefix_block_tokens,
        in_steps=in_steps,
    )


def run_engine(case: Case, *, logged: bool) -> Result:
    """The engine's result."""
    return simulate(
        trace_of(case.records, case.prefix_block_tokens),
        case.config.replace(**case.switches),
        case.cost,
        log_iterations=logged,
        metrics=MetricOptions(**case.options),
    )
