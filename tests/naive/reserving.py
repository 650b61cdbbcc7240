"""Disciplines whose KV is reserved at admission and never grows: `strict`, `static`, `orca`."""

from naive.discipline import Batch, Discipline, admit_in_order, blocks_of


class Reserving(Discipline):
    """Three gates in a fixed order: slot, KV blocks, token budget."""

    def fits_token_budget(self, engine, request):
        raise NotImplementedError

    def admit(self, engine):
        def try_to_admit(request):
            reason = self.failed_gate(engine, request)
            if reason is None:
                engine.admit(request, self.kv_need(request, engine.config))
            return reason

        return admit_in_order(engine, try_to_admit)

    def failed_gate(self, engine, request):
        """First gate that the request fails, or None."""
        if not engine.has_free_slot:
            return "slot"
        if not engine.has_free_blocks(self.kv_need(request, engine.config)):
            return "kv_blocks"
        if not self.fits_token_budget(engine, request):
            return "token_budget"
        return None


class Strict(Reserving):
    """Every active request is in every batch with its whole demand."""

    def chunk(self, tokens, config):
        """What a prefill that wants so many tokens computes in one iteration."""
        return min(tokens, config["prefill_chunk_size"])

    def smallest_demand(self, request, config):
        return self.chunk(request.prompt, config)

    def form_batch(self, engine):
        admitted, blocked = self.admit(engine)
        scheduled = [(request, self.demand(request, engine.config)) for request in engine.active]
        return Batch(scheduled, admitted, blocked)

    def demand(self, request, config):
        if request.in_prefill:
            return self.chunk(request.wanted, config)
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


class Orca(Strict):
    """`strict` with whole prompts, the longest possible reservation, and without its quirk."""

    def kv_need(self, request, config):
        if config["max_model_len"] is not None:
            return blocks_of(config["max_model_len"], config)
        return super().kv_need(request, config)

    def chunk(self, tokens, config):
        return tokens

    def is_completed(self, request, was_in_prefill):
        return request.output_left == 0


class Static(Reserving):
    """A batch is formed, runs until its last member ends, and only then the next one is formed."""

    def smallest_demand(self, request, config):
        return 1

    def leaving(self, active):
        work_left = any(not request.has_ended for request in active)
        return [] if work_left else list(active)

    def form_batch(self, engine):
        if engine.active:
            admitted, blocked = [], (engine.head(), "slot") if engine.waiting else None
        else:
            admitted, blocked = self.admit(engine)
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
            chunk = min(request.wanted, config["prefill_chunk_size"], left)
            if chunk > 0:
                scheduled.append((request, chunk))
                left -= chunk
        return scheduled

    def fits_token_budget(self, engine, request):
        """One decode of each member must fit an iteration."""
        return len(engine.active) + 1 <= engine.config["max_num_batched_tokens"]
