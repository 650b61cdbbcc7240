"""The oracle against the source document's vectors, and against its own invariants."""

import ast
import copy
import gzip
import json
import random
import sys
from pathlib import Path

import naive
import pytest
from naive.discipline import Batch
from naive.disciplines import DISCIPLINES, PAGED
from naive.examples import UNIT_COST, affine_cost, column, request, small_config
from naive.policies import POLICIES
from naive.requests import PS_PER_S
from naive.reserving import Strict

# Words by which the document's error texts can be told apart, and a word of ours for the same.
ERROR_WORDS = {
    "prefill_chunk_size": "prefill_chunk_size",
    "scheduled_tokens": "scheduled tokens leave",
    "预算": "token budget",
    "阶段": "unknown phase",
}


def test_the_oracle_needs_nothing_but_the_standard_library():
    allowed = {*sys.stdlib_module_names, "naive"}
    for path in Path(naive.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [str(node.module)]
            assert {name.partition(".")[0] for name in names} <= allowed, path


# The source document's vectors.


def read_vectors(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def error_pattern(document_error):
    return next(ours for word, ours in ERROR_WORDS.items() if word in document_error)


def test_boundary_vectors(shared):
    cases = read_vectors(shared / "conformance/seed/boundary.jsonl.gz")
    assert len(cases) == 5000
    for case in cases:
        given = copy.deepcopy(case["args"])
        if "error" in case:
            with pytest.raises(ValueError, match=error_pattern(case["error"])):
                naive.form_iteration_batch(**given)
        else:
            report = naive.form_iteration_batch(**given)
            assert report == case["report"]
            check_advance(report["batch"], case)
        assert given == case["args"]


def check_advance(batch, case):
    before = copy.deepcopy(batch)
    if "advance_error" in case:
        with pytest.raises(ValueError, match=error_pattern(case["advance_error"])):
            naive.advance_iteration(batch)
    else:
        assert naive.advance_iteration(batch) == case["advanced"]
    assert batch == before


def test_advance_refuses_an_unknown_phase():
    with pytest.raises(ValueError, match="'x': unknown phase 'verify'"):
        naive.advance_iteration([{"id": "x", "phase": "verify", "scheduled_tokens": 0}])


def closed_loop_input(run):
    settings = run["config"]
    config = small_config(
        max_batch_size=settings["max_batch_size"],
        max_num_batched_tokens=settings["max_num_batched_tokens"],
        prefill_chunk_size=settings["prefill_chunk_size"],
        kv_blocks=settings["kv_capacity"],
    )
    requests = [
        request(
            r["arrival_iteration"],
            r["prefill"],
            r["decode"] + 1,  # the prefill gives the first token
            kv_blocks=r["kv_blocks"],
            cancel_at_s=r["cancel_iteration"],
        )
        for r in run["requests"]
    ]
    return requests, config


def closed_loop_iterations(run):
    """The log's iterations with something in the batch, as rows of our trace."""
    row_of = {r["id"]: row for row, r in enumerate(run["requests"])}
    return [
        {
            "start_ps": entry["iteration"] * PS_PER_S,
            "end_ps": (entry["iteration"] + 1) * PS_PER_S,
            "scheduled": [(row_of[name], tokens) for name, tokens in entry["batch"]],
            "blocked_reason": entry["blocked"][0]["reason"] if entry["blocked"] else "",
            "blocked_row": row_of[entry["blocked"][0]["id"]] if entry["blocked"] else None,
            "free_kv_blocks": entry["free_kv_blocks"],
            "slots_in_use": run["config"]["max_batch_size"] - entry["free_slots"],
            "waiting": len(entry["waiting"]),
        }
        for entry in run["log"]
        if entry["batch"]
    ]


def closed_loop_ends(run):
    """(status, finished) of each request: who left at iteration t ended at t seconds."""
    ends = {}
    for entry in run["log"]:
        left = [*entry["terminal"], *((name, "cancelled") for name in entry["cancelled_in_queue"])]
        for name, status in left:
            assert name not in ends
            ends[name] = (status, entry["iteration"] * PS_PER_S)
    return [ends[r["id"]] for r in run["requests"]]


def test_closed_loop_vectors(shared):
    runs = read_vectors(shared / "conformance/seed/closed_loop.jsonl.gz")
    assert len(runs) == 200
    for run in runs:
        requests, config = closed_loop_input(run)
        result = naive.simulate(requests, config, UNIT_COST)
        expected = closed_loop_iterations(run)
        assert len(result["iterations"]) == len(expected)
        for ours, theirs in zip(result["iterations"], expected, strict=True):
            assert {name: ours[name] for name in theirs} == theirs
        ends = list(zip(column(result, "status"), column(result, "finished_ps"), strict=True))
        assert ends == closed_loop_ends(run)
        naive.check_invariants(requests, config, result)


# Invariants.


def random_case(seed, discipline, policy):
    draw = random.Random(f"{seed}{discipline}{policy}")
    requests = [
        request(
            draw.choice([0, 1, 2.5, 7, 30]) + draw.randint(0, 3) / 4,
            draw.choice([0, 1, 3, 4, 9, 30]),
            draw.choice([0, 1, 1, 2, 5, 20]),
            priority=draw.randint(0, 2),
            deadline_s=draw.choice([None, 5.0, 20.0]),
            cancel_at_s=draw.choice([None, None, None, 3.0, 9.5]),
        )
        for _ in range(draw.randint(1, 25))
    ]
    slots = draw.randint(1, 5)
    config = small_config(
        discipline=discipline,
        policy=policy,
        max_batch_size=slots,
        # A paged discipline needs a token for each slot.
        max_num_batched_tokens=max(draw.choice([2, 5, 8, 40]), slots * (discipline in PAGED)),
        prefill_chunk_size=draw.choice([1, 4, 16]),
        kv_blocks=draw.choice([None, 8, 15]),
        max_tokens=draw.choice([None, None, 20]),
        max_prefill_tokens=draw.choice([None, 3, 8]),
        max_wait_s=draw.choice([None, 0.0, 6.0]),
        timeout_s=draw.choice([None, 12.0]),
        lookahead=draw.choice([0, 0, 1, 3]),
    )
    cost = draw.choice([UNIT_COST, affine_cost(0.5, 0.125, 0.25, 0.001, 0.0005)])
    return requests, config, cost


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_invariants_hold(discipline, policy):
    for seed in range(25):
        requests, config, cost = random_case(seed, discipline, policy)
        result = naive.simulate(requests, config, cost)
        naive.check_invariants(requests, config, result)


def completed_run():
    requests = [request(0, 6, 3), request(0, 4, 2), request(1, 4, 2), request(1, 0, 2)]
    config = small_config(max_batch_size=2, kv_blocks=5)
    return requests, config, naive.simulate(requests, config, UNIT_COST)


def spoil(path, value):
    """A function that sets one value deep in a result."""

    def change(result):
        *parents, last = path
        place = result
        for key in parents:
            place = place[key]
        place[last] = value(place[last])

    return change


@pytest.mark.parametrize(
    "change",
    [
        spoil(["requests", 0, "status"], lambda _: "active"),
        spoil(["requests", 0, "finished_ps"], lambda _: None),
        spoil(["requests", 3, "finished_ps"], lambda at: at + 1),
        spoil(["requests", 3, "reason"], lambda _: ""),
        spoil(["requests", 1, "admitted_ps"], lambda _: 9 * PS_PER_S),
        spoil(["requests", 1, "first_token_ps"], lambda _: None),
        spoil(["requests", 2, "blocked_slot_ps"], lambda ps: ps + 1),
        spoil(["summary", "completed"], lambda n: n + 1),
        spoil(["iterations", 1, "iteration"], lambda n: n + 1),
        spoil(["iterations", 1, "start_ps"], lambda ps: ps - 1),
        spoil(["iterations", 0, "scheduled"], lambda _: []),
        spoil(["iterations", 0, "scheduled"], lambda batch: batch + batch[:1]),
        spoil(["iterations", 0, "scheduled"], lambda batch: [*batch, (2, 1)]),
        spoil(["iterations", 0, "scheduled"], lambda batch: [(0, 5), *batch[1:]]),
        spoil(["iterations", 2, "scheduled"], lambda batch: [*batch, (1, 1)]),
        spoil(["iterations", 1, "scheduled"], lambda batch: batch[1:]),
        spoil(["iterations", 0, "admitted"], lambda rows: rows[:1]),
        spoil(["iterations", 1, "finished"], lambda _: []),
        spoil(["iterations", 1, "blocked_row"], lambda _: None),
        spoil(["iterations", 1, "free_kv_blocks"], lambda n: n + 1),
    ],
)
def test_invariants_notice(change):
    requests, config, result = completed_run()
    naive.check_invariants(requests, config, result)
    change(result)
    with pytest.raises(AssertionError):
        naive.check_invariants(requests, config, result)


@pytest.mark.parametrize(
    "bounds",
    [{"max_batch_size": 1}, {"max_num_batched_tokens": 7}, {"max_prefill_tokens": 7}],
)
def test_invariants_notice_a_bound_that_was_not_kept(bounds):
    requests, config, result = completed_run()
    with pytest.raises(AssertionError):
        naive.check_invariants(requests, {**config, **bounds}, result)


# A discipline that gets nowhere is noticed.


class Idle(Strict):
    def form_batch(self, engine):
        return Batch([], [])


class Empty(Strict):
    def form_batch(self, engine):
        return Batch([(engine.head(), 0)], [])


@pytest.mark.parametrize("discipline", [Idle, Empty])
def test_no_progress_is_an_error(monkeypatch, discipline):
    monkeypatch.setitem(DISCIPLINES, "strict", discipline)
    with pytest.raises(RuntimeError):
        naive.simulate([request(0, 1, 1)], small_config(), UNIT_COST)
