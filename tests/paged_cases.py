"""Random traces and configurations for disciplines that page the KV cache: scarce blocks, ties."""

import naive
from compare import in_oracle_shape, trace_of
from hypothesis import strategies as st
from test_engine_equals_oracle import UNITS_S, costs, maybe, metric_options

from vecsched import CostModel, MetricOptions, Result, SchedulerConfig, simulate

# What both sides tell of an iteration. The blocks held follow from those that are free.
ITERATION = (
    *("iteration", "start_ps", "end_ps", "scheduled", "admitted", "preempted", "finished"),
    *("blocked_reason", "blocked_row", "free_kv_blocks", "slots_in_use", "num_cached_tokens"),
)


@st.composite
def seldom(draw, values, otherwise=None):
    """Use `values` once in five: a rule that nearly always applies hides what comes after it."""
    return draw(values) if draw(st.integers(0, 4)) == 4 else otherwise


@st.composite
def traces(draw, unit):
    """Rows that mostly come in bursts; priorities, time stamps and lengths often tie."""
    times = st.integers(0, 150).map(lambda k: k * unit / 2)
    optional = {
        "kv_blocks": st.integers(1, 9),
        "engine_time_s": st.integers(0, 4).map(float),
        "cancel_at_s": seldom(times),
    }
    columns = {name: values for name, values in optional.items() if draw(st.integers(0, 2)) == 0}
    prompts = draw(st.sampled_from([st.integers(1, 24), st.sampled_from([1, 4, 8, 9, 16])]))
    outputs = draw(st.sampled_from([st.integers(1, 30), st.sampled_from([1, 2, 8, 24])]))
    gaps = st.sampled_from([0, 0, 0, 0, 0, 1, 2, 7, 40, 300])
    records, at = [], 0
    for _ in range(draw(st.integers(2, 14))):
        at += draw(gaps)
        record = {
            "arrival_s": at * unit / 2,
            "prompt_tokens": draw(prompts),
            "output_tokens": draw(outputs),
            "priority": draw(st.integers(-1, 1)),
            "deadline_s": draw(maybe(st.integers(0, 99).map(lambda k: k * unit))),
        }
        records.append(record | {name: draw(values) for name, values in columns.items()})
    empty = draw(seldom(st.sampled_from(["prompt_tokens", "output_tokens"])))
    if empty is not None:
        records[-1][empty] = 0
    return draw(st.permutations(records)) if draw(st.booleans()) else records


def policies(unit):
    """Both of vLLM's and, less often, every other one."""
    rates = st.sampled_from([0, 0.5, 100, 1 / unit])
    return st.one_of(
        st.just("fcfs"),
        st.just("priority"),
        st.sampled_from(sorted(naive.policies.POLICIES)),
        rates.map(lambda rate: f"aging({rate})"),
        st.integers(0, 9).map(lambda seed: f"random({seed})"),
    )


@st.composite
def capacities(draw, records, block_size):
    """Blocks: most often those of the largest request and a few more."""
    tokens = [r["prompt_tokens"] + max(r["output_tokens"], 1) - 1 for r in records]
    largest = max(1, -(-max(tokens) // block_size))
    other = draw(seldom(st.sampled_from([st.integers(1, largest), st.none()])))
    return draw(st.integers(largest, 2 * largest) if other is None else other)


@st.composite
def budgets(draw, records, discipline, slots):
    """Tokens of an iteration, in which every slot must be able to decode."""
    if discipline in ("vllm", "sarathi"):
        return slots + draw(st.integers(0, 30))
    longest = max(r["prompt_tokens"] + r["output_tokens"] for r in records)
    shortest = draw(seldom(st.just(longest // 2), longest))
    return max(slots, draw(st.integers(shortest, 3 * longest)))


@st.composite
def configurations(draw, discipline, records, unit):
    """Every switch of the paged disciplines."""
    block_size = draw(st.sampled_from([1, 2, 3, 4, 8]))
    kv_blocks = draw(capacities(records, block_size))
    slots = draw(st.integers(2, 8))
    budget = draw(budgets(records, discipline, slots))
    version = draw(st.sampled_from(["0.33", "0.33", "0.19"]))
    is_newer = version == "0.33"
    has_watermark = is_newer and kv_blocks is not None
    return SchedulerConfig(
        discipline=discipline,
        policy=draw(policies(unit)),
        max_batch_size=slots,
        max_num_batched_tokens=budget,
        kv_blocks=kv_blocks,
        block_size=block_size,
        max_tokens=draw(seldom(st.sampled_from([12, 30]))),
        max_prefill_tokens=draw(seldom(st.integers(max(1, budget // 4), budget))),
        max_wait_s=draw(seldom(st.integers(0, 60).map(lambda k: k * unit))),
        timeout_s=draw(seldom(st.integers(0, 400).map(lambda k: k * unit))),
        lookahead=draw(seldom(st.integers(1, 3), 0)),
        max_model_len=draw(seldom(st.integers(8, 50))),
        kv_reserve=draw(seldom(st.just("full"), "on_demand")),
        enable_chunked_prefill=draw(st.sampled_from([True, True, False])),
        long_prefill_token_threshold=draw(st.one_of(st.just(0), st.integers(1, 12))),
        long_prefill_token_threshold_adaptive=is_newer and draw(st.booleans()),
        watermark=draw(seldom(st.floats(0, 0.6), 0.0)) if has_watermark else 0.0,
        scheduler_reserve_full_isl=draw(st.booleans()),
        vllm_version=version,
        enable_prefix_caching=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
    )


@st.composite
def cases(draw, discipline):
    """(records, configuration, cost, metric options)."""
    unit = draw(st.sampled_from(UNITS_S))
    records = draw(traces(unit))
    config = draw(configurations(discipline, records, unit))
    return records, config, draw(costs(unit)), draw(metric_options(unit))


def run_engine(
    records: list[dict], config: SchedulerConfig, cost: CostModel, options: dict, *, logged: bool
) -> Result:
    """The engine's result."""
    metrics = MetricOptions(**options)
    return simulate(trace_of(records), config, cost, log_iterations=logged, metrics=metrics)


def comparable(result: Result | dict) -> dict:
    """What `compare.assert_same` compares, of the engine or of the oracle."""
    told = in_oracle_shape(result) if isinstance(result, Result) else result
    iterations = [{name: it[name] for name in ITERATION} for it in told["iterations"]]
    return told | {"iterations": iterations}
