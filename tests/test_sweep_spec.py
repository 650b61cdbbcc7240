"""Sweep files: what they may say, and the words for what they may not."""

import json
import math
import re
import textwrap
from pathlib import Path

import jsonschema
import pytest

from sweeps._yaml import read_yaml
from sweeps.axes import Axis
from sweeps.errors import SpecError
from sweeps.sections import (
    AffineSection,
    CostSection,
    DesignSection,
    MetricsSection,
    SloSection,
    TabulatedSection,
    TraceSection,
    Variant,
)
from sweeps.space import Space
from sweeps.spec import SweepSpec, json_schema, load_spec, ready_made
from vecsched import CostModel, SchedulerConfig

SECTIONS = (
    *(TraceSection, CostSection, AffineSection, TabulatedSection),
    *(SloSection, MetricsSection, Variant, DesignSection, Axis),
)
SMALL = {"trace": {"synthetic": "azure-conv-like", "requests": 20}, "cost": "unit"}


def read(tmp_path: Path, text: str) -> SweepSpec:
    path = tmp_path / "sweep.yaml"
    path.write_text(text, "utf-8")
    return load_spec(path)


def complaint(values: object) -> str:
    with pytest.raises(SpecError) as caught:
        SweepSpec.from_mapping(values, "s.yaml")
    return str(caught.value)


def test_least_a_file_can_say():
    spec = SweepSpec.from_mapping(SMALL)
    (trace,) = spec.trace
    assert (spec.loads, spec.seeds_of(trace), spec.axes, spec.variants) == ((1.0,), (0,), {}, [])
    assert len(spec.trace_of(trace, 0)) == 20
    assert spec.cost_models() == {"unit": CostModel.unit()}


def test_all_a_file_can_say(tmp_path):
    (tmp_path / "mine.csv").write_text("t,in,out\n1000,10,2\n3000,20,3\n")
    CostModel.affine(0.1, 0, 0, 0).save(tmp_path / "cost.json")
    spec = read(
        tmp_path,
        """
        name: full
        about: everything
        trace:
          path: mine.csv
          format: columns
          options:
            columns: {arrival_s: t, prompt_tokens: in, output_tokens: out}
            time_unit: ms
        cost: cost.json
        base: {kv_blocks: 100, policy: aging(50)}
        axes:
          load: [1, 1.5]
          max_batch_size: [1, 2]
          max_wait_s: [null, 5e-1]
        variants:
          - {name: plain}
          - {name: long, about: lets some pass, set: {lookahead: 2}}
        slo: {ttft_s: 1, tpot_s: 5e-2, e2e_s: 10}
        metrics: {starvation_s: 60, warmup: 0, cooldown: 0.2}
        """,
    )
    trace = spec.trace_of(spec.trace[0], None)
    assert trace.arrival_s.tolist() == [0, 2]
    assert trace.prompt_tokens.tolist() == [10, 20]
    assert spec.trace[0].label == "mine.csv"
    (model,) = spec.cost_models().values()
    assert model.decode.fixed_s == 0.1
    assert spec.loads == (1.0, 1.5)
    assert spec.axes["max_wait_s"].listed == [None, 0.5]
    assert spec.variants[1].set == {"lookahead": 2}
    options = spec.metric_options()
    assert (options.ttft_slo_s, options.tpot_slo_s, options.e2e_slo_s) == (1, 0.05, 10)
    assert (options.starvation_s, options.warmup, options.cooldown) == (60, 0, 0.2)
    again = SweepSpec.from_mapping(spec.as_written(), "again", tmp_path)
    assert again.model_dump() == spec.model_dump()
    assert list(again.axes) == ["load", "max_batch_size", "max_wait_s"]  # the order counts


@pytest.mark.parametrize(
    ("cost", "fixed_s"),
    [
        ({"preset": "unit"}, 1.0),
        ({"tabulated": {"decode": {"fixed_s": 0.25, "token_s": [[1, 0.001]]}}}, 0.25),
        (
            {
                "affine": {
                    "fixed_s": 0.5,
                    "per_prefill_token_s": 1e-4,
                    "per_decode_s": 1e-5,
                    "per_context_token_s": 0,
                }
            },
            0.5,
        ),
    ],
)
def test_costs(cost, fixed_s):
    spec = SweepSpec.from_mapping(SMALL | {"cost": cost})
    (model,) = spec.cost_models().values()
    assert model.decode.fixed_s == fixed_s


