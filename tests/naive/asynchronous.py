"""Asynchronous scheduling: a step is decided while the worker computes the one before it.

The rules of docs/semantics.md change as follows.

**Two clocks.** The engine loop decides, the worker computes. The loop goes round and round. Round
j, at instant t(j):

1. A boundary at t(j) as ever: join, end early, release, promote.
2. If anyone is unfinished, step j is decided, admissions included, and handed to the worker, which
   runs it right after the step before: start = max(t(j), end of the last step that had tokens),
   end = start + what the cost model says of the batch as it was decided.
3. If step j - 1 had tokens, the loop waits for its output, until the end of that step (which is
   never before t(j)). Then its tokens are there: they carry this instant, and so do first tokens
   and completions. Who is completed gives back slot and blocks now, for step j + 1.
   Otherwise (the first round, after an idle time, after an empty step) the loop goes on at once.
4. If step j had no tokens, and someone is still unfinished, the loop sleeps 1 ms after that.
5. That instant is t(j + 1).

So steps j and j + 1 are both decided at once after an idle time. Who arrives after t(j) waits for
t(j + 1). If nobody is unfinished there is no step: the output on the way, if there is one (its
requests were cancelled), is waited for, and then time skips to the next arrival. If nothing is on
the way, nothing runs, nobody was preempted and the head is blocked, time skips, or the head fails,
as ever; that is no step either.

**Tokens on the way.** `pending` tokens of a request are those that steps handed over will make.
`computed` counts what was handed over, `known` only what was received. A member wants
known + pending - computed tokens: a decode reads known + pending. A step that brings `computed` to
known + pending makes one more token. A member whose last token is on the way is passed over: it
gets nothing, but keeps slot and blocks, counts in running, and can be a victim. With prefix caching
a token on the way is not known, so its block is not registered before it has come: then all full
blocks of known tokens that were handed over before step j are.

**Preemption** in step j sets `pending` to 0. A token that step j - 1 makes for the victim still
comes in round j; if it is its last, the request is completed and leaves the queue. A chunk on the
way is lost.

**Early ends** are boundary matters: at t(j) the request ends, gives back slot and blocks, and its
token on the way is dropped.

**Log.** Every step is a record, empty ones too, with the interval from t(j) to t(j + 1), so that
records tile the time in which anyone was unfinished; what was decided (`scheduled`, admitted,
blocked, blocks held) is that of step j, tokens and completions (`got_token`, `finished`) are those
of step j - 1. They carry the end of the record, less the 1 ms of an empty step.
"""

from dataclasses import dataclass

from naive.engine import Engine
from naive.log import record_of, rows_of
from naive.requests import PS_PER_S, Request

SLEEP_PS = PS_PER_S // 1000


@dataclass
class Step:
    """A step that was handed over to the worker."""

    given: dict[Request, int]  # tokens to compute
    sampling: list[Request]  # for whom it makes a token, in batch order
    end_ps: int


class AsynchronousEngine(Engine):
    """An engine loop that is one step ahead of its worker."""

    def __init__(self, requests, config, cost, refuse_at_door=True):
        super().__init__(requests, config, cost, refuse_at_door)
        self.worker_free_ps = 0

    def run_iteration(self, batch, ended):
        """Round j from its decision on, with step j in `batch` and step j - 1 on the way."""
        anyone = bool(self.waiting or self.active)
        record = record_of(self, batch, ended) if anyone else None
        self.count_victims(batch)
        last, self.on_the_way = self.on_the_way, self.hand_over(batch)
        self.wait_for(last)
        got_token = self.take_output(last, dict(batch.scheduled)) if last else []
        self.release()
        if anyone and not batch.scheduled:
            self.sleep()
        if record is None:
            return
        record["got_token"] = rows_of(got_token)
        record["end_ps"] = self.now_ps
        record["finished"] = rows_of(r for r in got_token if r.has_ended)
        record["free_blocks_after_update"] = self.kv.free
        self.iterations.append(record)
        if batch.blocked is not None:
            head, reason = batch.blocked
            head.blocked_ps[reason] += record["end_ps"] - record["start_ps"]
        self.check_progress()

    def hand_over(self, batch):
        """Step j goes to the worker; None if there is nothing to do."""
        if not batch.scheduled:
            return None
        start = max(self.now_ps, self.worker_free_ps)
        self.worker_free_ps = start + self.duration_ps(batch.scheduled)
        sampling = []
        for request, tokens in batch.scheduled:
            request.computed += tokens
            if request.wanted == 0:
                request.pending += 1
                sampling.append(request)
        return Step(dict(batch.scheduled), sampling, self.worker_free_ps)

    def take_output(self, last, in_batch):
        """Process what step j - 1 made; `in_batch` is {request: tokens} of step j.

        Returns who got a token.
        """
        got_token = [request for request in last.sampling if not request.has_ended]
        for request in got_token:
            self.give_token(request)
            if request.status == "active":  # not preempted in step j
                request.pending -= 1
                handed_over_before = request.computed - in_batch.get(request, 0)
                self.kv.register(request, min(handed_over_before, request.known))
            if request.output_left == 0:
                if request.status == "waiting":
                    self.leave_queue(request)
                    self.events["finished_while_waiting"] += 1
                request.end("completed", self.now_ps)
        return got_token

    def wait_for(self, last):
        """Until the output of step j - 1 has come, if there is one."""
        if last is not None:
            self.now_ps = last.end_ps

    def sleep(self):
        """After a step without tokens, if anyone is unfinished."""
        if self.waiting or self.active:
            self.now_ps += SLEEP_PS

    def count_victims(self, batch):
        if self.on_the_way is None:
            return
        for victim in batch.preempted:
            self.events["victim_in_flight"] += victim in self.on_the_way.given
            makes_last_token = victim in self.on_the_way.sampling and victim.output_left == 1
            self.events["victim_last_token_in_flight"] += makes_last_token

    def state(self):
        last = self.on_the_way or Step({}, [], 0)
        on_the_way = [(r.row, tokens, r in last.sampling) for r, tokens in last.given.items()]
        return (*super().state(), tuple(r.pending for r in self.active), tuple(on_the_way))


class SteppedEngine(AsynchronousEngine):
    """Each round takes one second, whatever is computed: time in the steps of vLLM's logs."""

    def wait_for(self, last):
        self.now_ps += PS_PER_S

    def sleep(self):
        pass
