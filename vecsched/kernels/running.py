"""The running list of paged disciplines: members in order of (latest) admission."""

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE
from vecsched.kernels.chain import link_last, unlink
from vecsched.kernels.engine import MEMBERS

# It is the only list of its chains.
RUNNING = 0


@kernel
def append_running(engine, row):
    """`row` becomes the last member."""
    link_last(engine.paging.running, RUNNING, row)
    engine.state[MEMBERS] += 1


@kernel
def unlink_running(engine, row):
    """`row` is no member any more; its own link to the next one stays readable."""
    unlink(engine.paging.running, RUNNING, row)
    engine.state[MEMBERS] -= 1


@kernel
def first_member(engine):
    """The member admitted longest ago, or NONE."""
    return engine.paging.running.first[RUNNING]


@kernel
def last_member(engine):
    """The member admitted last, or NONE."""
    return engine.paging.running.last[RUNNING]


@kernel
def next_member(engine, row):
    """The member behind `row`, or NONE."""
    return engine.paging.running.behind[row]


@kernel
def choose_victim(engine):
    """Who is preempted: the last member, or under priority the least urgent, first of equals."""
    if not engine.paging_rules.by_priority:
        return last_member(engine)
    urgency, victim = engine.paging.urgency, first_member(engine)
    row = next_member(engine, victim)
    while row != NONE:
        if urgency[row] > urgency[victim]:
            victim = row
        row = next_member(engine, row)
    return victim
