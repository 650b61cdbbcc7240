"""Reads SplitwiseSim's table of whole-model times (`data/perf_model.csv`).

Milliseconds of a batch's prefill (`prompt_time`) and of one decode step (`token_time`), for several
models, GPUs and degrees of tensor parallelism; five repeats a point. A row whose decodes ran for
`token_size` steps tells their mean, at half of those steps.

Rows may be made up from others: those of `h100-80gb-pcap` are 1.3 times the prefills, and the very
decodes, of `h100-80gb`. Such rows are no measurement and are refused. And a batch that takes less
than half of what a smaller one takes was not run as it says: such points are left out, and counted.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from sweeps.calibrate.latency_csv import LatencyTable, read_csv
from vecsched.errors import InputError

COLUMNS = ("prompt_time", "token_time", "prompt_size", "batch_size", "token_size")
POINT = ["prompt_size", "batch_size", "token_size"]
MILLISECOND = 1e-3
# The share of a smaller batch's time below which a batch's time is taken for a mishap.
IMPOSSIBLE = 0.5


def read_splitwise(
    path: Path, *, model: str | None, hardware: str | None, tensor_parallel: int
) -> tuple[pd.DataFrame, int]:
    """Read the iterations of one model on one kind of GPU.

    Args:
        path: the CSV file.
        model: as the column `model` spells it; None: there is only one.
        hardware: as the column `hardware` spells it; None: there is only one.
        tensor_parallel: GPUs that share the model.

    Returns:
        Iterations as in `sweeps.calibrate.iterations`, and how many points were left out.

    Raises:
        InputError: a column is missing, a value is no count or no time, the model or the hardware
            is none or not the only one of the table, or its rows are derived from others.
    """
    table = read_csv(path)
    table = _only(table, "model", model).of_gpus("tensor_parallel", tensor_parallel)
    own = _only(table, "hardware", hardware)
    _check_measured(own, table)
    prefills, no_prefills = _possible(own.columns(POINT, "prompt_time"), "prompt_time")
    decodes, no_decodes = _possible(own.columns(POINT, "token_time"), "token_time")
    batch, prompt = prefills["batch_size"], prefills["prompt_size"]
    rows = [
        _rows(
            batch,
            prefill_tokens=batch * prompt,
            attention=batch * prompt**2,
            seconds=MILLISECOND * prefills["prompt_time"],
        ),
        _rows(
            decodes["batch_size"],
            decodes=decodes["batch_size"],
            context_tokens=decodes["batch_size"]
            * (decodes["prompt_size"] + decodes["token_size"] // 2),
            seconds=MILLISECOND * decodes["token_time"],
        ),
    ]
    return pd.concat(rows, ignore_index=True), no_prefills + no_decodes


def _possible(rows: pd.DataFrame, time: str) -> tuple[pd.DataFrame, int]:
    """Return the rows of points not much faster than a smaller batch, and how many others are."""
    points = rows.groupby(POINT, as_index=False)[time].median()
    longest = points.groupby(["prompt_size", "token_size"])[time].cummax()  # in order of the batch
    wrong = points[points[time] < IMPOSSIBLE * longest]
    impossible = rows.set_index(POINT).index.isin(wrong.set_index(POINT).index)
    return rows[~impossible], len(wrong)


def _rows(sequences: pd.Series, **figures: pd.Series) -> pd.DataFrame:
    nothing = dict.fromkeys(
        ("prefill_tokens", "decodes", "context_tokens", "attention", "prefill_context"), 0
    )
    return pd.DataFrame({**nothing, "sequences": sequences, **figures})


def _only(table: LatencyTable, column: str, wanted: str | None) -> LatencyTable:
    """Return the rows of one model or GPU."""
    if column not in table.frame:
        raise InputError("missing column", source=table.path, field=column)
    known = sorted(map(str, table.frame[column].unique()))
    if wanted is None and len(known) == 1:
        return table
    if wanted not in known:
        raise InputError(
            f"must be one of {', '.join(known)}", source=table.path, field=column, value=wanted
        )
    return table.only(table.frame[column] == wanted)


def _check_measured(own: LatencyTable, table: LatencyTable) -> None:
    """Refuse a variant of a GPU whose times are all one multiple of the GPU's."""
    name = str(own.frame["hardware"].iloc[0])
    mine = own.frame.sort_values(POINT, kind="stable")["prompt_time"].to_numpy()
    for other, rows in table.frame.groupby("hardware"):
        if name == other or not name.startswith(str(other)) or len(rows) != len(mine):
            continue
        ratio = mine / rows.sort_values(POINT, kind="stable")["prompt_time"].to_numpy()
        if np.ptp(ratio) < 1e-6:
            raise InputError(
                f"is not measured: all its prompt times are {ratio[0]:.3g} times those of {other}",
                source=own.path,
                field="hardware",
                value=name,
            )
