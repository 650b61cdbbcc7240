"""Whole sweeps: the file's bytes, failing points, and nothing left behind."""

import math
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest

from sweeps.errors import SpecError, StoreError
from sweeps.estimate import estimate
from sweeps.run import RunOptions, run_sweep
from sweeps.spec import SweepSpec
from sweeps.store import read_metadata
from vecsched import CostModel, MetricOptions, SchedulerConfig, engine_version, simulate
from vecsched.errors import InputError, SimulationError

AXES = {
    "load": [1, 4],
    "seed": [3, 1],
    "policy": ["fcfs", "shortest_total"],
    "max_batch_size": [1, 2, 8],
}


def spec_of(**parts) -> SweepSpec:
    small = {
        "trace": {"synthetic": "azure-conv-like", "requests": 30},
        "cost": {"tabulated": {"decode": {"fixed_s": 0.01, "token_s": [[1, 1e-4]]}}},
        "base": {"prefill_chunk_size": 128},
        "axes": AXES,
        "slo": {"ttft_s": 5},
    }
    return SweepSpec.from_mapping(small | parts, "s.yaml")


def by_hand(trace, config, cost, *, metrics):
    """A simulation that takes no time; loads above 2 cannot be run."""
    if len(trace) > 1 and trace.arrival_s[-1] < 3:
        raise SimulationError("too busy")
    summary = {"requests": len(trace), "last_s": float(trace.arrival_s[-1]), "none_s": math.nan}
    return SimpleNamespace(summary=summary)


class Watcher:
    def __init__(self) -> None:
        self.notes, self.started, self.advances, self.recalled = [], None, [], []

    def note(self, text):
        self.notes.append(text)

    def start(self, points, workers):
        self.started = points, workers

    def recall(self, points, failed):
        self.recalled.append((points, failed))

    def advance(self, points, failed):
        self.advances.append((points, failed))


def test_rows_are_those_of_single_simulations(tmp_path):
    spec, path = spec_of(), tmp_path / "out.parquet"
    outcome = run_sweep(spec, path, RunOptions(2))
    assert (outcome.output, outcome.points, outcome.failed) == (path, 24, 0)
    assert (outcome.first_error, outcome.requests, outcome.workers) == (None, 30, 2)
    rows = pq.read_table(path).to_pylist()
    assert [row["point"] for row in rows] == list(range(24))
    for row in (rows[0], rows[13], rows[-1]):
        config = SchedulerConfig(
            policy=row["policy"], max_batch_size=row["max_batch_size"], prefill_chunk_size=128
        )
        trace = spec.trace_of(spec.trace[0], row["seed"]).scaled(row["load"])
        cost = spec.cost_models()["tabulated"]
        single = simulate(trace, config, cost, metrics=MetricOptions(ttft_slo_s=5))
        expected = {
            name: None if math.isnan(value) else value for name, value in single.summary.items()
        }
        assert {name: row[name] for name in expected} == expected
        assert (row["status"], row["error"]) == ("ok", None)
        assert (row["trace"], row["cost"]) == ("azure-conv-like", "tabulated")
        assert row["engine_version"] == engine_version()
    assert rows[0]["seed"] == 3
    assert rows[-1]["seed"] == 1


def test_same_bytes_whatever_the_number_of_workers(tmp_path):
    files = []
    for workers in (1, 2, 3, None):
        run_sweep(spec_of(), tmp_path / f"{workers}.parquet", RunOptions(workers))
        files.append((tmp_path / f"{workers}.parquet").read_bytes())
    assert files[1:] == files[:1] * 3


def test_keys_are_distinct_and_follow_what_determines_the_result(tmp_path):
    def keys(**parts) -> set[str]:
        run_sweep(spec_of(**parts), tmp_path / "o.parquet", RunOptions(1), simulate=by_hand)
        return set(pq.read_table(tmp_path / "o.parquet")["key"].to_pylist())

    assert len(keys()) == 24
    assert keys(name="another name") == keys()
    assert keys(axes=AXES | {"load": [1]}) < keys()
    assert not keys(slo={"ttft_s": 6}) & keys()
    assert not keys(cost="unit") & keys()
    assert not keys(trace={"synthetic": "azure-conv-like", "requests": 31}) & keys()


