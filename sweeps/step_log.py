"""A run of the simulator, told in the words of vLLM's step logs."""

from collections.abc import Iterator

from sweeps.scenario_file import Scenario, Step
from vecsched import SchedulerConfig, Trace
from vecsched.simulation import BlockState, Decisions, Iteration


def steps_of(scenario: Scenario, decisions: Decisions) -> Iterator[Step]:
    """Yield the steps of a run in which every iteration lasts one second.

    Where requests wait and nothing can be done, vLLM takes empty steps; here time passes, and the
    steps are filled in. vLLM would go on for ever behind a request that can never be served, so a
    run that stands still is told up to the step at which the log was cut off.

    Args:
        scenario: the requests, the scheduler, and where the log was cut off.
        decisions: of a run of these.
    """
    log = _StepLog(scenario.trace, scenario.config)
    number = 0
    for place, row in enumerate(decisions.iterations):
        begin = int(row.start_s)
        yield from log.empty_steps(number, begin)
        yield log.step(row, decisions.blocks[place] if decisions.blocks else None)
        number = begin + 1
    if decisions.stuck is not None and scenario.max_steps is not None:
        yield from log.empty_steps(number, scenario.max_steps)


class _StepLog:
    """vLLM's two queues, kept from what each iteration did.

    Attributes:
        running: requests that run, in vLLM's order.
        computed: tokens whose KV exists, of every request that ever ran.
        over: requests that have ended.
    """

    def __init__(self, trace: Trace, config: SchedulerConfig) -> None:
        self.running: list[int] = []
        self.computed: dict[int, int] = {}
        self.over: set[int] = set()
        self._config = config
        self._arrival = trace.arrival_s.tolist()
        self._keys = _queue_keys(trace, config)
        self._shares_blocks = config.enable_prefix_caching and trace.prefix_ids is not None

    def step(self, row: Iteration, blocks: BlockState | None) -> Step:
        """Tell an iteration, and where the blocks were once its batch was formed, if known."""
        self.running = [r for r in self.running if r not in row.preempted] + row.admitted
        waiting = self._waiting(row.start_s)
        newly = [r for r in row.admitted if r not in self.computed]
        again = [r for r in row.admitted if r in self.computed]
        self.computed |= dict.fromkeys([*row.preempted, *row.admitted], 0)
        self.computed |= dict(row.num_cached_tokens)
        for request, tokens in row.scheduled:
            self.computed[request] += tokens
        tables = None if blocks is None else [(r, blocks.tables[r]) for r in self.running]
        told = Step(
            step=int(row.start_s),
            scheduled=row.scheduled,
            newly_admitted=newly,
            resumed=again,
            preempted=row.preempted,
            finished=row.finished,
            num_cached_tokens=row.num_cached_tokens,
            free_blocks_after_schedule=_known(row.free_kv_blocks),
            num_running=len(self.running),
            num_waiting=len(waiting),
            free_blocks_after_update=self._free_after_update(row, tables),
            running_order=self.running,
            waiting_order=waiting,
            free_queue=None if blocks is None else blocks.free_queue,
            block_tables=tables,
        )
        self.over.update(row.finished)
        self.running = [r for r in self.running if r not in self.over]
        return told

    def empty_steps(self, first: int, end: int) -> Iterator[Step]:
        """Yield the steps from `first` to before `end` in which requests wait; nobody runs."""
        blocks = self._config.kv_blocks
        for number in range(first, end):
            waiting = self._waiting(number)
            if waiting:
                # Where each block is in the queue is not told: some may have come back since.
                yield Step(
                    step=number,
                    scheduled=[],
                    free_blocks_after_schedule=_known(blocks),
                    num_running=0,
                    num_waiting=len(waiting),
                    free_blocks_after_update=blocks,
                    running_order=[],
                    waiting_order=waiting,
                )

    def _waiting(self, now: float) -> list[int]:
        """Requests that wait, in the queue's order."""
        arrived = (r for r, arrival in enumerate(self._arrival) if arrival <= now)
        absent = self.over.union(self.running)
        return sorted((r for r in arrived if r not in absent), key=self._keys.__getitem__)

    def _free_after_update(
        self, row: Iteration, tables: list[tuple[int, list[int]]] | None
    ) -> int | None:
        """Free blocks once those of the requests that have ended are back; None: not known."""
        if tables is not None:
            held = {block for r, blocks in tables if r not in row.finished for block in blocks}
            return _known(self._config.kv_blocks) - len(held)
        if self._shares_blocks and row.finished:
            return None  # others may hold some of them
        size = self._config.block_size
        return _known(row.free_kv_blocks) + sum(-(-self.computed[r] // size) for r in row.finished)


def _queue_keys(trace: Trace, config: SchedulerConfig) -> list[tuple[float, ...]]:
    """Place in the waiting queue; first-come is arrival order, preempted or not."""
    rows = range(len(trace))
    if config.policy != "priority":
        return [(row,) for row in rows]
    assert trace.priority is not None
    assert trace.engine_time_s is not None
    return list(zip(trace.priority.tolist(), trace.engine_time_s.tolist(), rows, strict=True))


def _known(blocks: int | None) -> int:
    assert blocks is not None, "a scenario's cache has a size"
    return blocks
