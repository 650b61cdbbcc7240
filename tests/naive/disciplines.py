"""How the batch of one iteration is formed: one class for each discipline.

The engine asks a discipline for what differs between them and does all else itself. A new one is a
subclass of `Discipline` and a row in `DISCIPLINES`.
"""

from dataclasses import dataclass, field

from naive.requests import Request


@dataclass
class Batch:
    """What was decided at one boundary."""

    scheduled: list[tuple[Request, int]]  # in batch order
    admitted: list[Request]  # in order of admission
    blocked: tuple[Request, str] | None = None  # the blocked head and its reason
    preempted: list[Request] = field(default_factory=list)


class Discipline:
    """What the engine asks. `engine` is a `naive.engine.Engine`, with its clock at the boundary."""

    def kv_need(self, request, config):
        """KV blocks that an admission reserves."""
        if request.given_kv_blocks is not None:
            return request.given_kv_blocks
        longest_output = request.output if config["max_tokens"] is None else config["max_tokens"]
        return -(-(request.prompt + longest_output) // config["block_size"])

    def smallest_demand(self, request, config):
        """Tokens that the request's first iteration needs at the least."""
        raise NotImplementedError

    def leaving(self, active):
        """Those of the active that give back slot and blocks now."""
        return [request for request in active if request.has_ended]

    def form_batch(self, engine, queue):
        """Admit from the queue (in order), and say who computes how many tokens: a `Batch`."""
        raise NotImplementedError

    def is_completed(self, request, was_in_prefill):
        """Whether a request is completed by the iteration that it went into as told."""
        return request.output_left == 0


class Strict(Discipline):
    """Every active request is in every batch with its whole demand."""

    def smallest_demand(self, request, config):
        return min(request.prompt, config["prefill_chunk_size"])

    def form_batch(self, engine, queue):
        admitted, blocked = admit_in_order(engine, queue, self.fits_token_budget)
        scheduled = [(request, self.demand(request, engine.config)) for request in engine.active]
        return Batch(scheduled, admitted, blocked)

    def demand(self, request, config):
        if request.in_prefill:
            return min(request.prefill_left, config["prefill_chunk_size"])
        return 1 if request.output_left > 0 else 0

    def fits_token_budget(self, engine, request):
        config = engine.config
        demands = [(r, self.demand(r, config)) for r in [*engine.active, request]]
        prefill_tokens = sum(tokens for r, tokens in demands if r.in_prefill)
        all_tokens = sum(tokens for _, tokens in demands)
        return all_tokens <= config["max_num_batched_tokens"] and (
            config["max_prefill_tokens"] is None or prefill_tokens <= config["max_prefill_tokens"]
        )

    def is_completed(self, request, was_in_prefill):
        """The kept quirk: only an iteration of the decode phase, even an empty one, completes."""
        return request.output_left == 0 and not was_in_prefill


class Static(Discipline):
    """A batch is formed, runs until its last member ends, and only then the next one is formed."""

    def smallest_demand(self, request, config):
        return 1

    def leaving(self, active):
        work_left = any(not request.has_ended for request in active)
        return [] if work_left else list(active)

    def form_batch(self, engine, queue):
        if engine.active:
            admitted, blocked = [], (queue[0], "slot") if queue else None
        else:
            admitted, blocked = admit_in_order(engine, queue, self.fits_token_budget)
        at_work = [request for request in engine.active if not request.has_ended]
        in_prefill = [request for request in at_work if request.in_prefill]
        if in_prefill:
            return Batch(self.chunks(in_prefill, engine.config), admitted, blocked)
        return Batch([(request, 1) for request in at_work], admitted, blocked)

    def chunks(self, in_prefill, config):
        left = config["max_num_batched_tokens"]
        if config["max_prefill_tokens"] is not None:
            left = min(left, config["max_prefill_tokens"])
        scheduled = []
        for request in in_prefill:
            chunk = min(request.prefill_left, config["prefill_chunk_size"], left)
            if chunk > 0:
                scheduled.append((request, chunk))
                left -= chunk
        return scheduled

    def fits_token_budget(self, engine, request):
        """One decode of each member must fit an iteration."""
        return len(engine.active) + 1 <= engine.config["max_num_batched_tokens"]


def admit_in_order(engine, queue, fits_token_budget):
    """Admit through the three gates; returns (admitted, blocked head and its reason or None).

    Up to `lookahead` requests that failed a gate are passed over, but none for want of a slot.
    """
    admitted, blocked, passed_over = [], None, 0
    for request in queue:
        reason = failed_gate(engine, request, fits_token_budget)
        if reason is None:
            engine.admit(request)
            admitted.append(request)
            continue
        blocked = blocked or (request, reason)
        if reason == "slot" or passed_over == engine.config["lookahead"]:
            break
        passed_over += 1
    return admitted, blocked


def failed_gate(engine, request, fits_token_budget):
    """First gate that the request fails, or None."""
    if len(engine.active) >= engine.config["max_batch_size"]:
        return "slot"
    free = engine.free_kv_blocks
    if free is not None and engine.discipline.kv_need(request, engine.config) > free:
        return "kv_blocks"
    if not fits_token_budget(engine, request):
        return "token_budget"
    return None


DISCIPLINES = {"strict": Strict, "static": Static}
