"""The engine: one boundary and one iteration after another until every request has ended."""

from naive.cost import iteration_ps
from naive.disciplines import DISCIPLINES
from naive.requests import arrival_order, queue_order, to_ps


class Engine:
    """Who is where, what time it is, and what has happened so far."""

    def __init__(self, requests, config, cost):
        self.config = config
        self.cost = cost
        self.discipline = DISCIPLINES[config["discipline"]]()
        self.now_ps = 0
        self.requests = requests  # in row order
        self.coming = sorted(requests, key=arrival_order)
        self.waiting = []
        self.active = []  # in batch order; all of them hold a slot
        self.iterations = []
        self.itl_gaps_ps = []

    def run(self):
        while self.coming or self.waiting or self.active:
            if not self.waiting and not self.active:
                self.now_ps = self.coming[0].arrival_ps
            self.join()
            ended = self.end_early()
            self.release()
            batch = self.discipline.form_batch(self, self.queue())
            if batch.scheduled:
                self.run_iteration(batch, ended)
            elif self.waiting or self.active:
                raise RuntimeError(f"at {self.now_ps} ps requests wait, but nothing can run")

    # The steps of a boundary.

    def join(self):
        while self.coming and self.coming[0].arrival_ps <= self.now_ps:
            request = self.coming.pop(0)
            reason = self.why_never_served(request)
            if reason is None:
                self.waiting.append(request)
            else:
                request.end("failed", request.arrival_ps, reason)

    def why_never_served(self, request):
        config, discipline = self.config, self.discipline
        if request.prompt == 0:
            return "empty_prompt"
        if request.output == 0:
            return "empty_output"
        if config["max_tokens"] is not None and request.output > config["max_tokens"]:
            return "max_tokens"
        capacity = config["kv_blocks"]
        if capacity is not None and discipline.kv_need(request, config) > capacity:
            return "kv_blocks"
        demand = discipline.smallest_demand(request, config)
        for bound in (config["max_num_batched_tokens"], config["max_prefill_tokens"]):
            if bound is not None and demand > bound:
                return "token_budget"
        return None

    def end_early(self):
        ended = [
            request
            for request in sorted(self.waiting + self.active, key=arrival_order)
            if not request.has_ended
            and request.ends_early_ps is not None
            and request.ends_early_ps <= self.now_ps
        ]
        for request in ended:
            request.end(request.ends_early_as, self.now_ps)
        self.waiting = [request for request in self.waiting if not request.has_ended]
        return ended

    def release(self):
        for request in self.discipline.leaving(self.active):
            self.active.remove(request)
            request.kv_blocks = 0

    def queue(self):
        """The waiting in the order in which they are served."""
        max_wait = to_ps(self.config["max_wait_s"])
        promoted = [
            request
            for request in self.waiting
            if max_wait is not None and self.now_ps - request.arrival_ps >= max_wait
        ]
        others = [request for request in self.waiting if request not in promoted]
        return sorted(promoted, key=arrival_order) + sorted(others, key=queue_order)

    def admit(self, request):
        """For disciplines: move a request from the queue into the batch."""
        self.waiting.remove(request)
        self.active.append(request)
        request.status = "active"
        request.kv_blocks = self.discipline.kv_need(request, self.config)
        if request.admitted_ps is None:
            request.admitted_ps = self.now_ps

    @property
    def held_kv_blocks(self):
        return sum(request.kv_blocks for request in self.active)

    @property
    def free_kv_blocks(self):
        """Free blocks; None where the capacity never binds."""
        capacity = self.config["kv_blocks"]
        return None if capacity is None else capacity - self.held_kv_blocks

    # The iteration.

    def run_iteration(self, batch, ended):
        start_ps = self.now_ps
        self.now_ps = start_ps + self.duration_ps(batch.scheduled)
        if batch.blocked is not None:
            head, reason = batch.blocked
            head.blocked_ps[reason] += self.now_ps - start_ps
        record = {
            "iteration": len(self.iterations),
            "start_ps": start_ps,
            "end_ps": self.now_ps,
            "scheduled": [(request.row, tokens) for request, tokens in batch.scheduled],
            "admitted": [request.row for request in batch.admitted],
            "preempted": [request.row for request in batch.preempted],
            "ended": [(request.row, request.status) for request in ended],
            "blocked_reason": batch.blocked[1] if batch.blocked else "",
            "blocked_row": batch.blocked[0].row if batch.blocked else None,
            "free_kv_blocks": self.free_kv_blocks,
            "waiting": len(self.waiting),
            "slots_in_use": len(self.active),
            "held_kv_blocks": self.held_kv_blocks,
        }
        completed = [
            request for request, tokens in batch.scheduled if self.advance(request, tokens)
        ]
        record["finished"] = [request.row for request in completed]
        self.iterations.append(record)
        if not completed and not any(tokens for _, tokens in batch.scheduled):
            raise RuntimeError(f"iteration {record['iteration']} did nothing")

    def duration_ps(self, scheduled):
        at_work = [(request, tokens) for request, tokens in scheduled if tokens > 0]
        prefills = [(tokens, r.computed) for r, tokens in at_work if r.in_prefill]
        contexts = [r.prompt + r.generated for r, _ in at_work if not r.in_prefill]
        return iteration_ps(self.cost, prefills, contexts)

    def advance(self, request, tokens):
        """Book a request's tokens at the end of the iteration; tells whether they complete it."""
        was_in_prefill = request.in_prefill
        request.computed += tokens
        if tokens > 0 and not request.in_prefill:
            self.give_token(request)
        completed = self.discipline.is_completed(request, was_in_prefill)
        if completed:
            request.end("completed", self.now_ps)
        return completed

    def give_token(self, request):
        request.generated += 1
        if request.first_token_ps is None:
            request.first_token_ps = self.now_ps
        else:
            gap = self.now_ps - request.last_token_ps
            self.itl_gaps_ps.append(gap)
            request.max_itl_ps = max(gap, request.max_itl_ps or 0)
        request.last_token_ps = self.now_ps
