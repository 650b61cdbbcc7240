"""Reads what the planner of NVIDIA Dynamo measured of an engine: two `.npz` files.

`prefill_raw_data.npz` has the TTFT of one prompt at a time, in milliseconds, by its tokens;
`decode_raw_data.npz` the time between tokens by the share of the KV cache in use and the context
of each request. Both are of the engine as seen from outside: whole iterations and what the server
adds. The number of decodes is what the cache holds of such contexts; where that is more than the
engine had slots, its times are those of fewer decodes, and outliers here.
"""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from sweeps.calibrate.given import Given, tables_of
from vecsched.errors import InputError

PREFILL = ("prefill_isl", "prefill_ttft")
DECODE = ("x_kv_usage", "y_context_length", "z_itl", "max_kv_tokens")
FILES = ("prefill_raw_data.npz", "decode_raw_data.npz")
MILLISECOND = 1e-3


def read_dynamo(given: Given) -> pd.DataFrame:
    """Read the iterations that were measured (see `sweeps.calibrate.iterations`).

    Args:
        given: the folder with both files, or their paths.

    Raises:
        InputError: a file or an array is missing, or an array holds no finite figures.
    """
    prefill, decode = tables_of(given).need(*FILES)
    prompt, ttft = _arrays(prefill, PREFILL)
    usage, context, itl, capacity = _arrays(decode, DECODE)
    decodes = np.maximum(np.rint(usage * capacity / context), 1).astype(np.int64)
    rows = [
        {
            "prefill_tokens": prompt.astype(np.int64),
            "sequences": 1,
            "attention": prompt.astype(np.int64) ** 2,
            "seconds": MILLISECOND * ttft,
        },
        {
            "decodes": decodes,
            "sequences": decodes,
            "context_tokens": np.rint(decodes * context).astype(np.int64),
            "seconds": MILLISECOND * itl,
        },
    ]
    both = pd.concat([pd.DataFrame(part) for part in rows], ignore_index=True)
    return both.assign(prefill_context=0).fillna(0)


def _arrays(path: Path, names: tuple[str, ...]) -> list[np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in names if name in file}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot be read as .npz: {error}", source=path) from None
    for name in names:
        if name not in found:
            raise InputError("there is no such array", source=path, field=name)
        numbers = found[name].dtype.kind in "iuf" and np.isfinite(found[name]).all()
        least = 0 if name == "x_kv_usage" else np.finfo(np.float64).tiny
        if not numbers or (found[name] < least).any():
            raise InputError("must hold positive numbers", source=path, field=name)
    arrays = [found[name].astype(np.float64).ravel() for name in names]
    rows = {len(array) for array in arrays if len(array) > 1}
    if len(rows) > 1:
        raise InputError(f"its arrays have different lengths: {sorted(rows)}", source=path)
    return arrays
