"""What must hold in every run, whoever simulated it.

Oracle and engine may share a mistake; these statements are made from the input and the log alone.
"""

from collections import Counter

from naive.asynchronous_replay import AsynchronousReplay
from naive.disciplines import PAGED
from naive.metrics import STATUSES
from naive.replay import Replay
from naive.requests import BLOCK_REASONS, to_ps
from naive.simulation import DEFAULT_CONFIG

RESOURCES = ("kv_blocks", "token_budget")  # whose want can fail a request in the queue


def check_invariants(requests, config, result):
    """Raise AssertionError unless every invariant holds.

    `result` has the shape of `naive.simulate`; of an iteration's record, only `iteration`,
    `start_ps`, `end_ps`, `scheduled`, `admitted`, `preempted`, `finished`, `blocked_reason`,
    `blocked_row` and `free_kv_blocks` are read; with prefix caching `num_cached_tokens`, too, and
    `free_queue` and `block_tables` if they are there.
    """
    config = {**DEFAULT_CONFIG, **config}
    rows, iterations = result["requests"], result["iterations"]
    assert len(rows) == len(requests)
    for record, row in zip(requests, rows, strict=True):
        check_terminal_state(record, row, config["discipline"] in PAGED)
        check_instants(record, row)
    check_counts(rows, result["summary"])
    check_clock(iterations)
    replay = (AsynchronousReplay if config["async_scheduling"] else Replay)(requests, config, rows)
    for it in iterations:
        replay.take(it)
    replay.check_end()
    check_blocked(rows, iterations)


def check_terminal_state(record, row, is_paged):
    """One terminal state each; only failures have a reason, nearly all of them at the door."""
    assert row["status"] in STATUSES, row
    assert (row["status"] == "failed") == (row["reason"] != ""), row
    assert row["finished_ps"] is not None, row
    may_fail_late = is_paged and row["reason"] in RESOURCES
    if row["status"] == "failed" and not may_fail_late:
        assert row["finished_ps"] == to_ps(record["arrival_s"]), row
        assert row["admitted_ps"] is None, row


def check_instants(record, row):
    """arrival <= admitted <= first token <= finished, as far as they exist."""
    instants = [row["admitted_ps"], row["first_token_ps"], row["finished_ps"]]
    if row["status"] == "completed":
        assert None not in instants, row
    known = [to_ps(record["arrival_s"]), *(at for at in instants if at is not None)]
    assert known == sorted(known), row
    assert row["admitted_ps"] is not None or row["first_token_ps"] is None, row


def check_counts(rows, summary):
    statuses = Counter(row["status"] for row in rows)
    assert summary["requests"] == len(rows)
    assert {name: summary[name] for name in STATUSES} == {name: statuses[name] for name in STATUSES}
    for name in ("preemptions", "recomputed_tokens"):
        assert summary[name] == sum(row[name] for row in rows)


def check_clock(iterations):
    """Time never runs backwards and iterations do not overlap."""
    now = 0
    for number, it in enumerate(iterations):
        assert it["iteration"] == number, it
        assert now <= it["start_ps"] <= it["end_ps"], it
        now = it["end_ps"]


def check_blocked(rows, iterations):
    """Blocked time is charged once: to the blocked head, in full, under its reason."""
    charged = Counter()
    for it in iterations:
        assert (it["blocked_reason"] == "") == (it["blocked_row"] is None), it
        if it["blocked_reason"]:
            charged[it["blocked_row"], it["blocked_reason"]] += it["end_ps"] - it["start_ps"]
    for i, row in enumerate(rows):
        for reason in BLOCK_REASONS:
            assert row[f"blocked_{reason}_ps"] == charged[i, reason], row
