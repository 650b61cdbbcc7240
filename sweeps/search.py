"""Search, for spaces too large to enumerate: Optuna proposes choices in view of earlier results.

A *trial* is one choice, run on every trace, seed and load; the means of its metrics over them are
its objectives. Trials are proposed in batches of a fixed size, each batch from what is known when
it begins, so that the search does not depend on the number of workers.

The study is a journal file beside the output, `out.parquet.study`: what was tried, and how good it
was. Resuming finishes it, or goes on with more points. A trial that was told to the study has its
rows on disk, so nothing is simulated twice.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pyarrow.compute as pc
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import TrialState

from sweeps.axes import Axis
from sweeps.errors import SpecError, StoreError
from sweeps.files import reporting
from sweeps.prepare import Sweep
from sweeps.rows import RowsOf
from sweeps.sections import DesignSection
from sweeps.space import Candidate, Choice, Point
from sweeps.spec import SweepSpec
from vecsched import SchedulerConfig
from vecsched.errors import InputError, did_you_mean

# Trials in a batch: a generation of NSGA-II; few for TPE, which learns from each.
_BATCH = {"nsga2": 32, "tpe": 8}
_TOLD = (TrialState.COMPLETE, TrialState.PRUNED)


class Search:
    """A plan of a sweep (see `sweeps.plans.Plan`): its points follow the results."""

    def __init__(self, sweep: Sweep, output: Path, resume: bool) -> None:
        """Open the study.

        Raises:
            StoreError: the study cannot be written, is another sweep's, or is there although
                nothing is to be resumed.
        """
        self._sweep, self._design = sweep, sweep.spec.design
        self._study = _open_study(sweep.spec, output.with_name(f"{output.name}.study"), resume)
        self._choices: dict[tuple[str, SchedulerConfig], Choice] = {}  # in the order of trials

    def __len__(self) -> int:
        assert self._design.points is not None
        return self._design.points * self._sweep.space.runs

    def batches(self, rows: RowsOf) -> Iterator[Iterable[Point]]:
        """Yield the points of trials of earlier runs, then those of one batch after another."""
        for trial in self._study.get_trials(deepcopy=False, states=_TOLD):
            choice = self._choice(trial.params)
            if choice is not None:
                self._choices.setdefault(_identity(choice), choice)
        if self._choices:
            yield self.points()
        while (missing := (self._design.points or 0) - self._told()) > 0:
            yield from self._batch(min(_BATCH[self._design.method], missing), rows)

    def points(self) -> Iterator[Point]:
        """Yield the points of all trials, in their order; of equal choices the first."""
        return self._sweep.space.points(self._choices.values)

    def _batch(self, size: int, rows: RowsOf) -> Iterator[Iterable[Point]]:
        # From scratch for each batch, so that a search that was resumed draws what it would have.
        self._study.sampler = _sampler(self._design, self._told())
        trials = [self._study.ask() for _ in range(size)]
        proposed = [self._propose(trial) for trial in trials]
        new = {_identity(each): each for each in proposed if each is not None}
        new = {identity: each for identity, each in new.items() if identity not in self._choices}
        if new:
            yield self._sweep.space.points(new.values)
            self._choices |= new
        for trial, choice in zip(trials, proposed, strict=True):
            values = None if choice is None else self._objectives(rows, choice)
            if values is None:
                self._study.tell(trial, state=TrialState.PRUNED)
            else:
                self._study.tell(trial, values)

    def _told(self) -> int:
        return len(self._study.get_trials(deepcopy=False, states=_TOLD))

    def _propose(self, trial: optuna.Trial) -> Choice | None:
        """Let the study choose a value for each axis that exists."""
        spec = self._sweep.spec
        names = {"cost": [*self._sweep.costs], "variant": [each.name for each in spec.variants]}
        params = {
            name: trial.suggest_categorical(name, values)
            for name, values in names.items()
            if len(values) > 1
        }
        for field, axis in spec.config_axes.items():
            condition = axis.condition
            if condition is None or condition(self._sweep.space.settings(self._candidate(params))):
                params[field] = _suggest(trial, field, axis)
        return self._choice(params)

    def _candidate(self, params: dict[str, Any]) -> Candidate:
        spec = self._sweep.spec
        variants = {each.name: each for each in spec.variants}
        # With one cost model, or one variant, there was nothing to choose.
        variant = variants.get(params.get("variant", next(iter(variants), "")))
        cost = params.get("cost", next(iter(self._sweep.costs)))
        axes = {field: params[field] for field in spec.config_axes if field in params}
        return Candidate(cost, variant, axes)

    def _choice(self, params: dict[str, Any]) -> Choice | None:
        """Return a trial's choice; None if it is impossible, which a sample has not shown."""
        try:
            return self._sweep.space.choice(self._candidate(params))
        except SpecError:
            return None

    def _objectives(self, rows: RowsOf, choice: Choice) -> list[float] | None:
        """Return the means over traces, seeds and loads; None if a point failed."""
        known = self._choices[_identity(choice)]
        table = rows(self._sweep.space.points(lambda: [known]))
        values = []
        for name in self._design.maximised + self._design.minimised:
            if name not in table.schema.names:
                hint = did_you_mean(name, table.schema.names)
                raise InputError(f"no such metric; {hint}", field="design", value=name)
            values.append(pc.mean(table[name], skip_nulls=False).as_py())
        return None if None in values else values


def _identity(choice: Choice) -> tuple[str, SchedulerConfig]:
    return choice.cost, choice.config


def _suggest(trial: optuna.Trial, field: str, axis: Axis) -> Any:
    listed = axis.listed
    if listed is not None:
        return trial.suggest_categorical(field, listed)
    suggest = trial.suggest_int if axis.whole else trial.suggest_float
    return suggest(field, axis.start, axis.stop, log=axis.scale == "log")  # type: ignore[arg-type]


def _sampler(design: DesignSection, told: int) -> optuna.samplers.BaseSampler:
    seed = design.seed + told
    if design.method == "tpe":
        return optuna.samplers.TPESampler(seed=seed)
    return optuna.samplers.NSGAIISampler(population_size=_BATCH["nsga2"], seed=seed)


def _open_study(spec: SweepSpec, path: Path, resume: bool) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if path.exists() and not resume:
        raise StoreError(f"{path}: holds a search; resume it, or remove it to start afresh")
    up, down = StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE
    directions = [up] * len(spec.design.maximised) + [down] * len(spec.design.minimised)
    with reporting(path):
        storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
        study = optuna.create_study(
            storage=storage, study_name="sweep", directions=directions, load_if_exists=True
        )
        written = spec.as_written()
        written["design"].pop("points")  # a search may go on with more
        before = study.user_attrs.setdefault("spec", written)
        if before != written:
            raise StoreError(f"{path}: is the search of another sweep file, or an older version")
        study.set_user_attr("spec", written)
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)  # its run was killed
    return study