def test_synthetic_by_parameters():
    synthetic = {
        "rate_per_s": 2.0,
        "prompt": {"distribution": "lognormal", "mean": 100, "median": 90, "max": 500},
        "output": {"distribution": "lognormal", "mean": 10, "median": 9, "max": 50},
        "requests": 7,
    }
    spec = SweepSpec.from_mapping(SMALL | {"trace": {"synthetic": synthetic, "seed": 3}})
    assert len(spec.trace_of(spec.trace[0], 3)) == 7
    assert spec.seeds_of(spec.trace[0]) == (3,)
    assert spec.trace[0].label == "synthetic"
    fewer = {"synthetic": synthetic, "requests": 5}
    spec = SweepSpec.from_mapping(SMALL | {"trace": fewer})
    assert len(spec.trace_of(spec.trace[0], 0)) == 5


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"axis": {}}, "s.yaml: axis: no such key; did you mean 'axes'?"),
        ({"trace": {}}, "s.yaml: trace: exactly one of path, synthetic must be given"),
        (
            {"trace": {"path": "x.csv", "seed": 3}},
            "s.yaml: trace.seed = 3: goes with 'synthetic' only",
        ),
        (
            {"trace": {"synthetic": "azure-conv-like", "format": "azure"}},
            "s.yaml: trace.format = 'azure': goes with 'path' only",
        ),
        (
            {"trace": {"synthetic": "azure-conf-like"}},
            "s.yaml: trace.synthetic: unknown synthetic trace 'azure-conf-like'; "
            "did you mean 'azure-conv-like'?",
        ),
        (
            {"trace": {"synthetic": 3}},
            "s.yaml: trace.synthetic = 3: "
            "must be the name of a workload or a mapping of its parameters",
        ),
        (
            {"trace": {"synthetic": "azure-conv-like", "requests": 0}},
            "s.yaml: trace.requests = 0: must be greater than or equal to 1",
        ),
        ({"cost": 5}, "s.yaml: cost = 5: must be a mapping"),
        (
            {"cost": {"preset": "unit", "path": "x.json"}},
            "s.yaml: cost: exactly one of preset, path, affine, tabulated must be given",
        ),
        (
            {"cost": {"tabulated": {"decode": {}, "mixt": {}}}},
            "s.yaml: cost.tabulated.mixt: no such key; did you mean 'mixed'?",
        ),
        (
            {"base": {"max_batchsize": 3}},
            "s.yaml: base.max_batchsize: no such field; did you mean 'max_batch_size'?",
        ),
        (
            {"base": {"kv_blocks": [1]}},
            "s.yaml: base.kv_blocks: must be a number, a text, true, false or null",
        ),
        ({"axes": {"laod": [1]}}, "s.yaml: axes.laod: no such axis; did you mean 'load'?"),
        (
            {"axes": {"load": 1}},
            "s.yaml: axes.load = 1: "
            "must be a list of values, or a mapping such as {from: 1, to: 64}",
        ),
        ({"axes": {"policy": []}}, "s.yaml: axes.policy: must not be empty"),
        ({"axes": {"load": [1, 2, 1.0]}}, "s.yaml: axes.load[2] = 1.0: is listed twice"),
        (
            {"axes": {"load": [1, 0]}},
            "s.yaml: axes.load[1] = 0: a load factor must be a positive number",
        ),
        (
            {"axes": {"load": ["high"]}},
            "s.yaml: axes.load[0] = 'high': a load factor must be a positive number",
        ),
        (
            {"axes": {"seed": [0, 1.5]}},
            "s.yaml: axes.seed[1] = 1.5: a seed must be a whole number >= 0",
        ),
        (
            {"axes": {"seed": [1]}, "trace": {"path": "x.csv"}},
            "s.yaml: axes.seed: only a synthetic trace has a seed",
        ),
        ({"variants": [{"about": "x"}]}, "s.yaml: variants[0].name: is missing"),
        (
            {"variants": [{"name": "a"}, {"name": "a"}]},
            "s.yaml: variants[1].name = 'a': another variant has this name",
        ),
        (
            {"axes": {"policy": ["fcfs"]}, "variants": [{"name": "a", "set": {"policy": "edf"}}]},
            "s.yaml: variants[0].set.policy = 'edf': is an axis, too",
        ),
        ({"slo": {"ttft": 1}}, "s.yaml: slo.ttft = 1: no such key; did you mean 'ttft_s'?"),
        ({"slo": {"ttft_s": 0}}, "s.yaml: slo.ttft_s = 0: must be greater than 0"),
        ({"slo": {"tpot_s": "50ms"}}, "s.yaml: slo.tpot_s = '50ms': must be a valid number"),
        (
            {"metrics": {"warmup": 0.5, "cooldown": 0.5}},
            "s.yaml: metrics: warmup and cooldown together leave nothing of the run",
        ),
        ({"metrics": None}, "s.yaml: metrics = None: must be a mapping"),
    ],
)
def test_complaints(change, expected):
    assert complaint(SMALL | change) == expected


