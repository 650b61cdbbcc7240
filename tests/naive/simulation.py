"""`simulate`: a trace, a configuration and a cost in; rows, iterations and a summary out."""

from naive.disciplines import PAGED
from naive.engine import Engine
from naive.fair import FAIR
from naive.metrics import DEFAULT_OPTIONS, request_row, summarise
from naive.policies import policy_key, policy_name
from naive.predictions import with_predictions
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
    "tenant_weights": "",
    "prediction_error": 0.0,
    "prediction_seed": 0,
}


def simulate(requests, config, cost, options=None, *, refuse_at_door=True):
    """Run a trace to its end.

    `requests` are dictionaries in row order with `arrival_s`, `prompt_tokens`, `output_tokens` and
    perhaps `kv_blocks`, `priority`, `engine_time_s`, `deadline_s`, `cancel_at_s`, `tenant`,
    `predicted_output_tokens`; `config` has the fields of a `SchedulerConfig`, perhaps without those
    of `DEFAULT_CONFIG`; `cost` is what `CostModel.to_dict` gives; `options` are
    changes to `metrics.DEFAULT_OPTIONS`. With `refuse_at_door=False` requests too large for the
    engine queue up all the same. Returns a dictionary of `requests` (one dictionary a row),
    `iterations` (one dictionary each) and `summary` (flat).
    """
    options = {**DEFAULT_OPTIONS, **(options or {})}
    assert options.keys() == DEFAULT_OPTIONS.keys(), "unknown option"
    config = {**DEFAULT_CONFIG, **config}
    check_input(requests, config)
    engine = run_engine(requests, config, cost, refuse_at_door)
    isolated = {}
    rows = []
    for request in engine.requests:
        isolated_ps = None
        if request.status != "failed":
            alike = (request.prompt, request.output, request.given_kv_blocks)
            if alike not in isolated:
                isolated[alike] = isolated_e2e_ps(*alike, config, cost, refuse_at_door)
            isolated_ps = isolated[alike]
        rows.append(request_row(request, isolated_ps))
    summary = summarise(rows, engine.iterations, engine.itl_gaps_ps, config, options)
    return {"requests": rows, "iterations": engine.iterations, "summary": summary}


def check_input(requests, config):
    """Refuse what the rules do not provide for."""
    assert config["kv_reserve"] in ("on_demand", "full")
    assert config["vllm_version"] in ("0.33", "0.19")
    if config["discipline"] in PAGED:
        assert config["max_num_batched_tokens"] >= config["max_batch_size"]
    assert config["lookahead"] == 0 or policy_name(config["policy"]) not in FAIR
    stamped = sum(record.get("engine_time_s") is not None for record in requests)
    assert stamped in (0, len(requests)), "engine_time_s must be given in all rows or in none"


def run_engine(requests, config, cost, refuse_at_door):
    """Simulate, and return the engine as it stands at the end."""
    engine = Engine(
        [
            read_request(row, record, config, policy_key(config["policy"], row, record))
            for row, record in enumerate(with_predictions(requests, config))
        ],
        config,
        cost,
        refuse_at_door,
    )
    engine.run()
    return engine


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
    (request,) = run_engine([alone], undisturbed, cost, refuse_at_door).requests
    return request.finished_ps if request.status == "completed" else None
