"""A cost model from the times of single kernels, put together for a dense model of any shape.

An iteration is the sum of its kernels. The measured ones are the four matrix products of a layer
and the one to the vocabulary, attention of prefills and of decodes, and the all-reduces of tensor
parallelism. What the tables do not hold:

- Normalisation (twice a layer), rotary embedding and the gated activation are bound by memory: the
  bytes they move over the bandwidth, plus a launch time for each.
- Scheduling, input preparation, sampling and handing out tokens are one constant an iteration,
  `ENGINE_OVERHEAD_S`.
- A batch of prefill chunks and decodes in one attention call costs more than the two apart; how
  much is not in such tables, so mixed iterations are a lower bound.
- A chunk behind a context was not measured either; its attention is priced by its work.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.interpolate import RegularGridInterpolator

from sweeps.calibrate.fitting import fit, flat, rising, segments, table, to_clock, to_points
from sweeps.calibrate.iterations import ENGINE_OVERHEAD_S, Provenance, fit_with_error
from sweeps.calibrate.shape import ModelShape
from vecsched.cost import CostModel, Points, Terms
from vecsched.errors import CostError

# Beyond, the decode tables hold contexts of a few tokens only.
MOST_DECODES = 512
# Each fold must leave enough rows for the few terms of attention.
FEWEST_ROWS = 10


@dataclass(frozen=True, kw_only=True)
class OperatorTables:
    """Measured seconds of one call of each kernel on one GPU; a DataFrame each, no duplicates.

    Attributes:
        gemm: `tokens, outputs, inputs, seconds`, on a complete grid.
        prefill_attention: `sequences, tokens, heads, kv_heads, head_dim, seconds`: so many whole
            prompts of so many tokens each.
        decode_attention: `sequences, context, heads, kv_heads, head_dim, seconds`: so many decodes
            that read so many KV tokens each, own token included.
        all_reduce: `gpus, bytes, seconds`.
        memory_bytes_per_s: bandwidth that a small kernel reaches.
        launch_s: least time of a small kernel.
        cache_bytes: size of the last-level cache.
    """

    gemm: pd.DataFrame
    prefill_attention: pd.DataFrame
    decode_attention: pd.DataFrame
    all_reduce: pd.DataFrame
    memory_bytes_per_s: float
    launch_s: float
    cache_bytes: float


class _Linear(NamedTuple):
    """Seconds of all that depends on the number of tokens, and of sequences, alone: by size."""

    sizes: np.ndarray
    tokens_s: np.ndarray
    sequences_s: np.ndarray


def from_operators(
    tables: OperatorTables,
    shape: ModelShape,
    provenance: Provenance,
    *,
    overhead_s: float = ENGINE_OVERHEAD_S,
) -> CostModel:
    """Put a model's iterations together from kernel times and fit a cost model to them.

    - Token and sequence tables are sums of measured kernels at the measured sizes, made to rise and
      thinned within 1 % (`fitting.rising`). Matrix shapes between measured ones are interpolated
      linearly; more outputs than measured (a large vocabulary) are priced in proportion.
    - Prefill attention: a fixed time, a time per token and one per unit of causal work.
    - Decode attention: a time for each measured batch size and one per KV token, the same for all
      batch sizes since it is bandwidth. Calls whose KV fits the cache are left out: a benchmark
      repeats the call and finds it there, an engine that goes through all layers does not.

    Both attention fits minimise the mean error relative to the whole iteration.

    Args:
        tables: what was measured.
        shape: the model.
        provenance: name, source and licence for the model's file.
        overhead_s: seconds an iteration takes beside its kernels.

    Returns:
        The model; its `error` is that against sums of measured kernels, decodes only and prefills
        only, on the rows of the fit and, in five folds, on attention rows held out.

    Raises:
        CostError: the model is a mixture of experts; or the tables do not hold the shape's
            matrices, heads or number of GPUs, or fewer than 10 usable rows of either attention.
    """
    shape.check_dense()
    linear = _linear(tables, shape)
    rows = _iterations(tables, shape, linear, overhead_s)

    def fit_rows(keep: np.ndarray) -> CostModel:
        return _fit(rows[keep], linear, overhead_s, provenance)

    return fit_with_error(rows, fit_rows)


def _linear(tables: OperatorTables, shape: ModelShape) -> _Linear:
    grid = [np.unique(tables.gemm[name]) for name in ("outputs", "inputs", "tokens")]
    index = pd.MultiIndex.from_product(grid, names=["outputs", "inputs", "tokens"])
    seconds = tables.gemm.set_index(index.names)["seconds"].reindex(index)
    cube = seconds.to_numpy().reshape([len(axis) for axis in grid])
    sizes = grid[2]
    at = RegularGridInterpolator(grid[:2], cube, bounds_error=False)

    def gemm_s(outputs: int, inputs: int) -> np.ndarray:
        most = grid[0][-1]
        times = at([[min(outputs, most), inputs]])[0] * max(1.0, outputs / most)
        if np.isnan(times).any():
            raise CostError(f"no times for a matrix product of {inputs} inputs, {outputs} outputs")
        return times

    layer = 2 * _all_reduce_s(tables, shape, sizes)
    for outputs, inputs in shape.gemms:
        layer += gemm_s(outputs, inputs)
    for token_bytes in shape.small_kernels:
        layer += sizes * token_bytes / tables.memory_bytes_per_s + tables.launch_s
    return _Linear(sizes, shape.layers * layer, gemm_s(*shape.vocabulary_gemm))


def _all_reduce_s(tables: OperatorTables, shape: ModelShape, sizes: np.ndarray) -> np.ndarray:
    if shape.tensor_parallel == 1:
        return np.zeros(len(sizes))
    rows = tables.all_reduce[tables.all_reduce["gpus"] == shape.tensor_parallel]
    if rows.empty:
        raise CostError(f"no all-reduce times for {shape.tensor_parallel} GPUs")
    rows = rows.sort_values("bytes")
    return np.interp(sizes * shape.hidden * shape.bytes_per_value, rows["bytes"], rows["seconds"])


def _iterations(
    tables: OperatorTables, shape: ModelShape, linear: _Linear, overhead_s: float
) -> pd.DataFrame:
    """Return whole iterations (see `iterations`), with their attention's share as `attention_s`."""
    prefills = _heads(tables.prefill_attention, shape, "prefill")
    decodes = _heads(tables.decode_attention, shape, "decode")
    # A prompt of one token is a decode.
    prefills = prefills[prefills["tokens"] > 1]
    prefills = prefills[prefills["sequences"] * prefills["tokens"] <= linear.sizes[-1]]
    context = decodes["sequences"] * decodes["context"]
    fits_cache = context * shape.kv_bytes <= tables.cache_bytes
    decodes = decodes[~fits_cache & (decodes["sequences"] <= MOST_DECODES)]
    for kind, left in (("prefill", prefills), ("decode", decodes)):
        if len(left) < FEWEST_ROWS:
            raise CostError(f"{len(left)} usable {kind} attention times: a fit needs {FEWEST_ROWS}")
    rows = pd.concat(
        [
            pd.DataFrame(
                {
                    "prefill_tokens": prefills["sequences"] * prefills["tokens"],
                    "sequences": prefills["sequences"],
                    "attention": prefills["sequences"] * prefills["tokens"] ** 2,
                    "attention_s": shape.layers * prefills["seconds"],
                }
            ),
            pd.DataFrame(
                {
                    "decodes": decodes["sequences"],
                    "sequences": decodes["sequences"],
                    "context_tokens": context,
                    "attention_s": shape.layers * decodes["seconds"],
                }
            ),
        ],
        ignore_index=True,
    ).fillna(0)
    rows["prefill_context"] = 0
    rows["seconds"] = (
        overhead_s
        + np.interp(rows["prefill_tokens"] + rows["decodes"], linear.sizes, linear.tokens_s)
        + np.interp(rows["sequences"], linear.sizes, linear.sequences_s)
        + rows["attention_s"]
    )
    return rows


