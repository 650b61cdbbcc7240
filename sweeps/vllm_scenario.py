"""Step logs of the real vLLM scheduler, compared with what the `vllm` discipline decides.

Time is counted in steps: every iteration lasts one second, so a step is the second in which it
starts.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from sweeps.scenario_file import Scenario, Step, Summary
from sweeps.step_log import steps_of
from sweeps.step_summary import summary_of
from vecsched.simulation import decisions_until_stuck


class Difference(NamedTuple):
    """The first place where two logs differ; no step: their summaries do."""

    step: int | None
    field: str
    vllm: Any
    vecsched: Any

    def __str__(self) -> str:
        place = "summary" if self.step is None else f"step {self.step}"
        return f"{place}, {self.field}: vLLM {self.vllm!r}, vecsched {self.vecsched!r}"


class Comparison(NamedTuple):
    """What came of a comparison: steps compared, the first difference, and a note if any."""

    steps: int
    difference: Difference | None
    note: str = ""


def compare(scenario: Scenario) -> Comparison:
    """Run a scenario and compare every logged field of every step, and the summary.

    With prefix caching it is run twice: as `simulate` does, which for unique prompts keeps nothing
    of single blocks, and block by block, which tells where each block is. Both must do as vLLM did.

    Raises:
        SimulationError: the run came to no end.
    """
    comparison = _compare(scenario, log_blocks=False)
    if comparison.difference is None and scenario.config.enable_prefix_caching:
        comparison = _compare(scenario, log_blocks=True)
    return comparison


def _compare(scenario: Scenario, *, log_blocks: bool) -> Comparison:
    decisions = decisions_until_stuck(scenario.trace, scenario.config, log_blocks=log_blocks)
    steps = list(_until_cut(steps_of(scenario, decisions), scenario.max_steps))
    difference = first_difference(scenario.steps, steps)
    if difference is None:
        difference = summary_difference(scenario.summary, summary_of(steps, scenario))
    note = ""
    if decisions.stuck is not None:
        stuck = decisions.stuck
        note = f"request {stuck} can never be served: vLLM's queue stands still from there on"
    return Comparison(len(steps), difference, note)


def _until_cut(steps: Iterator[Step], max_steps: int | None) -> Iterator[Step]:
    return takewhile(lambda step: max_steps is None or step.step < max_steps, steps)


def first_difference(expected: Sequence[Step], found: Sequence[Step]) -> Difference | None:
    """Compare step by step every field that both have; None if all are equal."""
    for theirs, ours in zip(expected, found, strict=False):
        for field in Step.model_fields:
            wanted, told = getattr(theirs, field), getattr(ours, field)
            if wanted is not None and told is not None and told != wanted:
                return Difference(theirs.step, field, wanted, told)
    if len(expected) != len(found):
        last = max(expected, found, key=len)[min(len(expected), len(found))]
        return Difference(last.step, "number of steps", len(expected), len(found))
    return None


def summary_difference(expected: Summary, found: Summary) -> Difference | None:
    """Compare the counts that both have; an event that is left out never happened."""
    for field in Summary.model_fields:
        wanted, told = getattr(expected, field), getattr(found, field)
        if field == "events" or wanted is None or told is None:
            continue
        if told != wanted:
            return Difference(None, field, wanted, told)
    if expected.events is not None and found.events is not None:
        for event, told in found.events.items():
            wanted = expected.events.get(event, 0)
            if told != wanted:
                return Difference(None, f"events.{event}", wanted, told)
    return None
