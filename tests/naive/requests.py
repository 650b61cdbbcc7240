"""One request on its way through the engine, and the clock's units."""

import math
from dataclasses import dataclass, field

PS_PER_S = 10**12
BLOCK_REASONS = ("slot", "kv_blocks", "token_budget")


def to_ps(seconds):
    """Seconds to whole picoseconds, halves to even; None and NaN mean "never" and give None."""
    if seconds is None or math.isnan(seconds):
        return None
    return round(seconds * 1e12)


@dataclass(eq=False)
class Request:
    """What the trace says of a request, then what has become of it so far."""

    row: int
    arrival_ps: int
    prompt: int
    output: int
    given_kv_blocks: int | None
    ends_early_ps: int | None  # cancellation or timeout, whichever is first
    ends_early_as: str
    policy_key: float | tuple
    priority: int | None
    time_stamp: tuple  # orders victims of equal priority
    tenant: str | None
    predicted_output: int
    tokens: list  # what each token is, known or not; equal ones are equal tokens

    status: str = "waiting"
    reason: str = ""
    computed: int = 0  # tokens whose KV is there
    generated: int = 0  # output tokens made, and received
    pending: int = 0  # output tokens that scheduled steps will make: asynchronous scheduling
    kv_blocks: int = 0  # blocks held now
    blocks: list = field(default_factory=list)  # their numbers, where they have some
    registered: int = 0  # so many of its first blocks others may find by their contents
    admitted_ps: int | None = None
    first_token_ps: int | None = None
    last_token_ps: int | None = None
    finished_ps: int | None = None
    max_itl_ps: int | None = None
    blocked_ps: dict = field(default_factory=lambda: dict.fromkeys(BLOCK_REASONS, 0))
    preemptions: int = 0
    recomputed_tokens: int = 0
    lost_tokens: int = 0  # to the latest preemption, while it waits
    looked_up_tokens: int = 0  # known at each of its admissions
    cached_tokens: int = 0  # of these, taken from the cache
    cached_own_tokens: int = 0  # of these, when it was resumed

    @property
    def known(self):
        """Tokens that there are: the prompt and the output so far."""
        return self.prompt + self.generated

    @property
    def wanted(self):
        """Tokens to compute before the next one comes out."""
        return self.known + self.pending - self.computed

    @property
    def in_prefill(self):
        """All but a decode: one token to compute, which is not the first of the output."""
        return self.generated + self.pending == 0 or self.wanted != 1

    @property
    def last_token_is_on_the_way(self):
        return self.pending > 0 and self.pending >= self.output_left

    @property
    def output_left(self):
        return self.output - self.generated

    @property
    def has_ended(self):
        return self.status not in ("waiting", "active")

    def end(self, status, at_ps, reason=""):
        self.status, self.finished_ps, self.reason = status, at_ps, reason


def read_request(row, record, config, policy_key, prefix_block_tokens=None):
    """Build a request from a trace row's dictionary; its `prefix_ids` stand for so many tokens."""
    arrival = to_ps(record["arrival_s"])
    cancelled = to_ps(record.get("cancel_at_s"))
    timeout = to_ps(config["timeout_s"])
    timed_out = None if timeout is None else arrival + timeout
    cancelled_first = cancelled is not None and (timed_out is None or cancelled <= timed_out)
    engine_time = record.get("engine_time_s")
    output = cut_output(record, config["max_model_len"])
    return Request(
        row=row,
        arrival_ps=arrival,
        prompt=record["prompt_tokens"],
        output=output,
        given_kv_blocks=record.get("kv_blocks"),
        ends_early_ps=cancelled if cancelled_first else timed_out,
        ends_early_as="cancelled" if cancelled_first else "timed_out",
        policy_key=policy_key,
        priority=record.get("priority"),
        time_stamp=(arrival, row) if engine_time is None else (engine_time,),
        tenant=record.get("tenant"),
        predicted_output=record["predicted_output_tokens"],
        tokens=tokens_of(row, record, output, prefix_block_tokens),
    )


def tokens_of(row, record, output, prefix_block_tokens):
    """What each token of prompt and output is.

    Id number q of `prefix_ids` makes the prompt's tokens from q * prefix_block_tokens up to the
    next id's; the last one may be cut short. Tokens without an id are like no others.
    """
    prompt, ids = record["prompt_tokens"], record.get("prefix_ids") or []
    tokens = [
        (ids[at // prefix_block_tokens], at % prefix_block_tokens)
        for at in range(min(prompt, len(ids) * (prefix_block_tokens or 0)))
    ]
    return tokens + [("own", row, at) for at in range(len(tokens), prompt + output)]


def cut_output(record, max_model_len):
    """Output tokens that the model's length leaves room for; as given if there is no room at all.

    Such a request fails anyway.
    """
    prompt, output = record["prompt_tokens"], record["output_tokens"]
    if max_model_len is None or prompt >= max_model_len:
        return output
    return min(output, max_model_len - prompt)


def arrival_order(request):
    """Sort key: arrival, ties by row."""
    return request.arrival_ps, request.row


def queue_order(request):
    """Sort key: the policy's key, ties by arrival, then row."""
    return request.policy_key, request.arrival_ps, request.row