def _heads(frame: pd.DataFrame, shape: ModelShape, kind: str) -> pd.DataFrame:
    heads, kv_heads = shape.attention_heads
    rows = frame[
        (frame["heads"] == heads)
        & (frame["kv_heads"] == kv_heads)
        & (frame["head_dim"] == shape.head_dim)
    ]
    if rows.empty:
        raise CostError(
            f"no {kind} attention times for {heads} heads, {kv_heads} KV heads of {shape.head_dim}"
        )
    return rows


def _fit(
    rows: pd.DataFrame, linear: _Linear, overhead_s: float, provenance: Provenance
) -> CostModel:
    fixed, per_token, per_work = _fit_prefill(rows[rows["prefill_tokens"] > 0])
    per_batch, per_context = _fit_decode(rows[rows["decodes"] > 0])
    # An iteration holds no more sequences than tokens: the same scale serves both.
    tokens = rising(linear.sizes, linear.tokens_s, linear.tokens_s)
    sequences = rising(linear.sizes, linear.sequences_s, linear.tokens_s)
    context = flat(per_context)
    # Prefill attention's time per token joins the mixed token table, which counts decodes too: what
    # it adds to them is taken off their own table.
    with_attention = [(n, s + per_token * n) for n, s in tokens]
    decodes_apart = [(n, s - per_token * n) for n, s in per_batch]
    return CostModel(
        decode=Terms(
            fixed_s=overhead_s,
            token_s=tokens,
            sequence_s=sequences,
            decode_s=per_batch,
            context_s=context,
        ),
        mixed=Terms(
            fixed_s=to_clock(overhead_s + fixed),
            token_s=to_points(*zip(*with_attention, strict=True)),
            sequence_s=sequences,
            decode_s=to_points(*zip(*decodes_apart, strict=True)),
            context_s=context,
        ),
        prefill_attention_s=to_clock(per_work),
        **provenance._asdict(),
    )


def _fit_prefill(rows: pd.DataFrame) -> np.ndarray:
    """Return seconds: fixed, per token, per unit of causal work."""
    design = np.column_stack([np.ones(len(rows)), rows["prefill_tokens"], rows["attention"]])
    return fit(design, rows["attention_s"].to_numpy(), rows["seconds"].to_numpy())


def _fit_decode(rows: pd.DataFrame) -> tuple[Points, float]:
    """Return the table over batch sizes, bending at each measured one, and seconds per KV token."""
    decodes = rows["decodes"].to_numpy(np.int64)
    *bends, last = (int(n) for n in np.unique(decodes))
    design = np.column_stack([segments(decodes, bends), rows["context_tokens"]])
    slopes = fit(design, rows["attention_s"].to_numpy(), rows["seconds"].to_numpy())
    return table(slopes[:-1], bends, last), float(slopes[-1])
