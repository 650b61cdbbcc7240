"""The four functions of one iteration boundary, on lists of dictionaries.

Records carry `id`, `phase`, `remaining_prefill_tokens`, `remaining_decode_tokens`, `kv_blocks`,
`status`. Nothing that is passed in is changed.
"""

TERMINAL_STATUSES = ("completed", "cancelled", "timed_out", "failed")


def iteration_token_demand(request, prefill_chunk_size):
    """Tokens that the request wants to compute in one iteration."""
    if prefill_chunk_size <= 0:
        raise ValueError(f"prefill_chunk_size must be positive, not {prefill_chunk_size}")
    if request["phase"] == "prefill":
        prompt_left = max(0, request["remaining_prefill_tokens"])
        return min(prompt_left, prefill_chunk_size)
    if request["phase"] == "decode":
        return 1 if request["remaining_decode_tokens"] > 0 else 0
    raise ValueError(f"request {request['id']!r}: unknown phase {request['phase']!r}")


def release_terminal_requests(active_requests):
    """Part the active from those that have ended, and count the blocks that come back."""
    kept = [dict(r) for r in active_requests if r["status"] not in TERMINAL_STATUSES]
    ended = [dict(r) for r in active_requests if r["status"] in TERMINAL_STATUSES]
    return kept, ended, sum(r["kv_blocks"] for r in ended)


def form_iteration_batch(
    active_requests,
    waiting_requests,
    max_batch_size,
    free_kv_blocks,
    max_num_batched_tokens,
    prefill_chunk_size,
):
    """Release, keep the active, then admit from the queue until its head fails a gate."""
    active, terminal, released = release_terminal_requests(active_requests)
    batch = [
        {**request, "scheduled_tokens": iteration_token_demand(request, prefill_chunk_size)}
        for request in active
    ]
    slots = max_batch_size - len(batch)
    blocks = free_kv_blocks + released
    tokens = max_num_batched_tokens - sum(request["scheduled_tokens"] for request in batch)
    if slots < 0 or tokens < 0:
        raise ValueError("the active requests alone exceed the slots or the token budget")

    queue = [dict(request) for request in waiting_requests]
    blocked = []
    while queue and not blocked:
        head = queue[0]
        demand = iteration_token_demand(head, prefill_chunk_size)
        if slots < 1:
            blocked.append({"id": head["id"], "reason": "slot"})
        elif blocks < head["kv_blocks"]:
            blocked.append({"id": head["id"], "reason": "kv_blocks"})
        elif tokens < demand:
            blocked.append({"id": head["id"], "reason": "token_budget"})
        else:
            batch.append({**queue.pop(0), "status": "active", "scheduled_tokens": demand})
            slots -= 1
            blocks -= head["kv_blocks"]
            tokens -= demand
    return {
        "batch": batch,
        "waiting": queue,
        "terminal": terminal,
        "blocked": blocked,
        "released_kv_blocks": released,
        "free_slots": slots,
        "free_kv_blocks": blocks,
        "free_token_budget": tokens,
    }


def advance_iteration(batch):
    """Take the scheduled tokens off what is left, and move on the phase or the status."""
    return [_advanced(dict(request)) for request in batch]


def _advanced(request):
    phase = request["phase"]
    if phase not in ("prefill", "decode"):
        raise ValueError(f"request {request['id']!r}: unknown phase {phase!r}")
    field = f"remaining_{phase}_tokens"
    request[field] -= request["scheduled_tokens"]
    if request[field] < 0:
        raise ValueError(
            f"request {request['id']!r}: {request['scheduled_tokens']} scheduled tokens leave "
            f"{field} at {request[field]}"
        )
    if request[field] == 0 and phase == "prefill":
        request["phase"] = "decode"
    elif request[field] == 0:
        request["status"] = "completed"
    return request
