"""Disciplines whose KV grows block by block, with preemption: `vllm`, `sarathi`, `prefill_first`.

A request wants `known - computed` tokens, be it new, decoding or resumed. A member that cannot get
the blocks for them takes those of a victim, which may be itself.
"""

import math
from typing import NamedTuple

from naive.discipline import Batch, Discipline, admit_in_order, blocks_of
from naive.policies import policy_name
from naive.requests import Request


class Step:
    """The tokens of one boundary: what is left, and who was given how many."""

    def __init__(self, config, threshold=math.inf):
        self.threshold = threshold  # the most tokens that one request may get
        self.budget = config["max_num_batched_tokens"]
        bound = config["max_prefill_tokens"]
        self.prefill_bound = math.inf if bound is None else bound
        self.given = {}  # request: tokens
        self.preempted = []
        self.passed_over = []  # members that got nothing, whatever budget and blocks there are
        self.to_leave_out = 0  # members that come next

    def left_for(self, request):
        """The budget left for a request."""
        return min(self.budget, self.prefill_bound) if request.in_prefill else self.budget

    def most(self, request):
        """The most tokens that the request could be given now."""
        return min(request.wanted, self.threshold, self.left_for(request))

    def give(self, request, tokens):
        self.given[request] = tokens
        self.budget -= tokens
        if request.in_prefill:
            self.prefill_bound -= tokens

    def take_back(self, request):
        """Return the tokens of a victim, if it was given any, to be given to others."""
        tokens = self.given.pop(request, 0)
        self.budget += tokens
        if request.in_prefill:
            self.prefill_bound += tokens


class Attempt(NamedTuple):
    """A request from the queue, the tokens that it would be given, and the cached blocks."""

    request: Request
    tokens: int
    hits: list


class Paged(Discipline):
    """Blocks on demand and preemption."""

    def smallest_kv_need(self, request, config):
        """The last output token is never computed."""
        return self.blocks_with(request, request.prompt + request.output - 1, config)

    def blocks_with(self, request, tokens, config):
        """Blocks of a member that has so many tokens' KV."""
        if config["kv_reserve"] == "full":
            return self.kv_need(request, config)
        return blocks_of(tokens, config)

    def batch(self, engine, step, admitted, blocked):
        """The boundary's outcome, in order of (latest) admission."""
        if step.preempted:
            blocked = engine.head(), "kv_blocks"
        scheduled = [(r, step.given[r]) for r in engine.active if r in step.given]
        return Batch(scheduled, admitted, blocked, step.preempted)

    # Members.

    def serve(self, engine, step, members):
        """Give the members their tokens, in the order given, while budget is left.

        Returns False if a member preempted itself and so ended the pass.
        """
        for member in members:
            if step.budget == 0:
                break
            if member not in engine.active:  # preempted by one before it
                continue
            if self.passes_over(engine, step, member):
                step.passed_over.append(member)
                continue
            served = self.serve_one(engine, step, member)
            if not served and not self.goes_on_after_self_preemption(engine.config):
                return False
        return True

    def passes_over(self, engine, step, member):
        """Whether a member gets nothing now: its last token is on the way, so it needs nothing."""
        engine.events["skipped_last_in_flight"] += member.last_token_is_on_the_way
        return member.last_token_is_on_the_way

    def serve_one(self, engine, step, member):
        """Give a member its tokens, at the cost of victims if need be; False if it is one."""
        tokens = step.most(member)
        if tokens == 0:  # a prefill, when the bound on prefill is used up
            return True
        blocks = self.blocks_with(member, member.computed + tokens, engine.config)
        while not engine.has_free_blocks(blocks - member.kv_blocks):
            victim = self.victim(engine)
            step.take_back(victim)
            self.on_victim(engine, step, victim)
            step.preempted.append(victim)
            engine.preempt(victim)
            if victim is member:
                return False
        engine.kv.grow(member, blocks)
        self.give(engine, step, member, tokens)
        return True

    def give(self, engine, step, request, tokens):
        """Give tokens to a request that has the blocks for them.

        What full blocks of known tokens hold can be found by others from now on.
        """
        engine.kv.register(request, min(request.computed + tokens, request.known))
        step.give(request, tokens)

    def on_victim(self, engine, step, victim):
        """A member is about to be preempted."""

    def victim(self, engine):
        if policy_name(engine.config["policy"]) != "priority":
            return engine.active[-1]
        # `max` takes the first of equals.
        return max(engine.active, key=lambda member: (member.priority, member.time_stamp))

    def goes_on_after_self_preemption(self, config):
        return policy_name(config["policy"]) == "priority"

    # The queue.

    def admit(self, engine, step):
        def try_to_admit(request):
            if not engine.has_free_slot:
                return "slot"
            hits = engine.kv.look_up(request)
            request.computed = len(hits) * engine.config["block_size"]
            tokens = self.first_tokens(request, step, engine.config)
            reason = self.failed_gate(engine, step, Attempt(request, tokens, hits))
            if reason is not None:
                request.computed = 0  # the attempt leaves no trace
                return reason
            engine.kv.touch(request, hits)
            blocks = self.blocks_with(request, request.computed + tokens, engine.config)
            engine.admit(request, blocks)
            self.give(engine, step, request, tokens)
            return None

        return admit_in_order(engine, try_to_admit)

    def first_tokens(self, request, step, config):
        """Tokens that the request is given if it is admitted."""
        raise NotImplementedError

    def failed_gate(self, engine, step, attempt):
        """First further gate that the request fails, or None."""
        raise NotImplementedError

    def fits(self, engine, attempt, foreseen):
        """Whether the free blocks suffice for so many first tokens, what is cached included.

        Hit blocks that nobody holds are free now and will not be then; those in use cost nothing.
        """
        blocks = self.blocks_with(attempt.request, foreseen, engine.config)
        blocks += self.watermark_blocks(engine) - engine.kv.in_use(attempt.hits)
        fits = engine.has_free_blocks(blocks)
        idle_hits = len(attempt.hits) - engine.kv.in_use(attempt.hits)
        stopped_by_hits = not fits and engine.has_free_blocks(blocks - idle_hits)
        engine.events["admission_stopped_by_evictable"] += stopped_by_hits
        return fits

    def watermark_blocks(self, engine):
        """Blocks that an admission must leave free: none if nobody runs."""
        config = engine.config
        if config["kv_blocks"] is None or not engine.active:
            return 0
        return int(config["watermark"] * (config["kv_blocks"] + 1))  # of all, the null block too


