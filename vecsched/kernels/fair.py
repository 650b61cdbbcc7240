"""Fair queueing between tenants: who is at the head of the queue depends on who was served.

Each tenant has a counter of the service it has been charged, in whole numbers: `price` for a prompt
token, when the request is admitted, and twice that for an output token, when it comes (the weights
of Sheng et al.); a tenant of weight w pays 65536 / w. Tokens of steady decodes are charged when
somebody looks. See `docs/semantics.md` for the rules and `vecsched.policies` for the sources.
"""

from typing import NamedTuple

import numpy as np

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE, least_from

# How the next tenant is chosen.
STATIC, VTC, DRR, WFQ = range(4)

# What a prompt token costs a tenant of weight 1, and how many of those an output token costs.
PRICE = 65536
OUTPUT_WEIGHT = 2
NEVER_CHANGES = 2**62

# Places in `Fair.turn`.
POINTER, LAST_ADMITTED, VIRTUAL_TIME, TURNS = range(4)


class Fair(NamedTuple):
    """State of fair queueing; of size 0 for policies whose order does not change.

    Attributes:
        kind: STATIC, VTC, DRR or WFQ.
        quantum: what a tenant may spend more at each of its turns (DRR).
        tenant: by row.
        price: of a prompt token, by tenant.
        begin: rank at which a tenant's requests begin: its queue is a range of ranks.
        waiting: requests in the queue, by tenant.
        decodes: steady decodes, by tenant.
        settled: iteration up to which their tokens are charged, by tenant.
        counter: what a tenant has been charged, less what it may spend (DRR); by tenant.
        last_tag: the finish tag of a tenant's last request (WFQ).
        expected: what a request is expected to cost in all, by row (WFQ).
        tag: its finish tag, by row (WFQ).
        turn: the tenant whose turn it is, the tenant admitted last, the virtual time.
    """

    kind: int
    quantum: int
    tenant: np.ndarray
    price: np.ndarray
    begin: np.ndarray
    waiting: np.ndarray
    decodes: np.ndarray
    settled: np.ndarray
    counter: np.ndarray
    last_tag: np.ndarray
    expected: np.ndarray
    tag: np.ndarray
    turn: np.ndarray


@kernel
def settle(fair, tenant, iteration):
    """Charge a tenant for the tokens of its steady decodes up to `iteration`."""
    tokens = fair.decodes[tenant] * (iteration - fair.settled[tenant])
    fair.counter[tenant] += OUTPUT_WEIGHT * fair.price[tenant] * tokens
    fair.settled[tenant] = iteration


@kernel
def settle_all(fair, iteration):
    """Charge every tenant up to `iteration`."""
    for tenant in range(len(fair.counter)):
        settle(fair, tenant, iteration)


@kernel
def change_decodes(fair, row, change, iteration):
    """From `iteration` on the tenant of `row` has `change` more steady decodes."""
    if fair.kind != STATIC:
        tenant = fair.tenant[row]
        settle(fair, tenant, iteration)
        fair.decodes[tenant] += change


@kernel
def charge_token(fair, row):
    """An output token that is no steady decode's has come."""
    if fair.kind != STATIC:
        tenant = fair.tenant[row]
        fair.counter[tenant] += OUTPUT_WEIGHT * fair.price[tenant]


@kernel
def charge_admission(fair, row, prompt):
    """A request is admitted for the first time."""
    if fair.kind != STATIC:
        tenant = fair.tenant[row]
        fair.counter[tenant] += fair.price[tenant] * prompt
        fair.turn[LAST_ADMITTED] = tenant
        fair.turn[VIRTUAL_TIME] = max(fair.turn[VIRTUAL_TIME], fair.tag[row])


@kernel
def arrive(fair, row, iteration):
    """A new request joins the queue of its tenant."""
    if fair.kind == VTC:
        lift(fair, fair.tenant[row], iteration)
    elif fair.kind == WFQ:
        tenant = fair.tenant[row]
        start = max(fair.turn[VIRTUAL_TIME], fair.last_tag[tenant])
        fair.tag[row] = start + fair.expected[row]
        fair.last_tag[tenant] = fair.tag[row]


