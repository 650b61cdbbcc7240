"""What cannot run is refused before the run, or fails with its reason; nothing waits for ever."""

import math

import pyarrow.parquet as pq
import pytest

from sweeps.cli import main
from sweeps.errors import SpecError
from sweeps.run import run_sweep
from sweeps.spec import SweepSpec
from vecsched import DISCIPLINES, CostModel, SchedulerConfig, Trace, simulate
from vecsched.errors import ConfigError

ENGINES = ("vllm", "sarathi", "prefill_first", "orca")
UNIT = CostModel.unit()


def config_of(discipline, **changes):
    """Blocks of 4 tokens, 4 slots, 64 tokens an iteration."""
    small = {"block_size": 4, "max_batch_size": 4, "max_num_batched_tokens": 64}
    return SchedulerConfig(discipline=discipline, **small | changes)


def fates(trace, config):
    requests = simulate(trace, config, UNIT).requests
    return list(zip(requests["status"], requests["reason"], strict=True))


# A KV cache that cannot hold one request.


@pytest.mark.parametrize(
    ("discipline", "changes", "need"),
    [
        # 10 + 7 tokens of the smaller request; the last one is never computed.
        ("vllm", {}, 4),
        ("sarathi", {}, 4),
        ("prefill_first", {}, 4),
        ("orca", {}, 5),
        # A reservation is for all 17.
        ("vllm", {"kv_reserve": "full"}, 5),
        ("sarathi", {"kv_reserve": "full"}, 5),
        ("prefill_first", {"kv_reserve": "full"}, 5),
        # 10 + 20 tokens.
        ("vllm", {"kv_reserve": "full", "max_tokens": 20}, 8),
        # Cut to 15 tokens, of which 14 are computed; Orca reserves all 15.
        ("vllm", {"max_model_len": 15}, 4),
        ("orca", {"max_model_len": 15}, 4),
    ],
)
def test_no_request_fits(discipline, changes, need):
    trace = Trace([0.0, 1.0], [10, 12], [7, 9])
    with pytest.raises(ConfigError) as caught:
        simulate(trace, config_of(discipline, kv_blocks=need - 1, **changes), UNIT)
    assert str(caught.value) == (
        f"kv_blocks {need - 1} cannot hold any request of the trace: the smallest needs {need} "
        "blocks of 4 tokens"
    )
    assert fates(trace, config_of(discipline, kv_blocks=need, **changes))[0] == ("completed", "")


@pytest.mark.parametrize("discipline", ENGINES)
def test_one_request_fits(discipline):
    trace = Trace([0.0, 1.0, 2.0, 3.0], [10, 300, 1, 10], [7, 9, 1, 7])
    assert fates(trace, config_of(discipline, kv_blocks=2)) == [
        ("failed", "kv_blocks"),
        ("failed", "kv_blocks"),
        ("completed", ""),
        ("failed", "kv_blocks"),
    ]


@pytest.mark.parametrize("discipline", ENGINES)
def test_only_requests_that_could_run_count(discipline):
    # The empty ones would fit; they fail for what they are.
    trace = Trace([0.0, 1.0, 2.0], [10, 0, 1], [7, 1, 0])
    with pytest.raises(ConfigError, match="the smallest needs"):
        simulate(trace, config_of(discipline, kv_blocks=2), UNIT)
    empty = Trace([0.0, 1.0], [0, 1], [1, 0])
    assert fates(empty, config_of(discipline, kv_blocks=2)) == [
        ("failed", "empty_prompt"),
        ("failed", "empty_output"),
    ]
    # A budget may be too small for the only one that fits.
    trace = Trace([0.0, 1.0], [300, 9], [1, 1])
    config = config_of("orca", kv_blocks=3, max_num_batched_tokens=8)
    assert fates(trace, config) == [("failed", "kv_blocks"), ("failed", "token_budget")]


@pytest.mark.parametrize("discipline", ["strict", "static"])
def test_the_textbook_schedulers_let_each_request_fail(discipline):
    trace = Trace([0.0, 1.0], [10, 12], [7, 9])
    assert fates(trace, config_of(discipline, kv_blocks=2)) == [("failed", "kv_blocks")] * 2


def test_the_command_line_refuses_it(capsys, tmp_path):
    output = tmp_path / "requests.csv"
    arguments = ["--discipline", "vllm", "--kv-blocks", "1", "--block-size", "1"]
    with pytest.raises(SystemExit) as left:
        main(["simulate", "--requests", "20", *arguments, "-o", str(output)])
    printed = capsys.readouterr()
    assert (left.value.code, printed.out) == (2, "")
    assert "error: kv_blocks 1 cannot hold any request of the trace" in printed.err
    assert not output.exists()