def test_all_problems_are_told_at_once():
    text = complaint({"trace": {"path": "x", "sead": 1}, "base": {"policy": ["fcfs"]}})
    assert text.splitlines() == [
        "s.yaml: trace.sead = 1: no such key; did you mean 'seed'?",
        "s.yaml: cost: is missing",
        "s.yaml: base.policy: must be a number, a text, true, false or null",
    ]


def test_no_mapping_at_all():
    assert complaint([1]) == "s.yaml: must be a mapping"


def test_costs_that_do_not_exist(tmp_path):
    def cost_error(cost: object) -> str:
        with pytest.raises(SpecError) as caught:
            SweepSpec.from_mapping(SMALL | {"cost": cost}, "s.yaml", tmp_path).cost_models()
        return str(caught.value)

    assert cost_error("my-gpu").startswith("s.yaml: cost: unknown preset 'my-gpu'; ")
    assert str(tmp_path / "my.json") in cost_error("my.json")
    assert cost_error({"tabulated": {"decode": {"token": [[1, 1]]}}}) == (
        "s.yaml: cost: decode: unknown term 'token'; did you mean 'token_s'?"
    )


def test_yaml_is_read_strictly(tmp_path):
    def yaml_error(text: str) -> str:
        with pytest.raises(SpecError) as caught:
            read(tmp_path, text)
        return str(caught.value).removeprefix(str(tmp_path / "sweep.yaml"))

    assert yaml_error("cost: unit\naxes:\n  load: [1]\n  load: [2]\n") == (
        ", line 4, column 3: the key 'load' stands twice"
    )
    assert yaml_error("axes: [1\n").startswith(", line 2, column 1: ")
    assert yaml_error("trace: !!python/object:os.system {}\n").startswith(", line 1, column 8: ")
    (tmp_path / "sweep.yaml").write_bytes(b"name: \xff")
    with pytest.raises(SpecError, match="cannot be read"):
        load_spec(tmp_path / "sweep.yaml")


def test_yaml_merge_keys_may_be_overridden(tmp_path):
    spec = read(
        tmp_path,
        """
        trace: {synthetic: azure-conv-like}
        cost: unit
        base: &base {policy: fcfs, kv_blocks: 10}
        variants:
          - {name: small, set: {<<: *base, kv_blocks: 5}}
        """,
    )
    assert spec.variants[0].set == {"policy": "fcfs", "kv_blocks": 5}


def test_neither_file_nor_name(tmp_path):
    with pytest.raises(SpecError, match=r"nowhere\.yaml: there is no such file"):
        load_spec(tmp_path / "nowhere.yaml")
    with pytest.raises(SpecError, match="no ready-made sweep; did you mean 'smoke'"):
        load_spec("smok")


@pytest.mark.parametrize("name", ready_made())
def test_ready_made_specs_say_what_they_are(name):
    spec = load_spec(name)
    assert spec.name == name
    assert spec.about
    assert set(spec.base) <= set(SchedulerConfig().to_dict())


