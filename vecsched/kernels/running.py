"""The running list of paged disciplines: members in order of (latest) admission."""

from vecsched._jit import kernel
from vecsched.kernels.bitset import NONE
from vecsched.kernels.engine import MEMBERS, RUNNING_FIRST, RUNNING_LAST


@kernel
def append_running(engine, row):
    """`row` becomes the last member."""
    state, paging = engine.state, engine.paging
    last = state[RUNNING_LAST]
    paging.ahead[row], paging.behind[row] = last, NONE
    if last == NONE:
        state[RUNNING_FIRST] = row
    else:
        paging.behind[last] = row
    state[RUNNING_LAST] = row
    state[MEMBERS] += 1


@kernel
def unlink_running(engine, row):
    """`row` is no member any more; its own link to the next one stays readable."""
    state, paging = engine.state, engine.paging
    ahead, behind = paging.ahead[row], paging.behind[row]
    if ahead == NONE:
        state[RUNNING_FIRST] = behind
    else:
        paging.behind[ahead] = behind
    if behind == NONE:
        state[RUNNING_LAST] = ahead
    else:
        paging.ahead[behind] = ahead
    state[MEMBERS] -= 1


@kernel
def choose_victim(engine):
    """Who is preempted: the last member, or under priority the least urgent, first of equals."""
    state, paging = engine.state, engine.paging
    if not engine.paging_rules.by_priority:
        return state[RUNNING_LAST]
    victim = state[RUNNING_FIRST]
    row = paging.behind[victim]
    while row != NONE:
        if paging.urgency[row] > paging.urgency[victim]:
            victim = row
        row = paging.behind[row]
    return victim
