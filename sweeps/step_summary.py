"""What the steps of a log come to: its counts, and the special cases that steps can tell."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from sweeps.scenario_file import Scenario, Step, Summary
from vecsched import SchedulerConfig


def summary_of(steps: Sequence[Step], scenario: Scenario) -> Summary:
    """Count what happened in some steps of a scenario.

    Of the events, only those are counted that follow from the steps: see `docs/vllm-step-logs.md`.
    Those that need the block tables are left out if the steps have none.
    """
    victims = Counter(chain.from_iterable(step.preempted for step in steps))
    cached = [dict(step.num_cached_tokens) for step in steps]
    of_resumed = (
        found.get(request, 0)
        for step, found in zip(steps, cached, strict=True)
        for request in step.resumed
    )
    return Summary(
        steps=len(steps),
        last_step=steps[-1].step if steps else None,
        finished=sum(len(step.finished) for step in steps),
        preemptions=victims.total(),
        max_preemptions_of_one=max(victims.values(), default=0),
        scheduled_tokens=sum(tokens for step in steps for _, tokens in step.scheduled),
        cached_tokens=sum(sum(found.values()) for found in cached),
        cached_tokens_of_resumed=sum(of_resumed),
        max_running=max((step.num_running for step in steps), default=None),
        min_free_blocks=min((step.free_blocks_after_schedule for step in steps), default=None),
        events=_events_of_steps(steps, scenario.config)
        | _events_of_requests(steps, scenario)
        | _hits(steps, scenario.config.block_size),
    )


def _events_of_steps(steps: Iterable[Step], config: SchedulerConfig) -> dict[str, int]:
    """Count what a single step shows."""
    spares_lone = config.long_prefill_token_threshold > 0 and config.vllm_version != "0.19"
    # The last token of a victim was on the way: it ends from the queue in this very step.
    ended_waiting = sum(len(set(step.preempted).intersection(step.finished)) for step in steps)
    return {
        "several_victims_in_a_step": sum(len(step.preempted) > 1 for step in steps),
        "threshold_off_lone": sum(
            spares_lone and step.num_running + step.num_waiting == 1 for step in steps
        ),
        "victim_last_token_in_flight": ended_waiting,
        "finished_while_waiting": ended_waiting,
    }


def _events_of_requests(steps: Iterable[Step], scenario: Scenario) -> dict[str, int]:
    """Count what shows how far a request was when it was preempted or came back."""
    size, is_async = scenario.config.block_size, scenario.config.async_scheduling
    known = scenario.trace.prompt_tokens.tolist()  # with the tokens on the way
    computed = [0] * len(known)
    before: set[int] = set()  # who was scheduled in the step before
    events = dict.fromkeys(
        ("victim_mid_prefill", "victim_in_flight", "resumed_with_hit", "resumed_hit_partial"), 0
    )
    for step in steps:
        for request in step.preempted:
            events["victim_mid_prefill"] += computed[request] < known[request] - 1
            events["victim_in_flight"] += is_async and request in before
            computed[request] = 0
        for request, tokens in step.num_cached_tokens:
            computed[request] = tokens
        for request in step.resumed:
            possible = (known[request] - 1) // size * size
            events["resumed_with_hit"] += computed[request] > 0
            events["resumed_hit_partial"] += 0 < computed[request] < possible
        for request, tokens in step.scheduled:
            computed[request] += tokens
            known[request] += computed[request] == known[request]
        before = {request for request, _ in step.scheduled}
    return events


def _hits(steps: Sequence[Step], block_size: int) -> dict[str, int]:
    """Count blocks found in the cache while others held them, and while nobody did."""
    events = {"hit_in_use": 0, "hit_freed": 0}
    for step in steps:
        if step.block_tables is None:
            return {}
        found, held = dict(step.num_cached_tokens), set[int]()
        # Running order: whoever stands ahead was there before.
        for request, blocks in step.block_tables:
            hits = blocks[: found.get(request, 0) // block_size]
            in_use = len(held.intersection(hits))
            events["hit_in_use"] += in_use
            events["hit_freed"] += len(hits) - in_use
            held.update(blocks)
    return events
