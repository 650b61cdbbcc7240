"""What the README says of the sweeps on Azure's traces is what they say."""

import importlib.util
from pathlib import Path

import pandas as pd
import pytest

from sweeps.run import run_sweep
from sweeps.spec import load_spec
from sweeps.workloads import merge_traces, write_trace
from vecsched import Trace
from vecsched._jit import JIT_ENABLED

ROOT = Path(__file__).parents[1]
CONV, CODE = (f"AzureLLMInferenceTrace_{name}.csv" for name in ("conv", "code"))


def findings(*frames):
    """What docs/azure_findings.py prints; a script, which no package holds."""
    spec = importlib.util.spec_from_file_location("findings", ROOT / "docs/azure_findings.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script.findings(*frames)


@pytest.mark.skipif(not JIT_ENABLED, reason="80 million requests are too many for plain Python")
def test_what_the_frontier_taught(shared, tmp_path):
    for name in (CONV, CODE):
        (found,) = (shared / "data").rglob(name)
        (tmp_path / name).symlink_to(found)
    traces = {name: Trace.read(tmp_path / file) for name, file in (("conv", CONV), ("code", CODE))}
    write_trace(merge_traces(traces), tmp_path / "azure-tenants.parquet")
    frames = []
    for name in ("azure-conv", "azure-tenants"):
        (tmp_path / f"{name}.yaml").write_text((ROOT / f"docs/{name}.yaml").read_text("utf-8"))
        output = tmp_path / f"{name}-points.parquet"
        assert run_sweep(load_spec(tmp_path / f"{name}.yaml"), output).failed == 0
        frames.append(pd.read_parquet(output))
    said = " ".join((ROOT / "README.md").read_text("utf-8").split())
    for text in findings(*frames):
        assert f"- {text}" in said