def test_in_a_sweep_it_is_a_row_with_its_error(tmp_path):
    spec = sweep_of(base={"discipline": "vllm"}, axes={"num_gpu_blocks": [2, 20000]})
    outcome = run_sweep(spec, tmp_path / "out.parquet")
    assert (outcome.points, outcome.failed) == (2, 1)
    first, second = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert (first["kv_blocks"], first["status"], first["completed"]) == (1, "error", None)
    assert first["error"].startswith("ConfigError: kv_blocks 1 cannot hold any request")
    assert (second["kv_blocks"], second["status"], second["completed"]) == (19999, "ok", 20)


def sweep_of(**parts):
    trace = {"synthetic": "azure-conv-like", "requests": 20}
    return SweepSpec.from_mapping({"trace": trace, "cost": "unit", **parts})


# A budget that is too small for the slots.


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_slot_must_be_able_to_decode(discipline):
    changes = {"max_batch_size": 9, "max_num_batched_tokens": 8}
    if discipline in ("vllm", "sarathi", "prefill_first"):
        with pytest.raises(ConfigError) as caught:
            config_of(discipline, **changes)
        assert str(caught.value) == (
            "max_num_batched_tokens 8 is less than max_batch_size 9: discipline "
            f"{discipline!r} decodes every slot in one iteration"
        )
        with pytest.raises(SpecError, match="decodes every slot in one iteration"):
            run_sweep(sweep_of(base={"discipline": discipline, **changes}), "nowhere.parquet")
        changes["max_batch_size"] = 8
    # The others look at the budget when they admit.
    trace = Trace([0.0] * 12, [2] * 12, [3] * 12)
    assert fates(trace, config_of(discipline, **changes)) == [("completed", "")] * 12


# Priorities that are not there.


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_priorities_are_missing(discipline):
    with pytest.raises(ConfigError) as caught:
        simulate(Trace([0.0], [2], [2]), config_of(discipline, policy="priority"), UNIT)
    assert str(caught.value) == (
        "policy 'priority' needs the trace column 'priority', which is missing"
    )
    trace = Trace([0.0], [2], [2], priority=[1])
    assert fates(trace, config_of(discipline, policy="priority")) == [("completed", "")]


# Requests that stand in the way for good.


def test_a_request_that_can_never_fit_does_not_block_the_others():
    # vLLM itself would stand still for ever behind row 1.
    trace = Trace([0.0, 0.0, 0.0], [8, 13, 4], [2, 1, 2])
    config = config_of("vllm", kv_blocks=3)
    assert fates(trace, config) == [("completed", ""), ("failed", "kv_blocks"), ("completed", "")]


def test_a_prompt_that_only_company_may_cut():
    # Whole prompts of up to 8 tokens, but the threshold cuts to 4 when there are two requests.
    changes = {"max_num_batched_tokens": 8, "enable_chunked_prefill": False}
    in_step = {"async_scheduling": False, "enable_prefix_caching": False}
    config = config_of("vllm", long_prefill_token_threshold=4, **changes, **in_step)
    alone = simulate(Trace([0.0], [10], [1]), config, UNIT)
    assert (alone.requests["status"][0], alone.requests["reason"][0]) == ("failed", "token_budget")
    assert alone.requests["finished_s"][0] == 0.0
    # In version 0.19 the threshold cuts a lone prompt too: 4 + 4 + 2 tokens.
    older = simulate(Trace([0.0], [10], [1]), config.replace(vllm_version="0.19"), UNIT)
    assert older.requests["finished_s"][0] == 3.0
    assert older.requests["slowdown"][0] == 1.0
    # With company at 5 it is admitted: 4 tokens beside 3, and 6 as a running request.
    both = simulate(Trace([0.0, 5.0], [10, 3], [1, 1]), config, UNIT, log_iterations=True)
    assert both.iterations["scheduled"].tolist() == [[(0, 4), (1, 3)], [(0, 6)]]
    assert both.requests["finished_s"].tolist() == [7.0, 6.0]
    # Alone it never ends, so there is nothing that its 7 seconds could be compared with.
    assert math.isnan(both.requests["slowdown"][0])
    assert both.requests["slowdown"][1] == 1.0
    assert both.summary["slowdown_max"] == 1.0
    assert both.summary["starvation_s"] == 10.0
