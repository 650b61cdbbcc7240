"""The free queue kept as runs: random operations against a plain list of blocks."""

import numpy as np
import pytest

from vecsched import CostModel, SchedulerConfig, Trace
from vecsched._jit import entry_point
from vecsched.assembly import RunOptions, assemble
from vecsched.kernels.cache import RUNS
from vecsched.kernels.engine import EVICTED, FREE_KV, NEEDS_POOL
from vecsched.kernels.record import empty_record
from vecsched.kernels.runs import adopt_run, give_back_dead, give_back_run, take_from_runs

TAKE, END, PREEMPT, RESUME = range(4)
BLOCKS, ROWS, STEPS = 30, 8, 4000


@entry_point
def play(engine, script, kept, told):
    """Carry out (action, row, blocks, hashed); after each, tell what is kept of each row's run."""
    state = engine.state
    for place in range(len(script)):
        action, row, blocks, hashed = (
            script[place, 0],
            script[place, 1],
            script[place, 2],
            script[place, 3],
        )
        if action == TAKE:
            state[FREE_KV] -= blocks
            take_from_runs(engine, blocks)
        elif action == END:
            give_back_dead(engine, blocks, hashed)
        elif action == PREEMPT:
            give_back_run(engine, row, blocks, hashed)
        else:
            adopt_run(engine, row, blocks)
        for other in range(len(engine.cache.runs.kept)):
            kept[place, other] = engine.cache.runs.kept[other]
        told[place, 0], told[place, 1] = state[FREE_KV], state[EVICTED]
        told[place, 2] = state[NEEDS_POOL]


class PlainQueue:
    """Blocks as (row, number) that a row would find, "dead" with a hash, or "bare" without."""

    def __init__(self):
        self.blocks = ["bare"] * BLOCKS
        self.evicted = 0
        self.left, self.needs_pool = set(), False

    def take(self, blocks):
        taken, self.blocks = self.blocks[:blocks], self.blocks[blocks:]
        self.evicted += sum(block != "bare" for block in taken)

    def give_back(self, blocks, hashed, row=None):
        if row is not None:
            self.needs_pool |= row in self.left
        # From the last block to the first: the one without a hash to the head, the others behind.
        kept = [(row, number) if row is not None else "dead" for number in range(hashed)]
        self.blocks = ["bare"] * (blocks - hashed) + self.blocks + kept[::-1]

    def resume(self, row, blocks):
        own = [block for block in self.blocks if block[0] == row]
        if len(own) > blocks:
            self.left.add(row)
        rest = [(row, number) for number in range(blocks)]
        self.blocks = [block for block in self.blocks if block not in rest]
        # Nobody looks for what stays.
        self.blocks = ["dead" if block[0] == row else block for block in self.blocks]

    def kept(self):
        numbers = [sorted(n for r, n in self.runs() if r == row) for row in range(ROWS)]
        assert all(own == list(range(len(own))) for own in numbers)  # first ones only
        return [len(own) for own in numbers]

    def runs(self):
        return [block for block in self.blocks if block not in ("dead", "bare")]


def random_script(seed):
    """A script that a scheduler could follow, and what the plain queue says of it."""
    draw, queue = np.random.default_rng(seed), PlainQueue()
    script, kept, told = [], [], []
    held, waiting = {}, set()  # blocks of those that run; those that wait preempted
    for _ in range(STEPS):
        action = int(draw.integers(0, 4))
        row = int(draw.integers(0, ROWS))
        blocks = hashed = 0
        if action == TAKE and row not in waiting:
            blocks = int(draw.integers(0, min(6, len(queue.blocks)) + 1))
            queue.take(blocks)
            held[row] = held.get(row, 0) + blocks
        elif action in (END, PREEMPT) and held.get(row):
            blocks = held.pop(row)
            hashed = blocks - int(draw.integers(0, 2))
            queue.give_back(blocks, hashed, row if action == PREEMPT else None)
            if action == PREEMPT:
                waiting.add(row)
        elif action == RESUME and row in waiting:
            own = queue.kept()[row]
            blocks = max(own - int(draw.integers(0, 8) == 0), 0)
            queue.resume(row, blocks)
            held[row] = blocks
            waiting.remove(row)
        else:
            continue
        script.append((action, row, blocks, hashed))
        kept.append(queue.kept())
        told.append((len(queue.blocks), queue.evicted, queue.needs_pool))
        if queue.needs_pool:
            break  # from here on runs do not tell
    return np.array(script), kept, told


@pytest.mark.parametrize("seed", range(40))
def test_runs_are_the_queue(seed):
    script, kept, told = random_script(seed)
    trace = Trace(np.zeros(ROWS), np.ones(ROWS), np.ones(ROWS))
    config = SchedulerConfig(discipline="vllm", kv_blocks=BLOCKS, max_batch_size=ROWS)
    engine = assemble(trace, config, CostModel.unit(), empty_record(100, ROWS, False), RunOptions())
    assert engine.cache.kind == RUNS
    answers = np.zeros((len(script), ROWS), np.int64)
    figures = np.zeros((len(script), 3), np.int64)
    play(engine, script, answers, figures)
    assert figures.tolist() == [[free, evicted, int(pool)] for free, evicted, pool in told]
    assert answers.tolist() == kept


def test_scripts_are_worth_their_name():
    scripts = [random_script(seed) for seed in range(40)]
    actions = np.concatenate([script[:, 0] for script, _, _ in scripts])
    assert np.bincount(actions).min() > 300
    # Most of them leave a block behind sooner or later, and then need the pool.
    assert sum(told[-1][2] for _, _, told in scripts) > 20
    assert max(map(max, (row for _, kept, _ in scripts for row in kept))) > 3
