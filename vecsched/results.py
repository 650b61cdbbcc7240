"""Result: what a run says, as a summary and as pandas tables that are built when asked for."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vecsched.clock import NEVER_PS, PS_PER_S, to_seconds
from vecsched.config import SchedulerConfig
from vecsched.isolated import Isolated
from vecsched.kernels.accounting import charge_blocked_heads
from vecsched.kernels.arrivals import DOOR_REASONS
from vecsched.kernels.engine import BLOCK_REASONS, Engine
from vecsched.kernels.gaps import longest_gaps
from vecsched.kernels.record import (
    BLOCK_REASON,
    ITERATIONS,
    KV_HELD,
    QUEUE_LENGTH,
    SLOTS_USED,
    START_PS,
    STEADY_DECODES,
    TOKENS,
    line_durations_ps,
    written_gaps,
    written_lines,
    written_periods,
)
from vecsched.prefix_metrics import prefix_columns
from vecsched.replay import Iteration, replay
from vecsched.requests import COMPLETED, STATUSES
from vecsched.tenancy import service_curve, tenant_rows
from vecsched.trace import Trace

if TYPE_CHECKING:
    import pandas as pd


class Result:
    """A finished run.

    Attributes:
        summary: flat dict of the metrics in `docs/semantics.md`; NaN where there is nothing to
            measure.
    """

    def __init__(
        self, inputs: tuple[Trace, SchedulerConfig], engine: Engine, isolated: Isolated
    ) -> None:
        self.summary: dict[str, Any] = {}
        self._trace, self._config = inputs
        self._engine = engine
        self._isolated = isolated

    @cached_property
    def requests(self) -> "pd.DataFrame":
        """One row a request, in the trace's row order; see `docs/semantics.md`."""
        import pandas as pd

        columns = self._own_columns() | self._latency_columns() | self._gap_columns()
        in_row_order = np.empty(len(self._trace), np.int64)
        in_row_order[self._trace.order] = np.arange(len(self._trace))
        measured = {name: column[in_row_order] for name, column in columns.items()}
        return pd.DataFrame(self._given_columns() | measured)

    @cached_property
    def iterations(self) -> "pd.DataFrame | None":
        """One row an iteration, or None if the run was not logged.

        Columns: `iteration`, `start_s`, `end_s`; `scheduled`, a list of (row, tokens) in batch
        order; `admitted`, `preempted` and `finished`, lists of rows; `num_cached_tokens`, a list of
        (row, tokens) that admitted requests found in the cache; `blocked_reason` and
        `blocked_row` of the queue's head ("" and -1 for none); `free_kv_blocks` once the batch is
        formed (None: unlimited). Rows are the trace's.
        """
        import pandas as pd

        if not self._engine.record.logging:
            return None
        rows = replay(self._engine, self._trace.order.tolist())
        return pd.DataFrame(rows, columns=list(Iteration._fields))

    @cached_property
    def stretches(self) -> "pd.DataFrame":
        """One row a run of equal iterations: what was going on, over time.

        Columns: `start_s`, `end_s`, `iterations`, `batch_size`, `decodes`, `scheduled_tokens` (in
        each iteration), `kv_blocks_held`, `queue_length`, `blocked_reason`.
        """
        import pandas as pd

        lines = written_lines(self._engine.record)
        reasons = np.array([*BLOCK_REASONS, ""], object)
        return pd.DataFrame(
            {
                "start_s": to_seconds(lines[:, START_PS]),
                "end_s": to_seconds(lines[:, START_PS] + line_durations_ps(lines)),
                "iterations": lines[:, ITERATIONS].copy(),
                "batch_size": lines[:, SLOTS_USED].copy(),
                "decodes": lines[:, STEADY_DECODES].copy(),
                "scheduled_tokens": lines[:, TOKENS].copy(),
                "kv_blocks_held": lines[:, KV_HELD].copy(),
                "queue_length": lines[:, QUEUE_LENGTH].copy(),
                "blocked_reason": reasons[lines[:, BLOCK_REASON]],
            }
        )

    @cached_property
    def tenants(self) -> "pd.DataFrame":
        """One row a tenant: how it was served.

        Columns: `tenant`, `weight`, `requests`, `completed`, `service` (prompt + 2 x output
        tokens), `backlogged_s`, `backlogged_service_per_s` (by weight), `ttft_p50_s`, `ttft_p99_s`,
        `prefix_hit_rate`.
        """
        import pandas as pd

        return pd.DataFrame(tenant_rows(self._trace, self._config, self._engine))

    @cached_property
    def service(self) -> "pd.DataFrame":
        """Service that each tenant has received by `end_s`, the end of each stretch; by column."""
        import pandas as pd

        return pd.DataFrame(service_curve(self._trace, self._config, self._engine))

    def _given_columns(self) -> dict[str, np.ndarray]:
        trace = self._trace
        nothing = np.full(len(trace), None, object)
        return {
            "id": trace.id,
            "tenant": nothing if trace.tenant is None else trace.tenant,
            "priority": nothing if trace.priority is None else trace.priority,
            "arrival_s": trace.arrival_s,
            "prompt_tokens": trace.prompt_tokens,
            "output_tokens": trace.output_tokens,
        }

    def _own_columns(self) -> dict[str, np.ndarray]:
        """What became of each request, in arrival order."""
        outcome, requests = self._engine.outcome, self._engine.requests
        blocked_ps = np.zeros((len(BLOCK_REASONS), len(self._trace)), np.int64)
        charge_blocked_heads(written_lines(self._engine.record), blocked_ps)
        return {
            "output_tokens": requests.output,  # as cut to the model's length
            "admitted_s": to_seconds(outcome.admitted_ps, absent=NEVER_PS),
            "first_token_s": to_seconds(outcome.first_token_ps, absent=NEVER_PS),
            "finished_s": to_seconds(outcome.finished_ps, absent=NEVER_PS),
            "status": np.array(STATUSES, object)[outcome.status],
            "reason": np.array(DOOR_REASONS, object)[requests.door],
            "preemptions": outcome.preemptions,
            "recomputed_tokens": outcome.recomputed,
            **prefix_columns(self._engine),
            **{
                f"blocked_{name}_s": to_seconds(blocked_ps[code])
                for code, name in enumerate(BLOCK_REASONS)
            },
        }

    def _latency_columns(self) -> dict[str, np.ndarray]:
        outcome, requests = self._engine.outcome, self._engine.requests
        output = requests.output.astype(np.float64)
        completed = outcome.status == COMPLETED

        def since(earlier: np.ndarray, instant: np.ndarray, known: np.ndarray) -> np.ndarray:
            return np.where(known, (instant - earlier) / PS_PER_S, np.nan)

        arrival, first_token = requests.arrival_ps, outcome.first_token_ps
        e2e = since(arrival, outcome.finished_ps, completed)
        decoding = since(first_token, outcome.finished_ps, completed & (output > 1))
        alone = np.where(
            completed & (self._isolated.picoseconds > 0), self._isolated.picoseconds, 1
        )
        slowed = (outcome.finished_ps - arrival) / alone
        return {
            "queue_wait_s": since(arrival, outcome.admitted_ps, outcome.admitted_ps != NEVER_PS),
            "ttft_s": since(arrival, first_token, first_token != NEVER_PS),
            "tpot_s": decoding / np.maximum(output - 1, 1),
            "e2e_s": e2e,
            "normalized_latency_s": e2e / np.maximum(output, 1),
            "slowdown": np.where(completed & (self._isolated.picoseconds > 0), slowed, np.nan),
        }

    def _gap_columns(self) -> dict[str, np.ndarray]:
        record = self._engine.record
        lines, gaps = written_lines(record), written_gaps(record)
        longest_ps = np.full(len(self._trace), -1, np.int64)
        stack = np.empty((len(lines), 2), np.int64)
        longest_gaps(lines, written_periods(record), stack, longest_ps)
        # Gaps noted for several requests at once stand in the lines of their periods too.
        own = gaps[gaps[:, 0] >= 0]
        np.maximum.at(longest_ps, own[:, 0], own[:, 1])
        return {"max_itl_s": to_seconds(longest_ps, absent=-1)}
