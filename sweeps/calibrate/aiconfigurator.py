"""Reads the operator tables of NVIDIA's aiconfigurator (`systems/data/<system>`).

Its Parquet files hold milliseconds of one call; the system's YAML file beside the folder holds the
figures of the hardware.
"""

from os import PathLike
from pathlib import Path

import pandas as pd
import yaml

from sweeps.calibrate.operators import OperatorTables
from vecsched.errors import InputError

HEADS = {"num_heads": "heads", "num_key_value_heads": "kv_heads", "head_dim": "head_dim"}


def read_aiconfigurator(
    folder: str | PathLike[str],
    *,
    cache_bytes: float,
    backend: str = "vllm/0.19.0",
    dtype: str = "bfloat16",
) -> OperatorTables:
    """Read one system's tables: seconds, full attention, one type of numbers.

    Args:
        folder: the system's folder, with `gemm`, `attention` and `comm` in it; the figures of the
            hardware are in the file of the same name plus `.yaml`.
        cache_bytes: size of the GPU's last-level cache, which the YAML file does not give.
        backend: engine and version, a folder name in the three.
        dtype: type of the matrix products' inputs; attention is bfloat16, its KV cache too.

    Raises:
        InputError: a file or a column is missing, or nothing is left of a table.
    """
    folder = Path(folder)
    attention = folder / "attention" / backend
    full: dict[str, str | int] = {
        "attn_dtype": "bfloat16",
        "kv_cache_dtype": "bfloat16",
        "window_size": 0,
    }
    # Generation counts the tokens before the one it makes, which reads itself too.
    decode = _table(
        attention / "generation_attention_perf.parquet",
        {"batch_size": "sequences", "step": "context", **HEADS},
        full,
    )
    memory_bytes_per_s, launch_s = _hardware(folder.with_name(folder.name + ".yaml"))
    return OperatorTables(
        gemm=_table(
            folder / "gemm" / backend / "gemm_perf.parquet",
            {"m": "tokens", "n": "outputs", "k": "inputs"},
            {"gemm_dtype": dtype},
        ),
        prefill_attention=_table(
            attention / "context_attention_perf.parquet",
            {"batch_size": "sequences", "isl": "tokens", **HEADS},
            {**full, "step": 0},
        ),
        decode_attention=decode.assign(context=decode["context"] + 1),
        all_reduce=read_custom_all_reduce(
            folder / "comm" / backend / "custom_allreduce_perf.parquet"
        ),
        memory_bytes_per_s=memory_bytes_per_s,
        launch_s=launch_s,
        cache_bytes=cache_bytes,
    )


def read_custom_all_reduce(path: Path) -> pd.DataFrame:
    """Return all-reduces of bfloat16 in a CUDA graph: `gpus, bytes, seconds`.

    Raises:
        InputError: a column is missing, or no row is left.
    """
    rows = _table(
        path,
        {"num_gpus": "gpus", "message_size": "values"},
        {"allreduce_dtype": "bfloat16", "backend": "vllm_graph"},
    )
    # The size of a message is that of its tensor, in numbers of two bytes.
    return rows.assign(bytes=2 * rows["values"]).drop(columns="values")


def _table(path: Path, names: dict[str, str], only: dict[str, str | int]) -> pd.DataFrame:
    """Return the rows that `only` asks for, renamed, in seconds; duplicates become their median."""
    columns = [*names, *only, "latency"]
    try:
        rows = pd.read_parquet(path, columns=columns)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read as a table of {', '.join(columns)}: {error}", source=path
        ) from None
    for column, value in only.items():
        rows = rows[rows[column] == value]
    if rows.empty:
        wanted = ", ".join(f"{column} = {value}" for column, value in only.items())
        raise InputError(f"no row with {wanted}", source=path)
    bad = rows[~(rows["latency"] > 0)]
    if not bad.empty:
        row, value = int(bad.index[0]), bad["latency"].iloc[0]
        raise InputError("must be > 0", source=path, row=row, field="latency", value=value)
    merged = rows[[*names, "latency"]].groupby(list(names), as_index=False).median()
    seconds = merged["latency"] / 1e3
    return merged[list(names)].rename(columns=names).assign(seconds=seconds)


def _hardware(path: Path) -> tuple[float, float]:
    """Return the bandwidth that a small kernel reaches, in bytes a second, and its least time."""
    try:
        gpu = yaml.safe_load(path.read_text("utf-8"))["gpu"]
        bandwidth = gpu["mem_bw"] * gpu["mem_bw_empirical_scaling_factor"]
        return float(bandwidth), float(gpu["mem_empirical_constant_latency"])
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        problem = f"cannot be read as a system of aiconfigurator: {error!r}"
        raise InputError(problem, source=path) from None
