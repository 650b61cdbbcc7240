"""What to calibrate: the files, and what they do not say."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeps._yaml import read_yaml
from sweeps.calibrate.all_reduce import AllReduce, read_all_reduce
from sweeps.calibrate.iterations import ENGINE_OVERHEAD_S, Provenance
from sweeps.calibrate.models import find_shape
from sweeps.calibrate.shape import ModelShape
from vecsched import CostModel
from vecsched.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to calibrate, and what the files do not say.

    Attributes:
        paths: a file, or the folder that a profile or a run is in; or several files.
        provenance: name, source and licence for the model's file.
        model: name of the model or path of its `config.json`; None: as the source names it.
        hardware: which GPU of a table of several.
        tensor_parallel: GPUs that share the model.
        all_reduce: what they send each other, or the file with it; None: nothing, a lower bound.
        overhead_s: seconds an iteration takes beside its kernels. Tables of whole iterations hold
            it and take none.
        time_column: the durations of an iteration table, in seconds.
        cache_bytes: size of the GPU's last-level cache, for aiconfigurator.
        base: the model that runs adjust.
    """

    paths: tuple[Path, ...]
    provenance: Provenance
    model: str | None = None
    hardware: str | None = None
    tensor_parallel: int = 1
    all_reduce: Path | AllReduce | None = None
    overhead_s: float = ENGINE_OVERHEAD_S
    time_column: str = "seconds"
    cache_bytes: float = 50e6
    base: CostModel | None = None

    def shape(self) -> ModelShape:
        """Return the model's shape on one GPU.

        Raises:
            InputError: nobody says which model it is, or it is unknown.
        """
        name = self.model or _model_of(self.paths[0])
        if name is None:
            raise InputError(
                "does not say which model it is of: give its name", source=self.paths[0]
            )
        return find_shape(name, self.tensor_parallel)

    def all_reduces(self) -> AllReduce | None:
        """Return the times of all-reduces, if the GPUs have anything to send each other."""
        if self.tensor_parallel == 1 or self.all_reduce is None:
            return None
        if isinstance(self.all_reduce, AllReduce):
            return self.all_reduce
        return read_all_reduce(self.all_reduce, self.tensor_parallel)


def _model_of(path: Path) -> str | None:
    """Return the model that a profile's `meta.yaml` names, beside the tables or one level up."""
    folder = path if path.is_dir() else path.parent
    for place in (folder, folder.parent):
        meta = place / "meta.yaml"
        if meta.is_file():
            values = read_yaml(meta)
            named = isinstance(values, Mapping) and "model" in values
            return str(values["model"]) if named else None
    return None