def test_metadata(tmp_path):
    run_sweep(spec_of(), tmp_path / "o.parquet", RunOptions(1), simulate=by_hand)
    metadata = read_metadata(tmp_path / "o.parquet")
    assert metadata["engine_version"] == engine_version()
    assert CostModel.from_mapping(metadata["costs"][0]) == spec_of().cost_models()["tabulated"]
    assert [trace["seed"] for trace in metadata["traces"]] == [3, 1]
    assert len({trace["fingerprint"] for trace in metadata["traces"]}) == 2
    # The spec within is enough to run the sweep again.
    run_sweep(SweepSpec.from_mapping(metadata["spec"]), tmp_path / "p.parquet", simulate=by_hand)
    assert (tmp_path / "p.parquet").read_bytes() == (tmp_path / "o.parquet").read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_point_is_a_row(tmp_path, workers):
    watcher = Watcher()
    outcome = run_sweep(
        spec_of(), tmp_path / "o.parquet", RunOptions(workers), progress=watcher, simulate=by_hand
    )
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    failed = [row for row in rows if row["load"] == 4]
    assert (outcome.points, outcome.failed) == (24, 12)
    assert {row["status"] for row in failed} == {"error"}
    assert {row["error"] for row in failed} == {"SimulationError: too busy"}
    assert {(row["requests"], row["last_s"]) for row in failed} == {(None, None)}
    assert all(row["status"] == "ok" and row["requests"] == 30 for row in rows if row["load"] == 1)
    assert {row["none_s"] for row in rows} == {None}
    assert outcome.first_error == (
        "point 6 (policy='fcfs', max_batch_size=1, load=4.0, seed=3): SimulationError: too busy"
    )
    assert watcher.started == (24, workers)
    assert [sum(column) for column in zip(*watcher.advances, strict=True)] == [24, 12]


def test_a_sweep_of_failures_only(tmp_path):
    outcome = run_sweep(spec_of(axes={"load": [4]}), tmp_path / "o.parquet", simulate=by_hand)
    assert (outcome.points, outcome.failed) == (1, 1)
    assert "last_s" in pq.read_schema(tmp_path / "o.parquet").names


@pytest.mark.parametrize("workers", [1, 2])
def test_any_other_exception_ends_the_sweep_and_keeps_what_is_done(tmp_path, workers):
    calls = []

    def broken(trace, config, cost, *, metrics):
        calls.append(config)
        if len(calls) > 15:
            raise ZeroDivisionError
        return by_hand(trace, config, cost, metrics=metrics)

    path, whole = tmp_path / "o.parquet", tmp_path / "p.parquet"
    with pytest.raises(ZeroDivisionError):
        run_sweep(spec_of(), path, RunOptions(workers), simulate=broken)
    assert [each.name for each in tmp_path.iterdir()] == ["o.parquet.parts"]
    outcome = run_sweep(spec_of(), path, RunOptions(workers, resume=True), simulate=by_hand)
    assert 0 < outcome.resumed < outcome.points
    run_sweep(spec_of(), whole, simulate=by_hand)
    assert path.read_bytes() == whole.read_bytes()


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path):
    """Every point is simulated once, whatever the number of interruptions."""

    class Impatient(Watcher):
        def advance(self, points, failed):
            super().advance(points, failed)
            raise KeyboardInterrupt

    calls = []

    def count(trace, config, cost, *, metrics):
        if len(trace) > 1:
            calls.append((trace.arrival_s[-1], config))
        return by_hand(trace, config, cost, metrics=metrics)

    path, watchers = tmp_path / "o.parquet", []
    for resume in (False, True, True):
        watchers.append(Impatient())
        with pytest.raises(KeyboardInterrupt):
            run_sweep(spec_of(), path, RunOptions(1, resume), progress=watchers[-1], simulate=count)
    outcome = run_sweep(spec_of(), path, RunOptions(1, resume=True), simulate=count)
    # 24 points make tasks of 24 / 4 = 6 each; three runs ended after one of them.
    assert [watcher.recalled for watcher in watchers] == [
        [],
        [(1, 0)] * 6,
        [(1, 0)] * 6 + [(1, 1)] * 6,
    ]
    assert (outcome.points, outcome.resumed, outcome.failed) == (24, 18, 12)
    assert outcome.first_error.startswith("point 6 (policy='fcfs', max_batch_size=1, load=4.0")
    assert len(calls) == len(set(calls)) == 24
    run_sweep(spec_of(), tmp_path / "p.parquet", simulate=by_hand)
    assert path.read_bytes() == (tmp_path / "p.parquet").read_bytes()


