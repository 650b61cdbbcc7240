"""What must hold in every run, whoever simulated it.

Oracle and engine may share a mistake; these statements are made from the input and the log alone.
"""

from collections import Counter

from naive.metrics import STATUSES
from naive.requests import BLOCK_REASONS, to_ps

RESERVING = ("strict", "static")  # disciplines whose KV is fixed at admission


def check_invariants(requests, config, result):
    """Raise AssertionError unless every invariant holds.

    `result` has the shape of `naive.simulate`; of an iteration's record, only `iteration`,
    `start_ps`, `end_ps`, `scheduled`, `admitted`, `finished`, `blocked_reason`, `blocked_row` and
    `free_kv_blocks` are read.
    """
    rows, iterations = result["requests"], result["iterations"]
    assert len(rows) == len(requests)
    for record, row in zip(requests, rows, strict=True):
        check_terminal_state(record, row)
        check_instants(record, row)
    check_counts(rows, result["summary"])
    check_clock(iterations)
    check_membership(rows, iterations)
    check_tokens(requests, rows, iterations)
    check_prefill_bounds(requests, config, iterations)
    check_capacity(requests, config, rows, iterations)
    check_blocked(rows, iterations)


def check_terminal_state(record, row):
    """One terminal state each; only failures have a reason, and they never ran."""
    assert row["status"] in STATUSES, row
    assert (row["status"] == "failed") == (row["reason"] != ""), row
    assert row["finished_ps"] is not None, row
    if row["status"] == "failed":
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


def check_clock(iterations):
    """Time never runs backwards and iterations do not overlap."""
    now = 0
    for number, it in enumerate(iterations):
        assert it["iteration"] == number, it
        assert now <= it["start_ps"] <= it["end_ps"], it
        now = it["end_ps"]


def check_membership(rows, iterations):
    """Admitted, then scheduled once an iteration and never after the end, completed once."""
    admitted, completed = set(), set()
    for it in iterations:
        for row in it["admitted"]:
            assert row in admitted or rows[row]["admitted_ps"] == it["start_ps"], it
            admitted.add(row)
        scheduled = [row for row, _ in it["scheduled"]]
        assert len(scheduled) > 0, it
        assert len(set(scheduled)) == len(scheduled), it
        assert admitted.issuperset(scheduled), it
        assert completed.isdisjoint(scheduled), it
        for row in scheduled:
            assert it["end_ps"] <= rows[row]["finished_ps"], it
            assert not (ended_early(rows[row]) and rows[row]["finished_ps"] <= it["start_ps"]), it
        for row in it["finished"]:
            assert row in scheduled, it
            assert rows[row]["finished_ps"] == it["end_ps"], it
        completed.update(it["finished"])
    assert completed == {i for i, row in enumerate(rows) if row["status"] == "completed"}
    assert admitted == {i for i, row in enumerate(rows) if row["admitted_ps"] is not None}


def ended_early(row):
    return row["status"] in ("cancelled", "timed_out")


def check_tokens(requests, rows, iterations):
    """Tokens in = tokens out: the last output token is the only one not computed."""
    computed = Counter()
    for it in iterations:
        computed.update(dict(it["scheduled"]))
    for i, (record, row) in enumerate(zip(requests, rows, strict=True)):
        needed = record["prompt_tokens"] + record["output_tokens"] - 1 + row["recomputed_tokens"]
        if row["status"] == "completed":
            assert computed[i] == needed, (row, computed[i])
        else:
            assert computed[i] <= max(needed, 0), (row, computed[i])


def check_prefill_bounds(requests, config, iterations):
    """No iteration over the token budget, no chunk too large, prefill within its own bound."""
    computed = Counter()
    for it in iterations:
        prefill_tokens = 0
        for row, tokens in it["scheduled"]:
            if computed[row] < requests[row]["prompt_tokens"]:
                assert 0 < tokens <= config["prefill_chunk_size"], it
                prefill_tokens += tokens
            else:
                assert tokens <= 1, it
            computed[row] += tokens
        all_tokens = sum(tokens for _, tokens in it["scheduled"])
        assert all_tokens <= config["max_num_batched_tokens"], it
        assert prefill_tokens <= (config["max_prefill_tokens"] or prefill_tokens), it


def check_capacity(requests, config, rows, iterations):
    """No more members than slots; blocks held and free add up to the capacity."""
    members, gone = [], set()
    capacity = config["kv_blocks"]
    for it in iterations:
        gone |= {
            row
            for row in members
            if ended_early(rows[row]) and rows[row]["finished_ps"] <= it["start_ps"]
        }
        if config["discipline"] != "static" or gone.issuperset(members):
            members = [row for row in members if row not in gone]
        members += it["admitted"]
        assert len(members) <= config["max_batch_size"], it
        assert set(members).issuperset(row for row, _ in it["scheduled"]), it
        if capacity is None:
            assert it["free_kv_blocks"] is None, it
        else:
            assert 0 <= it["free_kv_blocks"] <= capacity, it
            if config["discipline"] in RESERVING:
                held = sum(reservation(requests[row], config) for row in members)
                assert held + it["free_kv_blocks"] == capacity, it
        gone |= set(it["finished"])


def reservation(record, config):
    if record.get("kv_blocks") is not None:
        return record["kv_blocks"]
    output = config["max_tokens"] or record["output_tokens"]
    return (record["prompt_tokens"] + output + config["block_size"] - 1) // config["block_size"]


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
