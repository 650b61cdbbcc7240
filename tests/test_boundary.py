"""The four boundary functions: the source document's vectors, then small cases by hand."""

import copy
import gzip
import json
import re

import naive
import numpy as np
import pytest

from vecsched import RequestTable
from vecsched.boundary import (
    advance_iteration,
    form_iteration_batch,
    iteration_token_demand,
    release_terminal_requests,
)
from vecsched.errors import BoundaryError

TABLES = ("active_requests", "waiting_requests")


def record(name, phase="prefill", prompt=0, output=1, blocks=1, status="active", **more):
    return {
        "id": name,
        "phase": phase,
        "remaining_prefill_tokens": prompt,
        "remaining_decode_tokens": output,
        "kv_blocks": blocks,
        "status": status,
        **more,
    }


def table(*records):
    return RequestTable.from_records(records)


# The source document's 5,000 cases.


@pytest.fixture(scope="module")
def cases(shared):
    path = shared / "conformance/seed/boundary.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def on_tables(arguments):
    return {
        name: RequestTable.from_records(value) if name in TABLES else value
        for name, value in arguments.items()
    }


def oracle_error(function, *arguments, **named):
    """What the oracle says of the same input: its message names the request."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is what is asked for
        function(*arguments, **named)
    return str(caught.value)


# By a word of the document's error text: what our message must say, given the call and what the
# oracle says (whose words for the request are the same as ours).
def words_for_error(document_error, arguments, oracle_message):
    if "prefill_chunk_size" in document_error:
        return f"prefill_chunk_size must be positive, not {arguments['prefill_chunk_size']}"
    if "预算" in document_error:  # budget
        active, _, _ = naive.release_terminal_requests(arguments["active_requests"])
        chunk = arguments["prefill_chunk_size"]
        tokens = sum(naive.iteration_token_demand(request, chunk) for request in active)
        return (
            f"{len(active)} of {arguments['max_batch_size']} slots, "
            f"{tokens} of {arguments['max_num_batched_tokens']} tokens"
        )
    assert "未知请求阶段" in document_error  # unknown request phase
    name, phase = re.fullmatch("request (.*): unknown phase (.*)", oracle_message).groups()
    return f"request {name} has the unknown phase {phase}"


def test_form_iteration_batch_on_the_vectors(cases):
    assert len(cases) == 5000
    for case in cases:
        arguments = on_tables(case["args"])
        if "error" in case:
            message = oracle_error(naive.form_iteration_batch, **case["args"])
            words = words_for_error(case["error"], case["args"], message)
            with pytest.raises(BoundaryError, match=re.escape(words)):
                form_iteration_batch(**arguments)
        else:
            report = form_iteration_batch(**arguments).to_dict()
            # Through JSON: plain Python values, in the document's order of keys.
            assert json.dumps(report) == json.dumps(case["report"])
        for name in TABLES:
            assert arguments[name].to_records() == case["args"][name]


def test_advance_iteration_on_the_vectors(cases):
    outcomes = {"advanced": 0, "advance_error": 0}
    for case in cases:
        if "error" in case:
            continue
        records = case["report"]["batch"]
        batch = RequestTable.from_records(records)
        if "advance_error" in case:
            assert "scheduled_tokens 不能超过" in case["advance_error"]  # may not exceed
            message = oracle_error(naive.advance_iteration, records)
            pattern = r"request (.*): (\d+) scheduled tokens leave remaining_(.*)_tokens at (-\d+)"
            name, scheduled, phase, left = re.fullmatch(pattern, message).groups()
            remaining = int(left) + int(scheduled)
            words = f"request {name} has {scheduled} tokens scheduled but only {remaining} {phase} "
            with pytest.raises(BoundaryError, match=words):
                advance_iteration(batch)
            outcomes["advance_error"] += 1
        else:
            assert json.dumps(advance_iteration(batch).to_records()) == json.dumps(case["advanced"])
            outcomes["advanced"] += 1
        assert batch.to_records() == records
    assert outcomes == {"advanced": 2408, "advance_error": 119}


def test_demand_and_release_on_the_vectors(cases):
    """The other two functions, each on its own, on both tables of every case."""
    for case in cases:
        chunk = case["args"]["prefill_chunk_size"]
        for name in TABLES:
            records = case["args"][name]
            requests = RequestTable.from_records(records)
            kept, terminal, released = release_terminal_requests(requests)
            theirs = naive.release_terminal_requests(records)
            assert (kept.to_records(), terminal.to_records(), released) == theirs
            if chunk > 0 and all(r["phase"] != "verify" for r in records):
                demand = iteration_token_demand(requests, chunk)
                assert (demand.dtype, demand.shape) == (np.int64, (len(records),))
                expected = [naive.iteration_token_demand(r, chunk) for r in records]
                assert demand.tolist() == expected
            elif chunk <= 0:
                with pytest.raises(BoundaryError, match=f"must be positive, not {chunk}"):
                    iteration_token_demand(requests, chunk)
            else:
                with pytest.raises(BoundaryError, match="has the unknown phase 'verify'"):
                    iteration_token_demand(requests, chunk)
            assert requests.to_records() == records


# By hand.


def test_demand():
    requests = table(
        record("a", prompt=10),  # a chunk of its ten
        record("b", prompt=3),  # all that is left
        record("c", prompt=0),  # nothing left, although still in its prefill
        record("d", prompt=-2),  # never negative
        record("e", "decode", prompt=9, output=5),
        record("f", "decode", output=0),
        record("g", "decode", output=-1),
    )
    assert iteration_token_demand(requests, 4).tolist() == [4, 3, 0, 0, 1, 0, 0]
    assert iteration_token_demand(table(), 4).tolist() == []


def test_release():
    names = ["completed", "active", "failed", "waiting", "timed_out", "cancelled"]
    requests = table(*(record(s, status=s, blocks=2**k) for k, s in enumerate(names)))
    kept, terminal, released = release_terminal_requests(requests)
    assert kept.id.tolist() == ["active", "waiting"]
    assert terminal.id.tolist() == ["completed", "failed", "timed_out", "cancelled"]
    assert released == 1 + 4 + 16 + 32


def test_form_a_batch():
    # 5 slots, 3 + 4 free blocks, 10 tokens. The cancelled one leaves and returns 4 blocks. Active:
    # a decode (1 token) and a chunk of 4. The queue: w1 takes a slot, 2 of 7 blocks, 3 of the 5
    # tokens left; w2 a slot, 5 blocks and its 2 tokens; w3 meets all gates but one.
    active = [
        record("a1", "decode", output=7, blocks=3),
        record("a2", "decode", output=2, blocks=4, status="cancelled"),
        record("a3", prompt=9, blocks=2),
    ]
    waiting = [
        record("w1", prompt=3, blocks=2, status="waiting"),
        record("w2", prompt=2, blocks=5, status="waiting"),
        record("w3", prompt=1, blocks=0, status="waiting"),
    ]
    report = form_iteration_batch(table(*active), table(*waiting), 5, 3, 10, 4)
    scheduled = zip(report.batch.id, report.batch.scheduled_tokens, strict=True)
    assert list(scheduled) == [("a1", 1), ("a3", 4), ("w1", 3), ("w2", 2)]
    assert [row["status"] for row in report.batch.to_records()] == ["active"] * 4
    assert report.terminal.id.tolist() == ["a2"]
    assert report.waiting.to_records() == waiting[2:]
    assert report.blocked == [{"id": "w3", "reason": "token_budget"}]
    assert report.released_kv_blocks == 4
    assert (report.free_slots, report.free_kv_blocks, report.free_token_budget) == (1, 0, 0)


@pytest.mark.parametrize(
    ("slots", "blocks", "tokens", "reason"),
    [(1, 9, 9, "slot"), (2, 1, 9, "kv_blocks"), (2, 9, 3, "token_budget"), (1, 1, 3, "slot")],
)
def test_the_first_gate_that_fails_is_the_reason(slots, blocks, tokens, reason):
    # Beside one decode: the head wants 2 blocks and 3 tokens; the small one behind may not pass.
    waiting = table(record("big", prompt=3, blocks=2), record("small", prompt=1, blocks=0))
    report = form_iteration_batch(table(record("a", "decode")), waiting, slots, blocks, tokens, 4)
    assert report.blocked == [{"id": "big", "reason": reason}]
    assert report.waiting.id.tolist() == ["big", "small"]


def test_a_phase_is_looked_at_only_when_its_turn_comes():
    waiting = table(record("head", blocks=5), record("odd", "verify"))
    report = form_iteration_batch(table(), waiting, 4, 1, 9, 4)
    assert report.blocked == [{"id": "head", "reason": "kv_blocks"}]
    assert report.waiting.to_records()[1]["phase"] == "verify"
    with pytest.raises(BoundaryError, match="request 'odd' has the unknown phase 'verify'"):
        form_iteration_batch(table(), waiting, 4, 9, 9, 4)


def test_advance():
    batch = table(
        record("a", prompt=9, output=2, scheduled_tokens=4),  # 5 left
        record("b", prompt=4, output=2, scheduled_tokens=4),  # decodes from now on
        record("c", "decode", output=2, scheduled_tokens=1),  # 1 left
        record("d", "decode", output=1, scheduled_tokens=1),  # completed
        record("e", "decode", output=0, scheduled_tokens=0),  # completed with nothing to do
    )
    before = copy.deepcopy(batch.to_records())
    after = advance_iteration(batch).to_records()
    fields = ("phase", "remaining_prefill_tokens", "remaining_decode_tokens", "status")
    assert [tuple(row[name] for name in fields) for row in after] == [
        ("prefill", 5, 2, "active"),
        ("decode", 0, 2, "active"),
        ("decode", 0, 1, "active"),
        ("decode", 0, 0, "completed"),
        ("decode", 0, 0, "completed"),
    ]
    assert batch.to_records() == before


def test_advance_refuses():
    with pytest.raises(BoundaryError, match="no scheduled_tokens"):
        advance_iteration(table(record("a", prompt=1)))
    with pytest.raises(BoundaryError, match="'a' has 5 tokens scheduled but only 4 prefill tokens"):
        advance_iteration(table(record("a", prompt=4, scheduled_tokens=5)))
    with pytest.raises(BoundaryError, match="'b' has the unknown phase 'verify'"):
        advance_iteration(table(record("b", "verify", scheduled_tokens=0)))
