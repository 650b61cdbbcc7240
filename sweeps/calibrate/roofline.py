"""An operator profile from a model's shape and a GPU's figures, where nothing was measured.

Each operator takes the longer of computing and moving its bytes, plus a launch (Williams et al.,
"Roofline", CACM 2009). What GPUs exchange in tensor parallelism is not in it
(`sweeps.calibrate.all_reduce`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from sweeps._yaml import read_yaml
from sweeps.calibrate.models import find_shape
from sweeps.calibrate.profile import Profile
from sweeps.calibrate.shape import ModelShape
from vecsched.errors import CostError, InputError, did_you_mean

MOST_TOKENS = 2**14
MOST_DECODES = 2**9
CONTEXTS = 2 ** np.arange(8, 17)


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """What a GPU reaches in practice: peaks times the shares that kernels attain.

    Attributes:
        flops_per_s: peak of the matrix units for the model's numbers.
        memory_bytes_per_s: peak of the memory.
        compute_efficiency: share of the first that large matrix products reach.
        memory_efficiency: share of the second that streaming kernels reach.
        launch_s: least time of a kernel.

    Raises:
        CostError: a figure is not positive, or a share is above 1.
    """

    flops_per_s: float
    memory_bytes_per_s: float
    compute_efficiency: float = 0.7
    memory_efficiency: float = 0.8
    launch_s: float = 3e-6

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            most = 1.0 if name.endswith("efficiency") else np.inf
            if not number or not 0 < value <= most:
                raise CostError(f"gpu.{name} must be a number above 0, shares up to 1: {value!r}")

    def seconds(self, operations: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Return the time of calls that do so many operations and move so many bytes."""
        computing = operations / (self.flops_per_s * self.compute_efficiency)
        moving = moved / (self.memory_bytes_per_s * self.memory_efficiency)
        return np.maximum(computing, moving) + self.launch_s


def roofline(shape: ModelShape, gpu: Gpu) -> Profile:
    """Return the profile that a dense model would have at the roofline of a GPU.

    Raises:
        CostError: the model is a mixture of experts.
    """
    shape.check_dense()
    tokens = np.unique(np.concatenate([2 ** np.arange(15), 64 * np.arange(1, 65)]))
    sequences = 2 ** np.arange(10)
    layer = sum(_product_s(shape, gpu, sizes, tokens) for sizes in shape.gemms)
    for token_bytes in shape.small_kernels:
        layer = layer + gpu.seconds(np.zeros(len(tokens)), tokens * token_bytes)
    return Profile(
        tokens=tokens,
        tokens_s=shape.layers * np.asarray(layer),
        sequences=sequences,
        sequences_s=_product_s(shape, gpu, shape.vocabulary_gemm, sequences),
        attention=pd.concat([_decodes(shape, gpu), _prefills(shape, gpu)], ignore_index=True),
    )


def read_figures(path: Path, model: str | None, tensor_parallel: int) -> tuple[ModelShape, Gpu]:
    """Read a GPU's figures and a model's shape from a YAML file with `gpu` and `model`.

    Args:
        path: the file; its `model` is a name, a `config.json`, or the shape figure by figure.
        model: a name that goes before the file's; None: the file's.
        tensor_parallel: GPUs that share the model, unless the file's shape says.

    Raises:
        InputError: a figure is missing or unknown.
        CostError: a figure is impossible.
    """
    values = read_yaml(path)
    gpu = values.get("gpu") if isinstance(values, Mapping) else None
    if not isinstance(gpu, Mapping):
        raise InputError("must be a mapping with 'gpu' and 'model'", source=path)
    for name in gpu:
        if name not in Gpu.__dataclass_fields__:
            near = did_you_mean(str(name), Gpu.__dataclass_fields__)
            raise InputError(f"unknown; {near}", source=path, field=f"gpu.{name}")
    for name in ("flops_per_s", "memory_bytes_per_s"):
        if name not in gpu:
            raise InputError("missing", source=path, field=f"gpu.{name}")
    given = model or values.get("model")
    if given is None:
        raise InputError("missing", source=path, field="model")
    if not isinstance(given, Mapping):
        return find_shape(str(given), tensor_parallel), Gpu(**gpu)
    try:
        return ModelShape(**{"tensor_parallel": tensor_parallel, **given}), Gpu(**gpu)
    except TypeError as error:
        raise InputError(str(error), source=path, field="model") from None


def _product_s(
    shape: ModelShape, gpu: Gpu, sizes: tuple[int, int], tokens: np.ndarray
) -> np.ndarray:
    outputs, inputs = sizes
    values = outputs * inputs + tokens * (outputs + inputs)
    return gpu.seconds(2.0 * tokens * outputs * inputs, shape.bytes_per_value * values)


def _decodes(shape: ModelShape, gpu: Gpu) -> pd.DataFrame:
    decodes, context = _grid(2 ** np.arange(int(np.log2(MOST_DECODES)) + 1), CONTEXTS)
    return _rows(shape, gpu, decodes, (np.zeros_like(context), decodes * context, context))


def _prefills(shape: ModelShape, gpu: Gpu) -> pd.DataFrame:
    chunk, before = _grid(2 ** np.arange(4, int(np.log2(MOST_TOKENS)) + 1), np.append(0, CONTEXTS))
    return _rows(shape, gpu, np.zeros_like(chunk), (chunk, before + chunk, before))


def _rows(
    shape: ModelShape, gpu: Gpu, decodes: np.ndarray, work: tuple[np.ndarray, ...]
) -> pd.DataFrame:
    """Return attention rows: `work` is (chunk, KV tokens read in all, context)."""
    chunk, read, context = work
    heads, _ = shape.attention_heads
    # Two products of head_dim each with every key that a token may look at.
    seen = np.where(chunk > 0, chunk * (context + chunk / 2), read)
    operations = 4.0 * heads * shape.head_dim * seen
    prefill = chunk > 0
    return pd.DataFrame(
        {
            "chunk": chunk,
            "prefill_context": np.where(prefill, context, 0),
            "decodes": decodes,
            "decode_context": np.where(prefill, 0, context),
            "attention_s": shape.layers * gpu.seconds(operations, read * shape.kv_bytes),
        }
    )


def _grid(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    one, other = np.meshgrid(first, second, indexing="ij")
    return one.ravel(), other.ravel()