def test_a_sweep_can_be_extended_and_renamed(tmp_path):
    small, path = AXES | {"max_batch_size": [2, 1]}, tmp_path / "o.parquet"
    run_sweep(spec_of(axes=small), path, simulate=by_hand)
    wanted = spec_of(variants=[{"name": "v"}])
    outcome = run_sweep(wanted, path, RunOptions(resume=True), simulate=by_hand)
    assert (outcome.points, outcome.resumed) == (24, 16)
    run_sweep(wanted, tmp_path / "p.parquet", simulate=by_hand)
    assert path.read_bytes() == (tmp_path / "p.parquet").read_bytes()


def test_a_finished_sweep_resumed_is_the_same(tmp_path):
    path = tmp_path / "o.parquet"
    run_sweep(spec_of(), path, simulate=by_hand)
    before = path.read_bytes()
    only_samples = iter([by_hand(spec_of().trace_of(spec_of().trace[0], 1), None, None, metrics=0)])
    outcome = run_sweep(
        spec_of(), path, RunOptions(resume=True), simulate=lambda *_, **__: next(only_samples)
    )
    assert (outcome.resumed, outcome.failed) == (24, 12)
    assert path.read_bytes() == before


def test_a_sweep_may_be_a_folder(tmp_path):
    run_sweep(spec_of(), tmp_path / "o", simulate=by_hand)
    run_sweep(spec_of(), tmp_path / "o.parquet", simulate=by_hand)
    one, many = pd.read_parquet(tmp_path / "o.parquet"), pd.read_parquet(tmp_path / "o")
    pd.testing.assert_frame_equal(many, one)


def test_tables_of_requests(tmp_path):
    spec, path = spec_of(axes={"load": [1, 2], "max_batch_size": [1, 8]}), tmp_path / "o.parquet"
    run_sweep(spec, path)
    alone = path.read_bytes()
    run_sweep(spec, path, RunOptions(2, per_request=True))
    assert path.read_bytes() == alone
    for row in pq.read_table(path).to_pylist():
        trace = spec.trace_of(spec.trace[0], row["seed"]).scaled(row["load"])
        config = SchedulerConfig(max_batch_size=row["max_batch_size"], prefill_chunk_size=128)
        result = simulate(trace, config, spec.cost_models()["tabulated"])
        found = pd.read_parquet(tmp_path / "o.requests", filters=[("key", "==", row["key"])])
        expected = result.requests
        pd.testing.assert_frame_equal(found[expected.columns], expected, check_dtype=False)
    assert len([*(tmp_path / "o.requests").glob("key=*")]) == 4


def test_a_point_without_its_table_is_not_done(tmp_path):
    spec, path = spec_of(axes={"load": [1, 2]}), tmp_path / "o.parquet"
    keep = RunOptions(per_request=True, resume=True)
    run_sweep(spec, path)
    assert run_sweep(spec, path, keep).resumed == 0
    first, second = (tmp_path / "o.requests").glob("key=*/requests.parquet")
    content = first.read_bytes()
    first.unlink()
    assert run_sweep(spec, path, keep).resumed == 1
    assert first.read_bytes() == content
    # A smaller sweep without --resume replaces both.
    run_sweep(spec_of(axes={"load": [1]}), path, RunOptions(per_request=True))
    assert sum(each.exists() for each in (first, second)) == 1
    assert len([*(tmp_path / "o.requests").iterdir()]) == 1


