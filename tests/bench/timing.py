"""How times are taken on a machine that others use, too.

CPU seconds, not wall time, wherever one thread works: a process that waits for a core does not age.
What is compared is run in turns, so that both see the same neighbours.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self

import numpy as np
import pytest

in_cpu_seconds = pytest.mark.benchmark(timer=time.process_time)


class Comparison(NamedTuple):
    """Typical times of a subject and its reference; the rest as in `ledger.Line`."""

    subject_s: float
    reference_s: float
    spread: float
    other_cores: float | None

    @property
    def ratio(self) -> float:
        return self.subject_s / self.reference_s

    @property
    def speedup(self) -> float:
        return self.reference_s / self.subject_s

    @property
    def remarks(self) -> dict[str, Any]:
        """Return what `Ledger.note` wants to know beside the figure."""
        times = f"{in_words(self.subject_s)} against {in_words(self.reference_s)}"
        return {"detail": times, "spread": self.spread, "other_cores": self.other_cores}


class OtherLoad:
    """Cores that other processes keep busy while a `with` block runs; None where unknown."""

    cores: float | None = None

    def __enter__(self) -> Self:
        self._started = time.perf_counter(), _own_cpu_s(), _busy_cpu_s()
        return self

    def __exit__(self, *_: object) -> None:
        started, own, busy = self._started
        everybody = _busy_cpu_s()
        if busy is not None and everybody is not None:
            others = (everybody - busy) - (_own_cpu_s() - own)
            self.cores = max(0.0, others / (time.perf_counter() - started))


def compare(
    benchmark: Any,
    subject: Callable[..., Any],
    reference: Callable[[], Any],
    rounds: int,
    *,
    fresh: Callable[[], Any] | None = None,
) -> Comparison:
    """Time `subject` with pytest-benchmark, and `reference` before each of its rounds.

    For tests that are marked `in_cpu_seconds`. `fresh` makes an argument for `subject` before each
    round, which is not timed. One more round at the start warms both up.
    """
    if benchmark.disabled:
        pytest.skip("pytest-benchmark is disabled")
    reference_s: list[float] = []

    def take_turns() -> tuple[tuple[Any, ...], dict[str, Any]]:
        started = time.process_time()
        reference()
        reference_s.append(time.process_time() - started)
        return (() if fresh is None else (fresh(),)), {}

    with OtherLoad() as load:
        benchmark.pedantic(subject, setup=take_turns, rounds=rounds, warmup_rounds=1)
    return compared(benchmark.stats.stats.data, reference_s[1:], load)


def compared(
    subject_s: list[float],
    reference_s: list[float],
    load: OtherLoad,
    typical: Callable[[list[float]], float] = median,
) -> Comparison:
    """Return the typical times of two lists."""
    spread = max(spread_of(subject_s), spread_of(reference_s))
    return Comparison(typical(subject_s), typical(reference_s), spread, load.cores)


def child_cpu_s(code: str, folder: Path, **environment: str) -> tuple[float, str]:
    """Run Python code in a process of its own; return its CPU seconds and what it told stderr."""
    before = _children_cpu_s()
    done = subprocess.run(
        # Not the current folder but the installed package, as for a user: hence another folder.
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return _children_cpu_s() - before, done.stderr


def in_words(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def spread_of(times: list[float]) -> float:
    """Return interquartile range over median."""
    low, middle, high = np.percentile(times, [25, 50, 75])
    return float((high - low) / middle)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _own_cpu_s() -> float:
    return time.process_time() + _children_cpu_s()


def _busy_cpu_s() -> float | None:
    """CPU seconds that all processes have used since the machine started."""
    try:
        first_line = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:  # Linux only
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, first_line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
