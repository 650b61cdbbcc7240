"""The engine: one boundary and one iteration after another until every request has ended."""

from collections import Counter

from naive.blocks import kv_of
from naive.cost import iteration_ps
from naive.disciplines import DISCIPLINES
from naive.door import why_never_served
from naive.fair import order_of
from naive.log import record_of, rows_of
from naive.requests import arrival_order, queue_order, to_ps


class LivelockError(RuntimeError):
    """Members preempt each other for ever, and no token comes out."""


class Engine:
    """Who is where, what time it is, and what has happened so far."""

    on_the_way = None  # a step whose output has not come yet; see `naive.asynchronous`

    def __init__(self, requests, config, cost, refuse_at_door=True):
        self.config = config
        self.refuse_at_door = refuse_at_door  # those for which the engine is too small
        self.cost = cost
        self.discipline = DISCIPLINES[config["discipline"]]()
        self.kv = kv_of(config)
        self.now_ps = 0
        self.requests = requests  # in row order
        self.coming = sorted(requests, key=arrival_order)
        self.order = order_of(self.coming, config)
        self.waiting = []
        self.active = []  # in batch order; all of them hold a slot
        self.iterations = []
        self.itl_gaps_ps = []
        self.past_states = set()  # since the last token came out
        self.events = Counter()  # by the names of vLLM's step logs

    def run(self):
        while self.coming or self.waiting or self.active or self.on_the_way:
            if not (self.waiting or self.active or self.on_the_way):
                self.now_ps = max(self.now_ps, self.coming[0].arrival_ps)
            self.join()
            ended = self.end_early()
            self.release()
            batch = self.form_batch()
            if batch.scheduled or batch.preempted or self.on_the_way:
                self.run_iteration(batch, ended)
            elif self.waiting:
                self.now_ps = min(self.instants_ahead())

    # The steps of a boundary.

    def join(self):
        while self.coming and self.coming[0].arrival_ps <= self.now_ps:
            request = self.coming.pop(0)
            reason = why_never_served(
                request, self.config, self.discipline, resources=self.refuse_at_door
            )
            if reason is None:
                self.order.on_join(request, self.waiting)
                self.waiting.append(request)
            else:
                request.end("failed", request.arrival_ps, reason)

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
            if request in self.waiting:
                self.leave_queue(request)
        return ended

    def release(self):
        for request in self.discipline.leaving(self.active):
            self.active.remove(request)
            self.kv.give_back(request)

    def promoted(self):
        """The overdue, oldest first."""
        max_wait = to_ps(self.config["max_wait_s"])
        if max_wait is None:
            return []
        overdue = [r for r in self.waiting if self.now_ps - r.arrival_ps >= max_wait]
        return sorted(overdue, key=arrival_order)

    def queue(self):
        """The waiting in the order of their keys; fair queueing tells no more than its head."""
        promoted = self.promoted()
        others = [request for request in self.waiting if request not in promoted]
        return promoted + sorted(others, key=queue_order)

    def head(self):
        """Who is served first; the queue must not be empty."""
        promoted = self.promoted()
        return promoted[0] if promoted else self.order.first(self.waiting)

    def heads(self):
        """Whom to admit, one after another; behind one that is admitted, the choice is made anew.

        Only keys tell who comes behind one that is passed over.
        """
        if self.order.is_static:
            yield from self.queue()
        while self.waiting and not self.order.is_static:
            yield self.head()

    def form_batch(self):
        """Form the batch; a head that stands in the way for good fails, and admission goes on."""
        while True:
            batch = self.discipline.form_batch(self)
            if batch.scheduled or batch.preempted or not (self.waiting or self.active):
                return batch
            if self.on_the_way:
                return batch
            if self.active or batch.blocked is None:
                raise RuntimeError(f"at {self.now_ps} ps requests wait, but nothing can run")
            if self.instants_ahead():
                return batch
            head, reason = batch.blocked
            self.leave_queue(head)
            head.end("failed", self.now_ps, reason)

    def instants_ahead(self):
        """When something happens that no iteration brings: arrivals, early ends and promotions."""
        max_wait = to_ps(self.config["max_wait_s"])
        instants = [request.arrival_ps for request in self.coming]
        instants += [request.ends_early_ps for request in self.waiting + self.active]
        if max_wait is not None:
            instants += [request.arrival_ps + max_wait for request in self.waiting]
        return [at for at in instants if at is not None and at > self.now_ps]

    # What disciplines may do.

    def admit(self, request, kv_blocks):
        """Move a request from the queue into the batch."""
        if request.admitted_ps is None:
            request.admitted_ps = self.now_ps
            self.order.on_first_admission(request)
        # What a preemption took and the cache does not give back is computed once more.
        request.recomputed_tokens += max(request.lost_tokens - request.computed, 0)
        request.lost_tokens = 0
        self.leave_queue(request)
        self.active.append(request)
        request.status = "active"
        self.kv.grow(request, kv_blocks)

    def leave_queue(self, request):
        self.waiting.remove(request)
        self.order.on_leave(request, self.waiting)

    def preempt(self, request):
        """Move a request from the batch back into the queue; its output is all that it keeps."""
        self.active.remove(request)
        self.waiting.append(request)
        request.status = "waiting"
        self.kv.give_back(request)
        request.preemptions += 1
        request.lost_tokens = request.computed
        request.computed = request.pending = 0

    @property
    def has_free_slot(self):
        return len(self.active) < self.config["max_batch_size"]

    def has_free_blocks(self, blocks):
        return self.kv.free is None or blocks <= self.kv.free

    # The iteration.

    def run_iteration(self, batch, ended):
        record = record_of(self, batch, ended)
        duration = self.duration_ps(batch.scheduled)
        self.now_ps += duration
        if batch.blocked is not None:
            head, reason = batch.blocked
            head.blocked_ps[reason] += duration
        generated = {request: request.generated for request, _ in batch.scheduled}
        completed = [
            request for request, tokens in batch.scheduled if self.advance(request, tokens)
        ]
        record["got_token"] = rows_of(r for r, before in generated.items() if r.generated > before)
        record["end_ps"] = self.now_ps
        record["finished"] = rows_of(completed)
        self.release()
        record["free_blocks_after_update"] = self.kv.free
        self.iterations.append(record)
        did_something = completed or batch.preempted or any(t for _, t in batch.scheduled)
        if not did_something:
            raise RuntimeError(f"iteration {record['iteration']} did nothing")
        self.check_progress()

    def check_progress(self):
        """Whatever is decided follows from this state, unless something else is still to happen."""
        state = self.now_ps if self.instants_ahead() else None, self.state()
        if state in self.past_states:
            raise LivelockError(f"at {self.now_ps} ps all is as before, and will be so again")
        self.past_states.add(state)

    def state(self):
        return (
            tuple((r.row, r.computed, r.generated, r.status) for r in self.active),
            frozenset((r.row, r.generated) for r in self.waiting),
            self.order.state(),
            self.kv.state(self.active),
        )

    def duration_ps(self, scheduled):
        at_work = [(request, tokens) for request, tokens in scheduled if tokens > 0]
        prefills = [(tokens, r.computed) for r, tokens in at_work if r.in_prefill]
        contexts = [r.known + r.pending for r, _ in at_work if not r.in_prefill]
        return iteration_ps(self.cost, prefills, contexts)

    def advance(self, request, tokens):
        """Book a request's tokens at the end of the iteration; tells whether they complete it."""
        was_in_prefill = request.in_prefill
        request.computed += tokens
        if request.wanted == 0:
            self.give_token(request)
        completed = self.discipline.is_completed(request, was_in_prefill)
        if completed:
            request.end("completed", self.now_ps)
        return completed

    def give_token(self, request):
        request.generated += 1
        self.order.on_token(request)
        self.past_states.clear()
        if request.first_token_ps is None:
            request.first_token_ps = self.now_ps
        else:
            gap = self.now_ps - request.last_token_ps
            self.itl_gaps_ps.append(gap)
            request.max_itl_ps = max(gap, request.max_itl_ps or 0)
        request.last_token_ps = self.now_ps
