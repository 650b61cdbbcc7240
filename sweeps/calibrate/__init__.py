"""Measurements in, a `vecsched.CostModel` with its error out.

From a table of whole-iteration times::

    model = fit_iteration_table(pandas.read_csv("times.csv"), Provenance("my-gpu", "times.csv"))
    model.save("cost.json")
    model.error["decode_only"]["mean"]

or from the times of single kernels, put together for a model of any shape::

    tables = read_aiconfigurator("h100_sxm", cache_bytes=50_000_000)
    model = from_operators(tables, LLAMA_3_1_8B, Provenance("llama3-8b-h100", "aiconfigurator"))

Every fit minimises the mean relative error itself with no negative coefficient, so a few wild rows
cannot bend it. `CostModel.error` says how far the model is from what it was made from, by kind of
iteration, on the rows of the fit and on rows held out of it.

Reading guide: `iterations` (what an iteration is and how a model's error is measured), `fitting`
(the one solver), then `iteration_table` and `operators` (the two sources), `presets` (the cost
models that ship with vecsched).
"""

from sweeps.calibrate.aiconfigurator import read_aiconfigurator
from sweeps.calibrate.iteration_table import fit_iteration_table
from sweeps.calibrate.iterations import Provenance, error_by_kind, predict_s
from sweeps.calibrate.operators import OperatorTables, from_operators
from sweeps.calibrate.presets import LLAMA_3_1_8B, build_presets, write_presets
from sweeps.calibrate.shape import ModelShape

__all__ = [
    "LLAMA_3_1_8B",
    "ModelShape",
    "OperatorTables",
    "Provenance",
    "build_presets",
    "error_by_kind",
    "fit_iteration_table",
    "from_operators",
    "predict_s",
    "read_aiconfigurator",
    "write_presets",
]
