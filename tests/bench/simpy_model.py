"""The scheduler as one would model it with SimPy: slots as a resource, one process a request.

Slots, the token budget and the affine cost are there, KV blocks are not. Nothing is tuned, but
nothing is done to make it slow either: tokens are counted by the engine's process, not as events.
"""

from collections import deque
from collections.abc import Generator
from typing import Any, NamedTuple

import simpy

from vecsched import SchedulerConfig, Trace


class Times(NamedTuple):
    """When each request got its first and its last token, in seconds."""

    first_token: list[float]
    finished: list[float]


class Job:
    """A request that has a slot."""

    def __init__(self, env: simpy.Environment, row: int, prompt: int, output: int) -> None:
        self.row, self.context = row, prompt
        self.prefill_left, self.decode_left = prompt, output - 1
        self.done = env.event()


class Engine:
    """Runs iterations as long as there is work."""

    def __init__(
        self, env: simpy.Environment, config: SchedulerConfig, cost: dict[str, float], times: Times
    ) -> None:
        self.env, self.cost, self.times = env, cost, times
        self.slots = simpy.Resource(env, config.max_batch_size)
        self.budget, self.chunk = config.max_num_batched_tokens, config.prefill_chunk_size
        self.entering: deque[Job] = deque()  # have a slot, wait for tokens
        self.running: list[Job] = []
        self.work_came = env.event()

    def submit(self, job: Job) -> simpy.Event:
        self.entering.append(job)
        if not self.work_came.triggered:
            self.work_came.succeed()
        return job.done

    def demand(self, job: Job) -> int:
        return min(job.prefill_left, self.chunk) or min(job.decode_left, 1)

    def run(self) -> Generator[simpy.Event, Any, None]:
        while True:
            if not self.running and not self.entering:
                self.work_came = self.env.event()
                yield self.work_came
            yield self.env.timeout(0)  # slots that were just given back change hands
            left = self.budget - sum(self.demand(job) for job in self.running)
            while self.entering and self.demand(self.entering[0]) <= left:
                left -= self.demand(self.entering[0])
                self.running.append(self.entering.popleft())
            yield self.env.timeout(self.duration())
            self.advance()

    def duration(self) -> float:
        prefill = decodes = context = 0
        for job in self.running:
            if job.prefill_left > 0:
                prefill += min(job.prefill_left, self.chunk)
            elif job.decode_left > 0:
                decodes += 1
                context += job.context + 1
        cost = self.cost
        return (
            cost["fixed_s"]
            + cost["per_prefill_token_s"] * prefill
            + cost["per_decode_s"] * decodes
            + cost["per_context_token_s"] * context
        )

    def advance(self) -> None:
        going_on = []
        for job in self.running:
            if job.prefill_left > 0:
                job.prefill_left -= min(job.prefill_left, self.chunk)
                if job.prefill_left == 0:
                    self.times.first_token[job.row] = self.env.now
                going_on.append(job)
                continue
            if job.decode_left > 0:
                job.decode_left -= 1
                job.context += 1
            if job.decode_left == 0:
                self.times.finished[job.row] = self.env.now
                job.done.succeed()
            else:
                going_on.append(job)
        self.running = going_on


def arrive(
    env: simpy.Environment, engine: Engine, trace: Trace
) -> Generator[simpy.Event, Any, None]:
    """Start a process for each request when it arrives."""
    given = (trace.arrival_s, trace.prompt_tokens, trace.output_tokens)
    columns = (column.tolist() for column in given)  # Python's own numbers are faster one by one
    for row, (arrival, prompt, output) in enumerate(zip(*columns, strict=True)):
        yield env.timeout(arrival - env.now)
        env.process(serve(engine, Job(env, row, prompt, output)))


def serve(engine: Engine, job: Job) -> Generator[simpy.Event, Any, None]:
    """Wait for a slot, hold it until the last token."""
    with engine.slots.request() as slot:
        yield slot
        yield engine.submit(job)


def run(trace: Trace, config: SchedulerConfig, cost: dict[str, float]) -> Times:
    """Simulate a trace, whose arrivals must be in order, to its end."""
    env = simpy.Environment()
    times = Times([0.0] * len(trace), [0.0] * len(trace))
    engine = Engine(env, config, cost, times)
    env.process(arrive(env, engine, trace))
    env.process(engine.run())
    env.run()  # until no event is left: all have been served
    return times
