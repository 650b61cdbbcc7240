"""vLLM's names on the command line."""

import json

import pytest


def config_of(out):
    return json.loads(out)["config"]


def test_options_under_vllms_names(ok, trace):
    theirs = ["--max-num-seqs", 3, "--num-gpu-blocks", 11, "--scheduling-policy", "shortest_total"]
    out, _ = ok("simulate", trace, "--cost", "unit", *theirs, "--json")
    config = config_of(out)
    assert (config["max_batch_size"], config["kv_blocks"]) == (3, 10)
    assert config["policy"] == "shortest_total"
    ours = ["--max-batch-size", 3, "--kv-blocks", 10, "--policy", "shortest_total"]
    assert ok("simulate", trace, "--cost", "unit", *ours, "--json")[0] == out


def test_an_option_overrides_the_file_whatever_it_is_called(ok, trace, tmp_path):
    path = tmp_path / "scheduler.yaml"
    path.write_text("max_num_seqs: 2\nkv_blocks: 7\n")
    arguments = ["--cost", "unit", "--config", path, "--json"]
    config = config_of(ok("simulate", trace, *arguments)[0])
    assert (config["max_batch_size"], config["kv_blocks"]) == (2, 7)
    changes = ["--max-batch-size", 5, "--num-gpu-blocks-override", 10]
    config = config_of(ok("simulate", trace, *arguments, *changes)[0])
    assert (config["max_batch_size"], config["kv_blocks"]) == (5, 9)


@pytest.mark.parametrize("file", [None, "discipline: strict"])
def test_a_field_under_both_names_is_refused(refused, trace, tmp_path, file):
    arguments = ["--max-num-seqs", 3, "--max-batch-size", 3]
    if file is not None:
        (tmp_path / "scheduler.yaml").write_text(file)
        arguments += ["--config", tmp_path / "scheduler.yaml"]
    err = refused("simulate", trace, "--cost", "unit", *arguments)
    assert err.endswith(
        "max_batch_size and max_num_seqs are two names of one field: give only one\n"
    )


def test_the_help_says_whose_names_they_are(ok):
    out, _ = ok("simulate", "--help")
    shown = " ".join(out.replace("\u2502", " ").split())
    assert "vLLM's name for --max-batch-size." in shown
    assert "vLLM's name for --kv-blocks, plus 1." in shown
