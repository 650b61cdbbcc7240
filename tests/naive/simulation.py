"""`simulate`: a trace, a configuration and a cost in; rows, iterations and a summary out."""

from naive.asynchronous import AsynchronousEngine, SteppedEngine
from naive.disciplines import PAGED
from naive.engine import Engine
from naive.fair import FAIR
from naive.metrics import DEFAULT_OPTIONS, request_row, summarise
from naive.policies import policy_key, policy_name
from naive.predictions import with_predictions
from naive.prefix_metrics import prefix_columns, prefix_summary
from naive.requests import read_request

# Fields that a configuration may leave out.
DEFAULT_CONFIG = {
    "max_model_len": None,
    "kv_reserve": "on_demand",
    "watermark": 0.0,
    "scheduler_reserve_full_isl": True,
    "enable_chunked_prefill": True,
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "vllm_version": "0.33",
    "enable_prefix_caching": False,
    "async_scheduling": False,
    "tenant_weights": "",
    "prediction_error": 0.0,
    "prediction_seed": 0,
}


def simulate(
    requests,
    config,
    cost,
    options=None,
    *,
    refuse_at_door=True,
    prefix_block_tokens=None,
    in_steps=False,
):
    """Run a trace to its end.

    `requests` are dictionaries in row order with `arrival_s`, `prompt_tokens`, `output_tokens` and
    perhaps `kv_blocks`, `priority`, `engine_time_s`, `deadline_s`, `cancel_at_s`, `tenant`,
    `predicted_output_tokens`, `prefix_ids` (one for each `prefix_block_tokens` of the prompt, from
    its beginning); `config` has the fields of a `SchedulerConfig`, perhaps without those
    of `DEFAULT_CONFIG`; `cost` is what `CostModel.to_dict` gives; `options` are
    changes to `metrics.DEFAULT_OPTIONS`. With `refuse_at_door=False` requests too large for the
    engine queue up all the same; with `in_steps=True` each round of asynchronous scheduling takes
    one second. Returns a dictionary of `requests` (one dictionary a row), `iterations` (one
    dictionary each), `summary` (flat) and `events` (what the cache has seen).
    """
    options = {**DEFAULT_OPTIONS, **(options or {})}
    assert options.keys() == DEFAULT_OPTIONS.keys(), "unknown option"
    config = {**DEFAULT_CONFIG, **config}
    check_input(requests, config, prefix_block_tokens)
    kind = SteppedEngine if in_steps and config["async_scheduling"] else None
    engine = engine_of(requests, config, cost, refuse_at_door, prefix_block_tokens, kind)
    engine.run()
    isolated = {}
    rows = []
    for request in engine.requests:
        isolated_ps = None
        if request.status != "failed":
            alike = (request.prompt, request.output, request.given_kv_blocks)
            if alike not in isolated:
                isolated[alike] = isolated_e2e_ps(*alike, config, cost, refuse_at_door)
            isolated_ps = isolated[alike]
        rows.append(request_row(request, isolated_ps) | prefix_columns(request, config))
    summary = summarise(rows, engine.iterations, engine.itl_gaps_ps, config, options)
    summary |= prefix_summary(rows, engine.kv.events, config)
    return {
        "requests": rows,
        "iterations": engine.iterations,
        "summary": summary,
        "events": engine.kv.events + engine.events,
    }


def check_input(requests, config, prefix_block_tokens):
    """Refuse what the rules do not provide for."""
    assert config["kv_reserve"] in ("on_demand", "full")
    assert config["vllm_version"] in ("0.33", "0.19")
    if config["discipline"] in PAGED:
        assert config["max_num_batched_tokens"] >= config["max_batch_size"]
    assert config["lookahead"] == 0 or policy_name(config["policy"]) not in FAIR
    stamped = sum(record.get("engine_time_s") is not None for record in requests)
    assert stamped in (0, len(requests)), "engine_time_s must be given in all rows or in none"
    if config["enable_prefix_caching"]:
        assert config["discipline"] in PAGED
        assert config["kv_reserve"] == "on_demand", "a reservation leaves nothing to look up"
    assert config["discipline"] == "vllm" or not config["async_scheduling"]
    for record in requests:
        ids = record.get("prefix_ids") or []
        pieces = -(-record["prompt_tokens"] // prefix_block_tokens) if prefix_block_tokens else 0
        assert len(ids) <= pieces, "more prefix_ids than the prompt has pieces"


def engine_of(requests, config, cost, refuse_at_door=True, prefix_block_tokens=None, kind=None):
    """The engine before anything has happened; its kind follows from the configuration."""
    kind = kind or (AsynchronousEngine if config["async_scheduling"] else Engine)
    read = [
        read_request(
            row, record, config, policy_key(config["policy"], row, record), prefix_block_tokens
        )
        for row, record in enumerate(with_predictions(requests, config))
    ]
    return kind(read, config, cost, refuse_at_door)


def isolated_e2e_ps(prompt, output, kv_blocks, config, cost, refuse_at_door):
    """How long the request takes alone on an idle engine: nothing to wait for, nothing ends it.

    None if it cannot be served alone: without chunked prefill, a prompt longer than the budget
    passes only when cut by the threshold, and vLLM does not cut a lone request.
    """
    alone = {
        "arrival_s": 0.0,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "kv_blocks": kv_blocks,
    }
    undisturbed = {**config, "policy": "fcfs", "timeout_s": None, "max_wait_s": None}
    engine = engine_of([alone], undisturbed, cost, refuse_at_door)
    engine.run()
    (request,) = engine.requests
    return request.finished_ps if request.status == "completed" else None
