"""What can be calibrated from: tells a source by its files and makes a cost model of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from sweeps._yaml import read_yaml
from sweeps.calibrate.aiconfigurator import read_aiconfigurator
from sweeps.calibrate.iteration_table import fit_iteration_table
from sweeps.calibrate.iterations import ENGINE_OVERHEAD_S, Provenance
from sweeps.calibrate.llmservingsim import read_llmservingsim
from sweeps.calibrate.models import find_shape
from sweeps.calibrate.operators import from_operators
from sweeps.calibrate.profile import from_profile
from sweeps.calibrate.roofline import Gpu, roofline
from sweeps.calibrate.run_log import fit_run
from sweeps.calibrate.shape import ModelShape
from sweeps.calibrate.vidur import read_vidur
from sweeps.measured_run import read_run
from vecsched import CostModel
from vecsched.errors import CostError, InputError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to calibrate, and what the files do not say.

    Attributes:
        path: a file, or the folder that a profile or a run is in.
        provenance: name, source and licence for the model's file.
        model: name of the model or path of its `config.json`; None: as the source names it.
        tensor_parallel: GPUs that share the model.
        overhead_s: seconds an iteration takes beside its kernels. An iteration table holds whole
            iterations and takes none.
        time_column: the durations of an iteration table, in seconds.
        cache_bytes: size of the GPU's last-level cache, for aiconfigurator.
        base: the model that a run adjusts.
    """

    path: Path
    provenance: Provenance
    model: str | None = None
    tensor_parallel: int = 1
    overhead_s: float = ENGINE_OVERHEAD_S
    time_column: str = "seconds"
    cache_bytes: float = 50e6
    base: CostModel | None = None

    def shape(self) -> ModelShape:
        """Return the model's shape on one GPU.

        Raises:
            InputError: nobody says which model it is, or it is unknown.
        """
        name = self.model or _model_of(self.path)
        if name is None:
            raise InputError("does not say which model it is of: give its name", source=self.path)
        return find_shape(name, self.tensor_parallel)


class Source(NamedTuple):
    """A kind of source.

    Attributes:
        text: what it is.
        recognised: tells whether a path is one.
        calibrate: makes a cost model of it.
    """

    text: str
    recognised: Callable[[Path], bool]
    calibrate: Callable[[Request], CostModel]


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
        kind = recognise(request.path)
    if kind not in SOURCES:
        raise InputError(f"unknown kind {kind!r}; {did_you_mean(kind, SOURCES)}")
    return SOURCES[kind].calibrate(request)


def recognise(path: Path) -> str:
    """Tell the kind of a source by its files.

    Raises:
        InputError: it is none that is known.
    """
    if not path.exists():
        raise InputError("there is no such file or folder", source=path)
    for kind, source in SOURCES.items():
        if source.recognised(path):
            return kind
    known = "; ".join(f"{kind}: {source.text}" for kind, source in SOURCES.items())
    raise InputError(f"is no source that is known ({known})", source=path)


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


def _model_of(folder: Path) -> str | None:
    """Return the model that a profile's `meta.yaml` names, in the folder or the one above."""
    for place in (folder, folder.parent):
        meta = place / "meta.yaml"
        if meta.is_file():
            values = read_yaml(meta)
            return (
                str(values["model"]) if isinstance(values, Mapping) and "model" in values else None
            )
    return None


def _from_table(request: Request) -> CostModel:
    try:
        read = pd.read_parquet if request.path.suffix == ".parquet" else pd.read_csv
        frame = read(request.path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as a table: {error}", source=request.path) from None
    return fit_iteration_table(frame, request.provenance, time_column=request.time_column)


def _from_llmservingsim(request: Request) -> CostModel:
    profile = read_llmservingsim(
        request.path, layers=request.shape().layers, tensor_parallel=request.tensor_parallel
    )
    return from_profile(profile, request.provenance, overhead_s=request.overhead_s)


def _from_vidur(request: Request) -> CostModel:
    profile = read_vidur(
        request.path, layers=request.shape().layers, tensor_parallel=request.tensor_parallel
    )
    return from_profile(profile, request.provenance, overhead_s=request.overhead_s)


def _from_aiconfigurator(request: Request) -> CostModel:
    tables = read_aiconfigurator(request.path, cache_bytes=request.cache_bytes)
    return from_operators(
        tables, request.shape(), request.provenance, overhead_s=request.overhead_s
    )


def _from_run(request: Request) -> CostModel:
    if request.base is None:
        raise InputError("a run adjusts a cost model: give one to start from", source=request.path)
    return fit_run(read_run(request.path), request.base, request.provenance)


def _from_figures(request: Request) -> CostModel:
    values = read_yaml(request.path)
    gpu = values.get("gpu") if isinstance(values, Mapping) else None
    if not isinstance(gpu, Mapping):
        raise InputError("must be a mapping with 'gpu' and 'model'", source=request.path)
    for name in gpu:
        if name not in Gpu.__dataclass_fields__:
            near = did_you_mean(str(name), Gpu.__dataclass_fields__)
            raise InputError(f"unknown; {near}", source=request.path, field=f"gpu.{name}")
    for name in ("flops_per_s", "memory_bytes_per_s"):
        if name not in gpu:
            raise InputError("missing", source=request.path, field=f"gpu.{name}")
    model = request.model or values.get("model")
    if model is None:
        raise InputError("missing", source=request.path, field="model")
    shape = _shape(model, request)
    return from_profile(
        roofline(shape, Gpu(**gpu)), request.provenance, overhead_s=request.overhead_s
    )


def _shape(model: Any, request: Request) -> ModelShape:
    """Return a shape given by name, or figure by figure."""
    if not isinstance(model, Mapping):
        return find_shape(str(model), request.tensor_parallel)
    try:
        return ModelShape(**{"tensor_parallel": request.tensor_parallel, **model})
    except TypeError as error:
        raise InputError(str(error), source=request.path, field="model") from None


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda path: path.is_dir() and all((path / name).exists() for name in names)


def _has_any(*groups: Sequence[str]) -> Callable[[Path], bool]:
    return lambda path: any(_has(*names)(path) for names in groups)


# From the most telling files to the least.
SOURCES = {
    "llmservingsim": Source(
        "a folder with dense.csv, attention.csv and per_sequence.csv, or with tp1/ and so on",
        lambda path: (
            _has("dense.csv", "attention.csv")(path)
            or (path.is_dir() and any(path.glob("tp*/dense.csv")))
        ),
        _from_llmservingsim,
    ),
    "vidur": Source(
        "a folder with mlp.csv and attention.csv", _has("mlp.csv", "attention.csv"), _from_vidur
    ),
    "aiconfigurator": Source(
        "a folder with gemm/, attention/ and comm/", _has("gemm", "attention"), _from_aiconfigurator
    ),
    "run": Source(
        "a folder with requests.jsonl and meta.json, which adjusts a given model",
        _has_any(["requests.jsonl", "meta.json"], ["vllm/requests.jsonl", "vllm/meta.json"]),
        _from_run,
    ),
    "roofline": Source(
        "a YAML file of a gpu's figures and a model's shape",
        lambda path: path.suffix in (".yaml", ".yml"),
        _from_figures,
    ),
    "iterations": Source(
        "a CSV or Parquet table of whole iterations",
        lambda path: path.is_file() and path.suffix in (".csv", ".parquet"),
        _from_table,
    ),
}