class Chunked(Paged):
    """Running members first, then the queue, in chunks that fill the budget left."""

    def form_batch(self, engine):
        unfinished = len(engine.active) + len(engine.waiting)
        step = Step(engine.config, self.threshold(engine.config, unfinished))
        self.serve_running(engine, step)
        admitted, blocked = [], None
        if not step.preempted:
            admitted, blocked = self.admit(engine, step)
        return self.batch(engine, step, admitted, blocked)

    def threshold(self, config, unfinished):
        """The most tokens that one request gets; infinite if there is no such bound."""
        return math.inf

    def serve_running(self, engine, step):
        raise NotImplementedError

    def cuts_new_ones(self, config):
        """Whether the budget left may cut the first chunk of a request from the queue."""
        return True

    def smallest_demand(self, request, config):
        return 1

    def first_tokens(self, request, step, config):
        if self.cuts_new_ones(config):
            return step.most(request)
        return min(request.wanted, step.threshold)

    def failed_gate(self, engine, step, attempt):
        request, tokens, _ = attempt
        if tokens == 0 or tokens > step.left_for(request):
            return "token_budget"
        # Only a look: what later chunks will need is not set aside.
        reserves = engine.config["scheduler_reserve_full_isl"]
        foreseen = request.known if reserves else request.computed + tokens
        return None if self.fits(engine, attempt, foreseen) else "kv_blocks"


class Sarathi(Chunked):
    """All decodes before all prefills."""

    def serve_running(self, engine, step):
        decodes = [member for member in engine.active if not member.in_prefill]
        prefills = [member for member in engine.active if member.in_prefill]
        if self.serve(engine, step, decodes):
            self.serve(engine, step, prefills)


class PrefillFirst(Paged):
    """Whole prompts of whoever can be admitted, and only if there is nobody, decodes."""

    def form_batch(self, engine):
        step = Step(engine.config)
        admitted, blocked = self.admit(engine, step)
        if not admitted:
            self.serve(engine, step, list(engine.active))
        return self.batch(engine, step, admitted, blocked)

    def smallest_demand(self, request, config):
        """All that a preempted request could have to compute anew, in one piece."""
        return request.prompt + request.output - 1

    def first_tokens(self, request, step, config):
        return request.wanted

    def failed_gate(self, engine, step, attempt):
        if not self.fits(engine, attempt, attempt.request.known):
            return "kv_blocks"
        if attempt.tokens > step.left_for(attempt.request):
            return "token_budget"
        return None
