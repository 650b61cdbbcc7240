"""The formats of trace files: one file each with a `FORMAT`, and one row in `FORMATS`."""

from sweeps.workloads.formats import (
    azure,
    bailian,
    burstgpt,
    columns,
    llmservingsim,
    mooncake,
    multi_round_qa,
    native,
    ragpulse,
    servegen,
    sharegpt,
    splitwise_sim,
    vidur,
    vllm_bench,
    vllm_tap,
    weka,
)
from sweeps.workloads.source import Format

# Asked in this order; those that others look like come later, the general one last.
FORMATS: dict[str, Format] = {
    "vecsched": native.FORMAT,
    "azure": azure.FORMAT,
    "burstgpt": burstgpt.FORMAT,
    "bailian": bailian.FORMAT,
    "ragpulse": ragpulse.FORMAT,
    "mooncake": mooncake.FORMAT,
    "vidur": vidur.FORMAT,
    "splitwise_sim": splitwise_sim.FORMAT,
    "llmservingsim": llmservingsim.FORMAT,
    "vllm_bench": vllm_bench.FORMAT,
    "vllm_tap": vllm_tap.FORMAT,
    "multi_round_qa": multi_round_qa.FORMAT,
    "weka": weka.FORMAT,
    "sharegpt": sharegpt.FORMAT,
    "servegen": servegen.FORMAT,
    "columns": columns.FORMAT,
}
