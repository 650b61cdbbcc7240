"""Print what the README says of the sweeps on Azure's traces, from their output.

    vecsched sweep azure-conv.yaml -o azure.parquet
    vecsched trace merge conv=AzureLLMInferenceTrace_conv.csv code=AzureLLMInferenceTrace_code.csv \
        -o azure-tenants.parquet
    vecsched sweep azure-tenants.yaml -o tenants.parquet
    python azure_findings.py azure.parquet tenants.parquet

The two CSV files of github.com/Azure/AzurePublicDataset (2023) lie beside the sweep files.
"""

import sys

import numpy as np
import pandas as pd


def findings(azure: pd.DataFrame, tenants: pd.DataFrame) -> list[str]:
    """Return the README's items.

    Args:
        azure: the output of azure-conv.yaml.
        tenants: the output of azure-tenants.yaml.
    """
    return [
        no_throughput_to_win(azure),
        who_pays(azure),
        rough_prediction(azure),
        what_objectives_do_not_see(azure),
        cliff(azure),
        equal_misery(azure),
        two_tenants(tenants),
    ]


def no_throughput_to_win(azure: pd.DataFrame) -> str:
    points = azure[azure["load"] == 1.3]
    best = points["output_tokens_per_s"].max()
    same = points[np.isclose(points["output_tokens_per_s"], best, rtol=1e-3)]
    met = same["slo_attainment"]
    return (
        f"**Below saturation there is no throughput to win.** At 1.3 times the trace's rate "
        f"{len(same):,} of {len(points):,} settings make the same {best:,.0f} tokens/s, to a "
        f"thousandth, and meet the objectives (TTFT 2 s, TPOT 0.1 s) for {100 * met.min():.0f} to "
        f"{percent(met.max())} of the requests."
    )


def who_pays(azure: pd.DataFrame) -> str:
    first, short = deployed(azure, "fcfs"), deployed(azure, "shortest_total")
    aging, promoted = deployed(azure, "aging(30)"), deployed(azure, "shortest_total", max_wait_s=60)
    return (
        f"**Who pays for goodput.** At 1.5 times (`vllm`, 128 slots, budget 1,024) first come "
        f"meets them for {met(first)} and nobody waits longer than {wait(first)}. Shortest first: "
        f"{met(short)} at the same throughput, and somebody waits {wait(short)}. Between them: "
        f"aging(30) with {met(aging)} and {wait(aging)}, promotion after a minute with "
        f"{met(promoted)} and {wait(promoted)}."
    )


def rough_prediction(azure: pd.DataFrame) -> str:
    known, rough = (deployed(azure, "shortest_total", prediction_error=e) for e in (0.0, 1.0))
    prompt = deployed(azure, "shortest_prompt")
    return (
        f"**A rough prediction will do.** Outputs known within a factor of 2.7 give "
        f"{percent(rough['slo_attainment'], 1)} in place of {100 * known['slo_attainment']:.1f}; "
        f"the prompt's length alone, {percent(prompt['slo_attainment'], 1)}."
    )


def what_objectives_do_not_see(azure: pd.DataFrame) -> str:
    whole = one(
        azure, load=1.5, discipline="prefill_first", policy="aging(100)", max_batch_size=128
    )
    chunks = deployed(azure, "aging(100)")
    return (
        f"**What the objectives do not see.** Whole prompts first (`prefill_first`, aging(100)) is "
        f"better on both axes than `vllm` with the same policy, {met(whole)} and {wait(whole)} "
        f"against {met(chunks)} and {wait(chunks)}; but decodes stand still for up to "
        f"{whole['itl_max_s']:.1f} s, against {chunks['itl_max_s']:.2f} s with chunks. Add "
        f"`--min itl_p99_s`."
    )


def cliff(azure: pd.DataFrame) -> str:
    fits, does_not = (
        one(
            azure,
            load=1.5,
            discipline="strict",
            policy="fcfs",
            max_batch_size=128,
            max_num_batched_tokens=512,
            prefill_chunk_size=size,
        )["output_tokens_per_s"]
        for size in (256, 512)
    )
    return (
        f"**A cliff.** With a budget of 512, `strict` makes {fits:,.0f} tokens/s in chunks of 256 "
        f"and {does_not:,.0f} in chunks of 512: such a chunk fits beside no decode."
    )


def equal_misery(azure: pd.DataFrame) -> str:
    points = azure[azure["load"] == 1.7]
    best = points.loc[points["jain_slowdown"].idxmax()]
    return (
        f"**Equal misery.** The best Jain index at 1.7 times, {best['jain_slowdown']:.2f}, is that "
        f"of a setting that meets the objectives for {met(best)}."
    )


def two_tenants(tenants: pd.DataFrame) -> str:
    first, fair = (
        one(tenants, load=0.8, policy=policy, max_batch_size=128, max_num_batched_tokens=2048)
        for policy in ("fcfs", "vtc")
    )
    ends = [f"{name}_tenant_s" for name in ("ttft_p99_best", "ttft_p99_worst")]
    (a, b), (c, d) = ([row[end] for end in ends] for row in (first, fair))
    return (
        f"**Two tenants** ([docs/azure-tenants.yaml](docs/azure-tenants.yaml), conversations "
        f"beside bursts of code, 0.8 times the joint rate). First come makes the steady one wait "
        f"behind the bursts: p99 of TTFT {a:.0f} and {b:.0f} s. VTC: {c:.1f} and {d:.0f} s at the "
        f"same {fair['output_tokens_per_s']:,.0f} tokens/s, and the service difference while both "
        f"wait falls from {rounded(first)} to {rounded(fair)}."
    )


def deployed(
    azure: pd.DataFrame, policy: str, max_wait_s: float = np.nan, prediction_error: float = 0.0
) -> pd.Series:
    """Return the row of `vllm` with 128 slots and a budget of 1,024 at 1.5 times the rate."""
    return one(
        azure,
        load=1.5,
        discipline="vllm",
        policy=policy,
        max_wait_s=max_wait_s,
        prediction_error=prediction_error,
        max_batch_size=128,
        max_num_batched_tokens=1024,
    )


def one(frame: pd.DataFrame, **values: object) -> pd.Series:
    """Return the only row with these values."""
    for name, value in values.items():
        column = frame[name]
        frame = frame[column.isna() if pd.isna(value) else column == value]
    (row,) = (row for _, row in frame.iterrows())
    return row


def met(row: pd.Series) -> str:
    return percent(row["slo_attainment"])


def wait(row: pd.Series) -> str:
    return f"{row['max_queue_wait_s']:.0f} s"


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def rounded(row: pd.Series) -> str:
    """Three digits of the service difference."""
    value = row["backlogged_service_difference_max"]
    return f"{int(float(f'{value:.3g}')):,}"


if __name__ == "__main__":
    for text in findings(*map(pd.read_parquet, sys.argv[1:3])):
        print(f"- {text}")  # noqa: T201
