"""Small sweeps with names that would break a careless page."""

from sweeps.run import run_sweep
from sweeps.spec import SweepSpec

# What it would do is set a variable that the tests look for.
EVIL = """</script><script>window.harmed=1</script><img src=x onerror="harmed=1"> 'ü' & {{ 7*7 }}"""

# 48 points of 150 requests, around saturation.
SPEC = {
    "name": f"chat {EVIL}",
    "about": f"About <b>bold</b> {EVIL}",
    "trace": {
        "name": f"trace {EVIL}",
        "synthetic": {
            "rate_per_s": 4,
            "prompt": {"distribution": "lognormal", "mean": 60, "median": 40, "max": 200},
            "output": {"distribution": "lognormal", "mean": 12, "median": 8, "max": 60},
        },
        "requests": 150,
        "seed": 1,
    },
    "cost": {
        "affine": {
            "fixed_s": 0.02,
            "per_prefill_token_s": 0.001,
            "per_decode_s": 0.001,
            "per_context_token_s": 1e-6,
        }
    },
    "base": {"kv_blocks": 60},
    "axes": {
        "load": [0.8, 1.6],
        "policy": ["fcfs", "shortest_prompt", "shortest_output"],
        "max_batch_size": [4, 8],
        "max_num_batched_tokens": [64, 128],
        "prefill_chunk_size": [32, 64],
    },
    "slo": {"ttft_s": 0.5, "tpot_s": 0.1},
}


def run(spec, output):
    run_sweep(SweepSpec.from_mapping(spec), output)
    return output