def never(*_, **__):
    pytest.fail("nothing may be simulated")


def test_unwritable_output_is_told_before_anything_runs(tmp_path):
    with pytest.raises(StoreError, match="No such file or directory"):
        run_sweep(spec_of(), tmp_path / "missing" / "o", simulate=never)


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"axes": {"max_batch_size": [1, 0]}}, SpecError),
        ({"axes": {"policy": ["fcfs", "deadline"]}}, SpecError),
        ({"cost": "no-such-gpu"}, SpecError),
        ({"trace": {"path": "no-such-file.csv"}, "axes": {}}, InputError),
    ],
)
def test_a_bad_spec_is_told_before_anything_runs(tmp_path, parts, error):
    with pytest.raises(error):
        run_sweep(spec_of(**parts), tmp_path / "o.parquet", simulate=never)
    with pytest.raises(error):
        estimate(spec_of(**parts), simulate=never)
    assert list(tmp_path.iterdir()) == []


def test_tenants_of_the_trace_reach_the_sample(tmp_path):
    """Which metrics exist may depend on the trace's columns; the file's columns follow."""
    (tmp_path / "t.csv").write_text(
        "arrival_s,prompt_tokens,output_tokens,tenant\n0,5000,2,a\n1,5,3,b\n"
    )

    def with_tenants(trace, config, cost, *, metrics):
        assert set(trace.tenant) <= {"a", "b"}
        return SimpleNamespace(summary={f"{tenant}_requests": 1 for tenant in "ab"})

    spec = SweepSpec.from_mapping(
        {"trace": {"path": "t.csv"}, "cost": "unit"}, "s.yaml", folder=tmp_path
    )
    run_sweep(spec, tmp_path / "o.parquet", simulate=with_tenants)
    (row,) = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert (row["a_requests"], row["b_requests"], row["seed"]) == (1, 1, None)
    assert read_metadata(tmp_path / "o.parquet")["traces"][0]["seed"] is None


def test_each_trace_is_built_once_and_shared(tmp_path):
    traces = {}

    def keep(trace, config, cost, *, metrics):
        traces.setdefault(id(trace), trace)  # held, so that no identity is used twice
        assert not trace.arrival_s.flags.writeable
        return by_hand(trace, config, cost, metrics=metrics)

    run_sweep(spec_of(), tmp_path / "o.parquet", RunOptions(3), simulate=keep)
    assert len([trace for trace in traces.values() if len(trace) > 1]) == 4  # two seeds, two loads


def test_estimate_counts_points_and_times_each_discipline():
    calls = []

    def count(trace, config, cost, *, metrics):
        if len(trace) > 1:
            calls.append((config.discipline, len(trace)))
        return by_hand(trace, config, cost, metrics=metrics)

    axes = AXES | {"discipline": ["strict", "static"]}
    guess = estimate(spec_of(axes=axes), workers=2, simulate=count)
    assert (guess.points, guess.requests, guess.workers) == (48, 30, 2)
    assert sorted(guess.seconds_per_point) == ["static", "strict"]
    assert set(calls) == {("static", 30), ("strict", 30)}
    # Half of the 48 points are of each discipline, and two run at a time.
    assert guess.seconds == pytest.approx(24 * sum(guess.seconds_per_point.values()) / 2)


def test_kernels_are_compiled_before_the_first_point_and_said_so(tmp_path, monkeypatch):
    warmed = []
    monkeypatch.setattr("sweeps.run.is_compiled", lambda: False)
    monkeypatch.setattr("sweeps.run.warm_up", warmed.append)
    monkeypatch.setattr("sweeps.run.engine_simulate", by_hand)
    watcher = Watcher()
    axes = {"discipline": ["strict", "static"]}
    run_sweep(spec_of(axes=axes), tmp_path / "o.parquet", progress=watcher)
    assert warmed == [["static", "strict"]]
    assert watcher.notes == ["compiling the kernels (the first time only)"]
