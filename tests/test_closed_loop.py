"""The engine against the source document's closed loop: the four functions, run to the end."""

import gzip
import json

import naive
from compare import as_oracle_takes_it, in_oracle_shape, trace_of

from vecsched import CostModel, SchedulerConfig, simulate
from vecsched.clock import PS_PER_S


def read_runs(shared):
    with gzip.open(shared / "conformance/seed/closed_loop.jsonl.gz", "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def records_of(run):
    """Whole seconds for iterations; the prefill's last iteration gives a token of its own."""
    return [
        {
            "arrival_s": float(request["arrival_iteration"]),
            "prompt_tokens": request["prefill"],
            "output_tokens": request["decode"] + 1,
            "kv_blocks": request["kv_blocks"],
            "cancel_at_s": request["cancel_iteration"],
        }
        for request in run["requests"]
    ]


def config_of(run):
    settings = run["config"]
    return SchedulerConfig(
        max_batch_size=settings["max_batch_size"],
        max_num_batched_tokens=settings["max_num_batched_tokens"],
        prefill_chunk_size=settings["prefill_chunk_size"],
        kv_blocks=settings["kv_capacity"],
    )


def logged_iterations(run):
    """The log's boundaries that formed a batch; a boundary at t ends at t + 1."""
    row_of = {request["id"]: row for row, request in enumerate(run["requests"])}
    expected = []
    for entry in run["log"]:
        if entry["batch"]:
            (head,) = entry["blocked"] or [{"id": None, "reason": ""}]
            expected.append(
                {
                    "iteration": len(expected),
                    "start_ps": entry["iteration"] * PS_PER_S,
                    "end_ps": (entry["iteration"] + 1) * PS_PER_S,
                    "scheduled": [(row_of[name], tokens) for name, tokens in entry["batch"]],
                    "blocked_reason": head["reason"],
                    "blocked_row": row_of.get(head["id"]),
                    "free_kv_blocks": entry["free_kv_blocks"],
                    "free_token_budget": entry["free_token_budget"],
                    "slots_in_use": run["config"]["max_batch_size"] - entry["free_slots"],
                }
            )
    return expected


def logged_ends(run):
    """(status, picoseconds) by row: who is gone from the batch of iteration t ended at t."""
    ends = {}
    for entry in run["log"]:
        left = [*entry["terminal"], *((name, "cancelled") for name in entry["cancelled_in_queue"])]
        ends |= {name: (status, entry["iteration"] * PS_PER_S) for name, status in left}
    return [ends[request["id"]] for request in run["requests"]]


def test_closed_loop(shared):
    runs = read_runs(shared)
    assert len(runs) == 200
    for run in runs:
        records, config = records_of(run), config_of(run)
        trace = trace_of(records)
        ours = in_oracle_shape(simulate(trace, config, CostModel.unit(), log_iterations=True))
        expected = logged_iterations(run)
        for it in ours["iterations"]:
            it["free_token_budget"] = config.max_num_batched_tokens - sum(
                tokens for _, tokens in it["scheduled"]
            )
        assert [
            {name: mine[name] for name in theirs}
            for mine, theirs in zip(ours["iterations"], expected, strict=True)
        ] == expected
        ends = [(row["status"], row["finished_ps"]) for row in ours["requests"]]
        assert ends == logged_ends(run)
        naive.check_invariants(records, as_oracle_takes_it(config), ours)
