"""What can be calibrated from: tells a source by its files and makes a cost model of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from sweeps.calibrate.aiconfigurator import read_aiconfigurator
from sweeps.calibrate.all_reduce import with_all_reduce
from sweeps.calibrate.dynamo import FILES as DYNAMO_FILES
from sweeps.calibrate.dynamo import read_dynamo
from sweeps.calibrate.iteration_table import (
    check_table,
    fit_iteration_table,
    fit_iterations,
)
from sweeps.calibrate.kinds import Paths, are_runs, are_tables, has, is_llmservingsim, is_splitwise
from sweeps.calibrate.llmservingsim import read_llmservingsim
from sweeps.calibrate.llmservingsim_v0 import read_llmservingsim_v0
from sweeps.calibrate.operators import from_operators
from sweeps.calibrate.profile import Profile, from_profile
from sweeps.calibrate.request import Request
from sweeps.calibrate.roofline import read_figures, roofline
from sweeps.calibrate.run_log import fit_run
from sweeps.calibrate.shape import ModelShape
from sweeps.calibrate.splitwise import read_splitwise
from sweeps.calibrate.vidur import read_vidur
from sweeps.measured_run import RUN_FILES, read_run
from vecsched import CostModel
from vecsched.errors import CostError, InputError, did_you_mean


class Source(NamedTuple):
    """A kind of source.

    Attributes:
        text: what it is.
        recognised: tells whether files or a folder are one.
        calibrate: makes a cost model of it.
        tables: names of the files it reads, where they may be given one by one.
    """

    text: str
    recognised: Callable[[Paths], bool]
    calibrate: Callable[[Request], CostModel]
    tables: tuple[str, ...] = ()


def calibrate(request: Request, kind: str = "auto") -> CostModel:
    """Make a cost model, with its error, of a source.

    Args:
        request: what to calibrate.
        kind: a key of `SOURCES`, or "auto" to tell it by the files.

    Raises:
        InputError: the kind is unknown or cannot be told, or a file is not what it should be.
        CostError: there is too little to fit.
    """
    if kind == "auto":
        kind = recognise(request.paths)
    if kind not in SOURCES:
        raise InputError(f"unknown kind {kind!r}; {did_you_mean(kind, SOURCES)}")
    source = SOURCES[kind]
    if len(request.paths) > 1:
        _check_together(request.paths, kind, source.tables)
    return source.calibrate(request)


def recognise(paths: Paths) -> str:
    """Tell the kind of a source by its files.

    Raises:
        InputError: it is none that is known, or files of several kinds.
    """
    for path in paths:
        if not path.exists():
            raise InputError("there is no such file or folder", source=path)
    for kind, source in SOURCES.items():
        if source.recognised(paths):
            return kind
    if len(paths) > 1:
        kinds = ", ".join(f"{path.name}: {recognise((path,))}" for path in paths)
        raise InputError(f"these do not go together ({kinds})", source=paths[0].parent)
    known = "; ".join(f"{kind}: {source.text}" for kind, source in SOURCES.items())
    raise InputError(f"is no source that is known ({known})", source=paths[0])


def check_error(model: CostModel, most: float) -> None:
    """Refuse a model whose mean relative error is above a bound, on held-out rows if there are any.

    Raises:
        CostError: it is.
    """
    error = model.error.get("held_out", model.error)
    figure = error.get("all") or error.get("e2e") or {}
    mean = figure.get("mean", 0.0)
    if mean > most:
        raise CostError(
            f"{model.name}: the mean relative error is {mean:.1%}, above the bound of {most:.1%}"
        )


def _check_together(paths: Paths, kind: str, tables: tuple[str, ...]) -> None:
    """Refuse files beside those that a kind of source reads."""
    if kind in SEVERAL:
        return
    for path in paths:
        if path.name not in tables:
            wanted = f"its tables are {', '.join(tables)}" if tables else "it takes one path"
            raise InputError(f"is no part of a source of kind {kind}: {wanted}", source=path)


def _from_tables(request: Request) -> CostModel:
    """Fit to one table of whole iterations, or to several as if they were one."""
    frames = []
    for path in request.paths:
        frames.append(_read_table(path))
        check_table(frames[-1], request.time_column, str(path))
    frame = pd.concat(frames, ignore_index=True)
    return fit_iteration_table(frame, request.provenance, time_column=request.time_column)


def _read_table(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as a table: {error}", source=path) from None


def _from_profile(read: Callable[..., Profile]) -> Callable[[Request], CostModel]:
    """Return how to calibrate from operator profiles that a function reads."""

    def calibrate_profile(request: Request) -> CostModel:
        shape = request.shape()
        profile = read(request.paths, layers=shape.layers, tensor_parallel=request.tensor_parallel)
        return _fitted(profile, shape, request)

    return calibrate_profile


def _fitted(profile: Profile, shape: ModelShape, request: Request) -> CostModel:
    sent = request.all_reduces()
    if sent is not None:
        profile = with_all_reduce(profile, shape, sent)
    return from_profile(profile, request.provenance, overhead_s=request.overhead_s)


def _from_aiconfigurator(request: Request) -> CostModel:
    tables = read_aiconfigurator(request.paths[0], cache_bytes=request.cache_bytes)
    return from_operators(
        tables, request.shape(), request.provenance, overhead_s=request.overhead_s
    )


def _from_splitwise(request: Request) -> CostModel:
    rows, left_out = read_splitwise(
        request.paths[0],
        model=request.model,
        hardware=request.hardware,
        tensor_parallel=request.tensor_parallel,
    )
    model = fit_iterations(rows, request.provenance)
    if left_out:
        model = replace(model, error={**model.error, "points_left_out": left_out})
    return model


def _from_dynamo(request: Request) -> CostModel:
    return fit_iterations(read_dynamo(request.paths), request.provenance)


def _from_runs(request: Request) -> CostModel:
    if request.base is None:
        raise InputError(
            "a run adjusts a cost model: give one to start from", source=request.paths[0]
        )
    folders = dict.fromkeys(path if path.is_dir() else path.parent for path in request.paths)
    return fit_run([read_run(folder) for folder in folders], request.base, request.provenance)


def _from_figures(request: Request) -> CostModel:
    shape, gpu = read_figures(request.paths[0], request.model, request.tensor_parallel)
    return _fitted(roofline(shape, gpu), shape, request)


# From the most telling files to the least. Tables are told by one that no other profile has, so
# that a missing one is named.
SOURCES = {
    "llmservingsim": Source(
        "dense.csv, attention.csv and per_sequence.csv (and moe.csv), or a folder of them, or one "
        "with tp1/ and so on",
        is_llmservingsim,
        _from_profile(read_llmservingsim),
        ("dense.csv", "attention.csv", "per_sequence.csv", "moe.csv"),
    ),
    "llmservingsim_v0": Source(
        "layers.csv and attention.csv, or a folder of them",
        has("layers.csv"),
        _from_profile(read_llmservingsim_v0),
        ("layers.csv", "attention.csv"),
    ),
    "vidur": Source(
        "mlp.csv and attention.csv, or a folder of them",
        has("mlp.csv"),
        _from_profile(read_vidur),
        ("mlp.csv", "attention.csv"),
    ),
    "aiconfigurator": Source(
        "a folder with gemm/, attention/ and comm/", has("gemm", "attention"), _from_aiconfigurator
    ),
    "dynamo": Source(
        f"{' and '.join(DYNAMO_FILES)}, or a folder of them",
        has(*DYNAMO_FILES),
        _from_dynamo,
        DYNAMO_FILES,
    ),
    "run": Source(
        "folders with requests.jsonl and meta.json, which adjust a given model",
        are_runs,
        _from_runs,
        RUN_FILES,
    ),
    "roofline": Source(
        "a YAML file of a gpu's figures and a model's shape",
        lambda paths: len(paths) == 1 and paths[0].suffix in (".yaml", ".yml"),
        _from_figures,
    ),
    "splitwise": Source(
        "a CSV file with prompt_time and token_time by model and hardware",
        is_splitwise,
        _from_splitwise,
    ),
    "iterations": Source(
        "CSV or Parquet tables of whole iterations, taken together", are_tables, _from_tables
    ),
}
# What the GPUs of a group send each other is not in them.
OPERATOR_PROFILES = ("llmservingsim", "llmservingsim_v0", "vidur", "roofline")
# Kinds of which several can be taken together.
SEVERAL = ("run", "iterations")