@kernel
def lift(fair, tenant, iteration):
    """A tenant that comes back to the queue keeps no credit from the time it was away."""
    if fair.waiting[tenant] > 0:
        return
    settle_all(fair, iteration)
    least = NONE
    for other in range(len(fair.counter)):
        if fair.waiting[other] > 0 and (least == NONE or fair.counter[other] < least):
            least = fair.counter[other]
    if least == NONE and fair.turn[LAST_ADMITTED] != NONE:
        least = fair.counter[fair.turn[LAST_ADMITTED]]
    fair.counter[tenant] = max(fair.counter[tenant], least)


@kernel
def count_waiting(fair, row, change):
    """The queue of the tenant of `row` grows or shrinks."""
    if fair.kind != STATIC:
        tenant = fair.tenant[row]
        fair.waiting[tenant] += change
        if fair.kind == DRR and fair.waiting[tenant] == 0:
            # Credit cannot be saved for later.
            fair.counter[tenant] = max(fair.counter[tenant], 0)


@kernel
def next_tenant(fair, queue, iteration):
    """The tenant whose first request is at the head of the queue; somebody must be waiting."""
    settle_all(fair, iteration)
    if fair.kind == DRR:
        return tenant_in_turn(fair)
    best = NONE
    for tenant in range(len(fair.counter)):
        if fair.waiting[tenant] > 0 and (best == NONE or precedes(fair, queue, tenant, best)):
            best = tenant
    return best


@kernel
def first_of(fair, queue, tenant):
    """Queue position of a tenant's first waiting request."""
    return least_from(queue.waiting, queue.base + fair.begin[tenant])


@kernel
def precedes(fair, queue, tenant, other):
    """Tell whether `tenant` is strictly ahead of `other`."""
    if fair.kind == VTC:
        return fair.counter[tenant] < fair.counter[other]
    mine = queue.row_at_rank[first_of(fair, queue, tenant) - queue.base]
    theirs = queue.row_at_rank[first_of(fair, queue, other) - queue.base]
    return fair.tag[mine] < fair.tag[theirs]


@kernel
def tenant_in_turn(fair):
    """Deficit round robin: the tenant at the pointer while it may spend, else the next that may."""
    tenants = len(fair.counter)
    tenant = fair.turn[POINTER]
    if fair.waiting[tenant] > 0 and fair.counter[tenant] < 0:
        return tenant
    skip_rounds(fair)
    while True:
        tenant = (tenant + 1) % tenants
        if fair.waiting[tenant] > 0:
            fair.counter[tenant] -= fair.quantum
            if fair.counter[tenant] < 0:
                fair.turn[POINTER] = tenant
                return tenant


@kernel
def skip_rounds(fair):
    """Grant at once the rounds in which nobody comes to spend anything."""
    least = NEVER_CHANGES
    for tenant in range(len(fair.counter)):
        if fair.waiting[tenant] > 0:
            least = min(least, fair.counter[tenant])
    rounds = least // fair.quantum
    if rounds > 0:
        for tenant in range(len(fair.counter)):
            if fair.waiting[tenant] > 0:
                fair.counter[tenant] -= rounds * fair.quantum


@kernel
def iterations_to_other_tenant(fair, tenant):
    """Iterations of the present decodes after which another tenant would be at the head."""
    if fair.kind == WFQ:
        return NEVER_CHANGES
    slope = OUTPUT_WEIGHT * fair.price[tenant] * fair.decodes[tenant]
    if fair.kind == DRR:
        return -(fair.counter[tenant] // slope) if slope > 0 else NEVER_CHANGES
    fewest = NEVER_CHANGES
    for other in range(len(fair.counter)):
        closing = slope - OUTPUT_WEIGHT * fair.price[other] * fair.decodes[other]
        if fair.waiting[other] > 0 and closing > 0:
            ahead = fair.counter[other] - fair.counter[tenant]
            # Of equals, the tenant that was first in the trace goes first.
            needed = ahead + (1 if other > tenant else 0)
            fewest = min(fewest, max(1, (needed + closing - 1) // closing))
    return fewest
