"""The record of an iteration, as it stands when the batch is formed."""


def record_of(engine, batch, ended):
    """What is known before the iteration runs; `ended` are those that ended early just before."""
    return {
        "iteration": len(engine.iterations),
        "start_ps": engine.now_ps,
        "scheduled": [(request.row, tokens) for request, tokens in batch.scheduled],
        "admitted": rows_of(batch.admitted),
        "newly_admitted": rows_of(r for r in batch.admitted if r.preemptions == 0),
        "resumed": rows_of(r for r in batch.admitted if r.preemptions > 0),
        "preempted": rows_of(batch.preempted),
        "ended": [(request.row, request.status) for request in ended],
        "blocked_reason": batch.blocked[1] if batch.blocked else "",
        "blocked_row": batch.blocked[0].row if batch.blocked else None,
        "running_order": rows_of(engine.active),
        "waiting_order": rows_of(engine.queue()),
        "free_kv_blocks": engine.kv.free,
        "waiting": len(engine.waiting),
        "backlogged": rows_of(r for r in engine.waiting if r.admitted_ps is None),
        "slots_in_use": len(engine.active),
        "held_kv_blocks": engine.kv.held,
        # Who was admitted with tokens from the cache.
        "num_cached_tokens": [(r.row, r.computed) for r in batch.admitted if r.computed > 0],
        **engine.kv.record(engine.active),
    }


def rows_of(requests):
    return [request.row for request in requests]
