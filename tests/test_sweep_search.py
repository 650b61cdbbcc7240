"""Search: it finds what is good, ends where it should, and goes on where it stopped."""

from types import SimpleNamespace

import pandas as pd
import pytest

from sweeps.errors import StoreError
from sweeps.run import RunOptions, run_sweep
from sweeps.spec import SweepSpec, load_spec
from vecsched.errors import InputError, SimulationError

SMALL = {
    "trace": {"synthetic": "azure-conv-like", "requests": 20},
    "cost": "unit",
    "axes": {
        "load": [1, 2],
        "max_batch_size": {"from": 1, "to": 64},
        "discipline": ["strict", "static"],
        "max_wait_s": {"from": 0.1, "to": 10.0, "scale": "log", "when": "discipline == 'static'"},
    },
}


def spec_of(method="nsga2", points=100, **design) -> SweepSpec:
    objectives = {"maximise": ["gain"], "minimise": ["risk"]}
    return SweepSpec.from_mapping(
        SMALL | {"design": {"method": method, "points": points, **objectives, **design}}
    )


def bowl(trace, config, cost, *, metrics):
    """Best at 40 slots under static; risk grows with slots."""
    if config.max_batch_size == 13 and len(trace) > 1:
        raise SimulationError("unlucky")
    gain = -((config.max_batch_size - 40.0) ** 2) + 100 * (config.discipline == "static")
    return SimpleNamespace(summary={"gain": gain, "risk": float(config.max_batch_size)})


@pytest.mark.parametrize("method", ["nsga2", "tpe"])
def test_a_search_finds_more_than_chance(tmp_path, method):
    spec = spec_of(method, minimise=[])
    outcome = run_sweep(spec, tmp_path / "o.parquet", RunOptions(1), simulate=bowl)
    points = pd.read_parquet(tmp_path / "o.parquet")
    assert len(points) == outcome.points <= 200
    assert points["point"].tolist() == list(range(len(points)))
    assert points["key"].is_unique
    late = points.tail(20)
    # By chance half are static, and one of eight within 4 slots of the best.
    assert (late["discipline"] == "static").mean() > 0.6
    assert points["gain"].max() >= 100 - 4**2
    assert points.loc[points["discipline"] == "strict", "max_wait_s"].isna().all()
    assert points.loc[points["discipline"] == "static", "max_wait_s"].between(0.1, 10).all()


def test_workers_do_not_change_the_search(tmp_path):
    files = []
    for workers in (1, 3):
        path = tmp_path / f"{workers}.parquet"
        run_sweep(spec_of(), path, RunOptions(workers), simulate=bowl)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    run_sweep(spec_of(seed=1), tmp_path / "other.parquet", RunOptions(1), simulate=bowl)
    assert (tmp_path / "other.parquet").read_bytes() != files[0]


class Impatient:
    """Interrupts when some points are done."""

    def __init__(self, most) -> None:
        self.most, self.done = most, 0

    def note(self, text):
        pass

    def start(self, points, workers):
        self.started = points, workers

    def recall(self, points, failed):
        pass

    def advance(self, points, failed):
        self.done += points
        if self.done >= self.most:
            raise KeyboardInterrupt


@pytest.mark.parametrize("most", [8, 80, 130])
def test_an_interrupted_search_goes_on_where_it_stopped(tmp_path, most):
    run_sweep(spec_of(), tmp_path / "whole.parquet", RunOptions(1), simulate=bowl)
    path = tmp_path / "o.parquet"
    watcher = Impatient(most)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec_of(), path, RunOptions(1), progress=watcher, simulate=bowl)
    assert watcher.started == (200, 1)
    outcome = run_sweep(spec_of(), path, RunOptions(1, resume=True), simulate=bowl)
    assert outcome.resumed >= most
    assert path.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_finished_search_goes_on_with_more_points(tmp_path):
    path = tmp_path / "o.parquet"
    run_sweep(spec_of(points=40), path, simulate=bowl)
    before = pd.read_parquet(path)
    outcome = run_sweep(spec_of(points=60), path, RunOptions(resume=True), simulate=bowl)
    after = pd.read_parquet(path)
    assert outcome.resumed == len(before) < outcome.points == len(after)
    assert set(before["key"]) < set(after["key"])


def test_failed_points_are_rows_and_no_trial(tmp_path):
    axes = SMALL["axes"] | {"max_batch_size": [13, 14]}
    spec = SweepSpec.from_mapping(spec_of(points=8).as_written() | {"axes": axes}, "s.yaml")
    outcome = run_sweep(spec, tmp_path / "o.parquet", simulate=bowl)
    points = pd.read_parquet(tmp_path / "o.parquet")
    assert outcome.failed == (points["status"] == "error").sum()
    assert set(points["max_batch_size"]) <= {13, 14}


def test_constraints_are_kept(tmp_path):
    written = spec_of(points=60).as_written() | {"constraints": ["max_batch_size % 2 == 0"]}
    run_sweep(SweepSpec.from_mapping(written), tmp_path / "o.parquet", simulate=bowl)
    points = pd.read_parquet(tmp_path / "o.parquet")
    assert len(points) > 20
    assert (points["max_batch_size"] % 2 == 0).all()


def test_studies_that_cannot_be_used(tmp_path):
    path = tmp_path / "o.parquet"
    run_sweep(spec_of(points=4), path, simulate=bowl)
    with pytest.raises(StoreError, match=r"o\.parquet\.study: holds a search; resume it, or"):
        run_sweep(spec_of(points=4), path, simulate=bowl)
    with pytest.raises(StoreError, match="is the search of another sweep file"):
        run_sweep(spec_of(points=4, seed=9), path, RunOptions(resume=True), simulate=bowl)
    wrong = spec_of(points=4, maximise=["gains"])
    with pytest.raises(InputError, match="no such metric; did you mean 'gain'"):
        run_sweep(wrong, tmp_path / "p.parquet", simulate=bowl)


def test_a_file_can_be_searched_in_place_of_its_design(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "trace: {synthetic: azure-conv-like}\ncost: unit\naxes: {block_size: {from: 1, to: 64}}\n"
    )
    design = load_spec(tmp_path / "a.yaml", searching=50).design
    assert (design.method, design.points) == ("nsga2", 50)
    assert design.maximised == ("goodput_requests_per_s",)
    assert design.minimised == ("slowdown_p99",)
    with (tmp_path / "a.yaml").open("a") as file:
        file.write("design: {method: tpe, points: 9, minimise: [e2e_mean_s]}\n")
    design = load_spec(tmp_path / "a.yaml", searching=50).design
    assert (design.method, design.points) == ("tpe", 50)
    assert (design.maximised, design.minimised) == ((), ("e2e_mean_s",))
