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

`calibrate` tells a source by its files and does all this for `vecsched calibrate`.

Reading guide: `iterations` (what an iteration is and how a model's error is measured), `fitting`
(the one solver), then the fits: `iteration_table`, `operators`, `profile` with `attention_grid` and
`all_reduce`, `run_log`; what they are made from: `aiconfigurator`, `llmservingsim`,
`llmservingsim_v0`, `vidur`, `roofline`, `splitwise`, `dynamo`; `sources` (all of them, by name) and
`presets` (the cost models that ship with vecsched).
"""

from sweeps.calibrate.aiconfigurator import read_aiconfigurator
from sweeps.calibrate.all_reduce import AllReduce, read_all_reduce, ring, with_all_reduce
from sweeps.calibrate.dynamo import read_dynamo
from sweeps.calibrate.iteration_table import fit_iteration_table, fit_iterations
from sweeps.calibrate.iterations import (
    ENGINE_OVERHEAD_S,
    Provenance,
    error_by_kind,
    predict_s,
)
from sweeps.calibrate.llmservingsim import read_llmservingsim
from sweeps.calibrate.llmservingsim_v0 import read_llmservingsim_v0
from sweeps.calibrate.models import MODELS, find_shape
from sweeps.calibrate.operators import OperatorTables, from_operators
from sweeps.calibrate.presets import LLAMA_3_1_8B, build_presets, write_presets
from sweeps.calibrate.profile import Profile, from_profile
from sweeps.calibrate.request import Request
from sweeps.calibrate.roofline import Gpu, roofline
from sweeps.calibrate.run_log import fit_run
from sweeps.calibrate.shape import ModelShape
from sweeps.calibrate.sources import (
    OPERATOR_PROFILES,
    SOURCES,
    calibrate,
    check_error,
    recognise,
)
from sweeps.calibrate.splitwise import read_splitwise
from sweeps.calibrate.vidur import read_vidur

__all__ = [
    "ENGINE_OVERHEAD_S",
    "LLAMA_3_1_8B",
    "MODELS",
    "OPERATOR_PROFILES",
    "SOURCES",
    "AllReduce",
    "Gpu",
    "ModelShape",
    "OperatorTables",
    "Profile",
    "Provenance",
    "Request",
    "build_presets",
    "calibrate",
    "check_error",
    "error_by_kind",
    "find_shape",
    "fit_iteration_table",
    "fit_iterations",
    "fit_run",
    "from_operators",
    "from_profile",
    "predict_s",
    "read_aiconfigurator",
    "read_all_reduce",
    "read_dynamo",
    "read_llmservingsim",
    "read_llmservingsim_v0",
    "read_splitwise",
    "read_vidur",
    "recognise",
    "ring",
    "roofline",
    "with_all_reduce",
    "write_presets",
]
