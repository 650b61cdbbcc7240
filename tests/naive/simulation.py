"""`simulate`: a trace, a configuration and a cost in; rows, iterations and a summary out."""

from naive.engine import Engine
from naive.metrics import DEFAULT_OPTIONS, request_row, summarise
from naive.policies import policy_key
from naive.requests import read_request


def simulate(requests, config, cost, options=None):
    """Run a trace to its end.

    `requests` are dictionaries in row order with `arrival_s`, `prompt_tokens`, `output_tokens` and
    perhaps `kv_blocks`, `priority`, `deadline_s`, `cancel_at_s`; `config` has every field of a
    `SchedulerConfig`; `cost` is what `CostModel.to_dict` gives; `options` are changes to
    `metrics.DEFAULT_OPTIONS`. Returns a dictionary of `requests` (one dictionary a row),
    `iterations` (one dictionary each) and `summary` (flat).
    """
    options = {**DEFAULT_OPTIONS, **(options or {})}
    assert options.keys() == DEFAULT_OPTIONS.keys(), "unknown option"
    engine = run_engine(requests, config, cost)
    isolated = {}
    rows = []
    for request in engine.requests:
        isolated_ps = None
        if request.status != "failed":
            alike = (request.prompt, request.output, request.given_kv_blocks)
            if alike not in isolated:
                isolated[alike] = isolated_e2e_ps(*alike, config, cost)
            isolated_ps = isolated[alike]
        rows.append(request_row(request, isolated_ps))
    summary = summarise(rows, engine.iterations, engine.itl_gaps_ps, config, options)
    return {"requests": rows, "iterations": engine.iterations, "summary": summary}


def run_engine(requests, config, cost):
    """Simulate, and return the engine as it stands at the end."""
    engine = Engine(
        [
            read_request(row, record, config, policy_key(config["policy"], row, record))
            for row, record in enumerate(requests)
        ],
        config,
        cost,
    )
    engine.run()
    return engine


def isolated_e2e_ps(prompt, output, kv_blocks, config, cost):
    """How long the request takes alone on an idle engine: nothing to wait for, nothing ends it."""
    alone = {
        "arrival_s": 0.0,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "kv_blocks": kv_blocks,
    }
    undisturbed = {**config, "policy": "fcfs", "timeout_s": None, "max_wait_s": None}
    (request,) = run_engine([alone], undisturbed, cost).requests
    return request.finished_ps