def test_several_traces_and_costs_have_names_of_their_own():
    synthetic = {"synthetic": "azure-conv-like"}
    assert complaint(SMALL | {"trace": [synthetic, synthetic]}) == (
        "s.yaml: trace[1]: another trace is called 'azure-conv-like'; give each a name of its own"
    )
    assert complaint(SMALL | {"trace": [synthetic, {"pth": "x"}]}).startswith(
        "s.yaml: trace[1].pth = 'x': no such key; did you mean 'path'?"
    )
    spec = SweepSpec.from_mapping(SMALL | {"cost": ["unit", "unit"]}, "s.yaml")
    with pytest.raises(SpecError, match=r"cost\[1\]: another cost model is called 'unit'; give"):
        spec.cost_models()
    costs = ["unit", {"name": "again", "preset": "unit"}]
    spec = SweepSpec.from_mapping(
        SMALL | {"cost": costs, "trace": [synthetic, synthetic | {"name": "other", "seed": 4}]}
    )
    assert list(spec.cost_models()) == ["unit", "again"]
    assert [trace.label for trace in spec.trace] == ["azure-conv-like", "other"]
    assert [spec.seeds_of(trace) for trace in spec.trace] == [(0,), (4,)]


def test_the_schema_says_what_the_reader_accepts():
    schema = json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    for path in ready_made().values():
        validator.validate(read_yaml(path))
    good = [
        {"axes": {"load": [1], "block_size": {"from": 1, "to": 4, "steps": 2, "when": "true"}}},
        {"cost": {"affine": dict.fromkeys(AffineSection.known_keys()[:4], 0)}},
        {"trace": [{"path": "x"}, {"synthetic": "azure-conv-like"}], "cost": ["unit", "a.json"]},
        {"design": "zip"},
        {"design": {"method": "sobol", "points": 4}, "axes": {"block_size": {"from": 1, "to": 4}}},
        {"constraints": ["true"], "variants": [{"name": "v", "set": {"block_size": 3}}]},
    ]
    for change in good:
        SweepSpec.from_mapping(SMALL | change)
        validator.validate(SMALL | change)
    bad = [
        {"axis": {}},
        {"base": {"max_batchsize": 3}},
        {"axes": {"laod": [1]}},
        {"axes": {"load": 1}},
        {"design": "sobel"},
        {"slo": {"ttft_s": 0}},
        {"trace": {"path": "x", "sead": 3}},
        {"variants": [{"about": "x"}]},
    ]
    for change in bad:
        complaint(SMALL | change)
        assert not validator.is_valid(SMALL | change), change


REFERENCE = Path(__file__).parents[1] / "docs" / "sweep-files.md"


def test_the_reference_has_every_field_with_its_default():
    text = REFERENCE.read_text("utf-8")
    for name, default in SchedulerConfig().to_dict().items():
        shown = f"`{default}`" if isinstance(default, str) else json.dumps(default)
        assert f"| `{name}` | {shown} |" in text
    sections = (SweepSpec, *SECTIONS)
    missing = [key for each in sections for key in each.known_keys() if f"`{key}`" not in text]
    assert missing == []


def test_the_references_example_is_a_sweep(tmp_path):
    blocks = re.findall(r"```yaml\n(.*?)```", REFERENCE.read_text("utf-8"), re.DOTALL)
    spec = read(tmp_path, blocks[0])
    points = [len(axis.listed) for axis in spec.axes.values()]
    assert f"That is {' x '.join(map(str, points))} = {math.prod(points)} points." in (
        REFERENCE.read_text("utf-8")
    )
    for block in blocks[1:]:  # parts of a file
        rest = {"trace": {"synthetic": "azure-conv-like"}, "cost": "unit"}
        part = textwrap.dedent(block)
        (tmp_path / "part.yaml").write_text(part)
        space = Space(SweepSpec.from_mapping(rest | read_yaml(tmp_path / "part.yaml")), ("unit",))
        if "watermark" in part:
            assert "That is (3 + 1) x 5 = 20 points" in REFERENCE.read_text("utf-8")
            assert len(space) == 20
        if "async_scheduling" in part:
            assert "which is 2 x 2 + 1 = 5 points" in REFERENCE.read_text("utf-8")
            assert len(space) == 5
