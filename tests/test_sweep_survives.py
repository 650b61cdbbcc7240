"""Sweeps that are killed, interrupted and terminated, in processes of their own."""

import random
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from sweeps.run import RunOptions, run_sweep
from sweeps.spec import load_spec
from sweeps.store import read_metadata

SPEC = """
trace: {synthetic: azure-conv-like, requests: 40}
cost: llama3-8b-a100
axes:
  load: [1, 3]
  seed: [0, 1]
  policy: [fcfs, shortest_total, aging(10)]
  max_batch_size: {from: 1, to: 20, steps: 20}
"""
POINTS = 2 * 2 * 3 * 20

# A sweep that says when some points are done, and writes a part as often as it can.
PROGRAM = """
import sys
from sweeps import store
from sweeps.cli import main, progress

store._SECONDS_BETWEEN_PARTS = 0.0
advance = progress.Lines.advance

def tell(self, points, failed):
    advance(self, points, failed)
    print(self.done, flush=True)

progress.Lines.advance = tell
{patch}
main()
"""


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC)
    return tmp_path / "spec.yaml"


def start(spec, *arguments, patch="") -> subprocess.Popen:
    command = [sys.executable, "-c", PROGRAM.format(patch=patch), "sweep", str(spec), "-o"]
    command += [str(spec.parent / "out.parquet"), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes)


def test_a_sweep_killed_ten_times_is_an_undisturbed_one(spec, tmp_path):
    whole, path = tmp_path / "whole.parquet", tmp_path / "out.parquet"
    run_sweep(load_spec(spec), whole)
    moments = random.Random(5)
    reached = [0]
    for _ in range(10):
        with start(spec, "--resume") as sweep:
            # Some come to their end before their moment, or are killed before they begin.
            for _ in range(moments.randrange(5)):
                if line := sweep.stdout.readline():
                    reached.append(int(line))
            sweep.kill()
    assert max(reached) < POINTS  # none has finished
    assert len(set(reached)) > 10
    outcome = run_sweep(load_spec(spec), path, RunOptions(resume=True))
    assert (outcome.points, outcome.failed) == (POINTS, 0)
    assert max(reached) <= outcome.resumed < POINTS  # what was said to be done was on disk
    expected, found = pq.read_table(whole), pq.read_table(path)
    assert found.schema == expected.schema
    for name in expected.schema.names:
        ours, theirs = found[name].combine_chunks(), expected[name].combine_chunks()
        assert [bytes(b or b"") for b in ours.buffers()] == [
            bytes(b or b"") for b in theirs.buffers()
        ]
    assert path.read_bytes() == whole.read_bytes()
    assert read_metadata(path) == read_metadata(whole)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        *("out.parquet", "spec.yaml", "whole.parquet"),
    ]


# A simulation that never ends, on threads; the one in this thread, for the columns, does.
ENDLESS = """
import threading
from sweeps import run
simulate = run.engine_simulate

def endless(trace, config, *more, **options):
    if len(trace) > 1 and config.max_batch_size == 12:
        print("stuck", flush=True)
        threading.Event().wait()
    return simulate(trace, config, *more, **options)

run.engine_simulate = endless
"""


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_does_not_wait_for_simulations(spec, which):
    with start(spec, patch=ENDLESS) as sweep:
        while sweep.stdout.readline() != "stuck\n":
            pass
        sweep.send_signal(which)
        _, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 130
    command = f"vecsched sweep {spec} -o {spec.parent / 'out.parquet'} --resume"
    assert err.endswith(
        f"of {POINTS} points are done and kept; go on with: {command}\ninterrupted\n"
    )


# Writing takes for ever from the first part on.
SLOW_DISK = """
import threading

def flush(self):
    print("flushing", flush=True)
    # A signal that comes just before a wait without an end would not be looked at.
    while not threading.Event().wait(0.05):
        pass

store.Store.flush = flush
"""


def test_a_second_interrupt_leaves_at_once(spec):
    with start(spec, patch=SLOW_DISK) as sweep:
        for _ in range(2):
            # The second time it is the interrupted sweep that writes what it has.
            while sweep.stdout.readline() != "flushing\n":
                pass
            sweep.send_signal(signal.SIGINT)
        _, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 130
    assert "Traceback" not in err


def test_a_second_sweep_on_the_same_output_is_refused(spec):
    with start(spec, patch=ENDLESS) as first:
        while first.stdout.readline() != "stuck\n":
            pass
        for arguments in ([], ["--resume"]):
            with start(spec, *arguments) as second:
                out, err = second.communicate(timeout=60)
            assert (second.returncode, out) == (2, "")
            assert "out.parquet: another sweep is writing it" in err
        first.kill()
