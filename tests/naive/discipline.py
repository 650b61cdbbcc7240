"""What the engine asks of a discipline, and the walk through the queue that all of them share."""

from dataclasses import dataclass, field

from naive.requests import Request


@dataclass
class Batch:
    """What was decided at one boundary."""

    scheduled: list[tuple[Request, int]]  # in batch order
    admitted: list[Request]  # in order of admission
    blocked: tuple[Request, str] | None = None  # the blocked head and its reason
    preempted: list[Request] = field(default_factory=list)  # in order of preemption


class Discipline:
    """What the engine asks. `engine` is a `naive.engine.Engine`, with its clock at the boundary."""

    def kv_need(self, request, config):
        """KV blocks of a whole reservation."""
        if request.given_kv_blocks is not None:
            return request.given_kv_blocks
        longest_output = request.output if config["max_tokens"] is None else config["max_tokens"]
        return blocks_of(request.prompt + longest_output, config)

    def smallest_kv_need(self, request, config):
        """KV blocks without which the request cannot be served to its end."""
        return self.kv_need(request, config)

    def smallest_demand(self, request, config):
        """Tokens that some iteration of the request needs at the least."""
        raise NotImplementedError

    def leaving(self, active):
        """Those of the active that give back slot and blocks now."""
        return [request for request in active if request.has_ended]

    def form_batch(self, engine):
        """Admit from the engine's queue, and say who computes how many tokens: a `Batch`."""
        raise NotImplementedError

    def is_completed(self, request, was_in_prefill):
        """Whether a request is completed by the iteration that it went into as told."""
        return request.output_left == 0


def blocks_of(tokens, config):
    """KV blocks that so many tokens fill."""
    return -(-tokens // config["block_size"])


def admit_in_order(engine, try_to_admit):
    """Admit from the queue; returns (admitted, blocked head and its reason or None).

    `try_to_admit(request)` admits the request and returns None, or leaves all as it is and returns
    the reason. Up to `lookahead` blocked requests are passed over, but none for want of a slot.
    """
    admitted, blocked, passed_over = [], None, 0
    for request in engine.heads():
        reason = try_to_admit(request)
        if reason is None:
            admitted.append(request)
            continue
        blocked = blocked or (request, reason)
        if reason == "slot" or passed_over == engine.config["lookahead"]:
            break
        passed_over += 1
    return admitted, blocked
