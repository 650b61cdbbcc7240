"""Which waiting request stands at the head of the queue, besides the overdue.

A static policy decides it by keys. Fair queueing decides it between tenants by what they have been
served, which is charged to counters in whole units (65536 of them are one token at weight 1).
"""

from naive.policies import policy_name, policy_parameter
from naive.requests import arrival_order, queue_order

UNIT = 65536


def read_weights(text):
    """{"a": 2.0, "b": 0.5} from "a=2,b=0.5"."""
    entries = [entry.split("=") for entry in text.split(",") if entry.strip()]
    return {name.strip(): float(weight) for name, weight in entries}


def price_of(tenant, config):
    """Units that a prompt token costs the tenant; an output token costs twice that."""
    return round(UNIT / read_weights(config["tenant_weights"]).get(tenant, 1.0))


def tenants_of(by_arrival):
    """The tenants of requests in arrival order, in the order of their first arrival."""
    return list(dict.fromkeys(request.tenant for request in by_arrival))


class StaticOrder:
    """The policy's keys; who was served makes no difference."""

    is_static = True

    def __init__(self, by_arrival, config):
        """Take all requests of the trace in arrival order."""

    def first(self, waiting):
        """The head of the queue, which is not empty. Called at every look, and only then."""
        return min(waiting, key=queue_order)

    def on_join(self, request, waiting):
        """A request arrives and is about to wait beside `waiting`."""

    def on_first_admission(self, request):
        """A request is admitted, not resumed; it is about to leave the queue."""

    def on_token(self, request):
        """A request has got an output token."""

    def on_leave(self, request, waiting):
        """A request has left the queue, admitted or ended; `waiting` still wait."""

    def state(self):
        """All that decides about the future."""
        return ()


class FairOrder(StaticOrder):
    """Counters of what each tenant has been served; the policies differ in whose turn it is."""

    is_static = False

    def __init__(self, by_arrival, config):
        self.tenants = tenants_of(by_arrival)
        self.price = {tenant: price_of(tenant, config) for tenant in self.tenants}
        self.counter = dict.fromkeys(self.tenants, 0)

    def first(self, waiting):
        tenant = self.whose_turn(self.firsts(waiting))
        return self.firsts(waiting)[tenant]

    def firsts(self, waiting):
        """{tenant: its first waiting request}, in the order of the tenants."""
        by_arrival = sorted(waiting, key=arrival_order)
        return {
            tenant: next(request for request in by_arrival if request.tenant == tenant)
            for tenant in self.tenants
            if any(request.tenant == tenant for request in waiting)
        }

    def whose_turn(self, firsts):
        raise NotImplementedError

    def on_first_admission(self, request):
        self.counter[request.tenant] += self.price[request.tenant] * request.prompt

    def on_token(self, request):
        self.counter[request.tenant] += 2 * self.price[request.tenant]

    def state(self):
        return tuple(self.counter.values())


class Vtc(FairOrder):
    """Virtual token counter: the tenant that was served least."""

    def __init__(self, by_arrival, config):
        super().__init__(by_arrival, config)
        self.admitted_last = []  # the tenant, once there is one

    def whose_turn(self, firsts):
        return min(firsts, key=lambda tenant: self.counter[tenant])  # the first of equals

    def on_join(self, request, waiting):
        """A tenant that was away must not make up for it: its counter is lifted."""
        firsts = self.firsts(waiting)
        if request.tenant in firsts:
            return
        to_follow = list(firsts) or self.admitted_last
        floor = min((self.counter[tenant] for tenant in to_follow), default=0)
        self.counter[request.tenant] = max(self.counter[request.tenant], floor)

    def on_first_admission(self, request):
        super().on_first_admission(request)
        self.admitted_last = [request.tenant]


class Drr(FairOrder):
    """Deficit round robin: tenants take turns and spend their credit, a counter below 0."""

    def __init__(self, by_arrival, config):
        super().__init__(by_arrival, config)
        self.quantum = int(policy_parameter(config["policy"]))
        assert self.quantum > 0, "without a quantum nobody ever gets credit"
        self.pointer = len(self.tenants) - 1

    def whose_turn(self, firsts):
        tenant = self.tenants[self.pointer]
        while tenant not in firsts or self.counter[tenant] >= 0:
            self.pointer = (self.pointer + 1) % len(self.tenants)
            tenant = self.tenants[self.pointer]
            if tenant in firsts:
                self.counter[tenant] -= self.quantum * UNIT
        return tenant

    def on_leave(self, request, waiting):
        """The charge of the admission, if it was one, has been booked before."""
        if request.tenant not in self.firsts(waiting):
            self.counter[request.tenant] = max(self.counter[request.tenant], 0)

    def state(self):
        return (*super().state(), self.pointer)


class Wfq(FairOrder):
    """Self-clocked fair queueing: finish tags, and the tag in service as the time."""

    def __init__(self, by_arrival, config):
        super().__init__(by_arrival, config)
        self.tags = {}  # of every request that has joined
        self.last_tag = dict.fromkeys(self.tenants, 0)
        self.virtual_time = 0

    def whose_turn(self, firsts):
        return min(firsts, key=lambda tenant: self.tags[firsts[tenant]])  # the first of equals

    def on_join(self, request, waiting):
        tenant = request.tenant
        start = max(self.virtual_time, self.last_tag[tenant])
        cost = self.price[tenant] * (request.prompt + 2 * request.predicted_output)
        self.tags[request] = self.last_tag[tenant] = start + cost

    def on_first_admission(self, request):
        super().on_first_admission(request)
        self.virtual_time = max(self.virtual_time, self.tags[request])


FAIR = {"vtc": Vtc, "drr": Drr, "wfq": Wfq}


def order_of(by_arrival, config):
    """The order under a configuration's policy, before anything has happened."""
    return FAIR.get(policy_name(config["policy"]), StaticOrder)(by_arrival, config)
