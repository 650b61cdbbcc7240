"""Shapes of well-known models, and of any other from its Hugging Face `config.json`."""

import json
import re
from dataclasses import replace
from pathlib import Path

from sweeps.calibrate.shape import ModelShape
from vecsched.errors import InputError, did_you_mean


def _shape(*figures: int, experts: int = 1) -> ModelShape:
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
    return ModelShape(**dict(zip(names, figures, strict=True)), experts=experts)


MODELS = {
    "llama-2-7b": _shape(32, 4096, 32, 32, 128, 11008, 32000),
    "llama-2-70b": _shape(80, 8192, 64, 8, 128, 28672, 32000),
    "llama-3-8b": _shape(32, 4096, 32, 8, 128, 14336, 128256),
    "llama-3-70b": _shape(80, 8192, 64, 8, 128, 28672, 128256),
    "llama-3.1-8b": _shape(32, 4096, 32, 8, 128, 14336, 128256),
    "llama-3.1-70b": _shape(80, 8192, 64, 8, 128, 28672, 128256),
    "llama-3.2-1b": _shape(16, 2048, 32, 8, 64, 8192, 128256),
    "llama-3.2-3b": _shape(28, 3072, 24, 8, 128, 8192, 128256),
    "llama-3.3-70b": _shape(80, 8192, 64, 8, 128, 28672, 128256),
    "mistral-7b": _shape(32, 4096, 32, 8, 128, 14336, 32768),
    "qwen-2-7b": _shape(28, 3584, 28, 4, 128, 18944, 152064),
    "qwen2-7b": _shape(28, 3584, 28, 4, 128, 18944, 152064),
    "qwen2.5-7b": _shape(28, 3584, 28, 4, 128, 18944, 152064),
    "qwen3-8b": _shape(36, 4096, 32, 8, 128, 12288, 151936),
    "qwen3-14b": _shape(40, 5120, 40, 8, 128, 17408, 151936),
    "qwen3-32b": _shape(64, 5120, 64, 8, 128, 25600, 151936),
    "qwen3-30b-a3b": _shape(48, 2048, 32, 4, 128, 768, 151936, experts=128),
    "qwen3-235b-a22b": _shape(94, 4096, 64, 4, 128, 1536, 151936, experts=128),
    "mixtral-8x7b": _shape(32, 4096, 32, 8, 128, 14336, 32000, experts=8),
}
CONFIG = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
}
# Several names for one thing.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
EXPERT_FFN = "moe_intermediate_size"
# What a name says beside the model: how it was tuned, packed or dated.
TRIMMINGS = re.compile(r"^meta-|-(instruct|chat|hf|base|bf16|v\d+(\.\d+)*|\d{4})(?=-|$)")


def find_shape(model: str | Path, tensor_parallel: int = 1) -> ModelShape:
    """Return the shape of a model.

    Args:
        model: its name, with or without owner and "-Instruct", or the path of its `config.json`.
        tensor_parallel: GPUs that share it.

    Raises:
        InputError: the name is unknown, or the file cannot be read.
        CostError: so many GPUs cannot share it evenly.
    """
    path = Path(model)
    if path.suffix == ".json":
        return replace(_read_config(path), tensor_parallel=tensor_parallel)
    name = TRIMMINGS.sub("", str(model).rstrip("/").rpartition("/")[2].lower())
    if name not in MODELS:
        raise InputError(
            f"unknown model {str(model)!r}; {did_you_mean(name, MODELS)}; "
            "the path of its config.json will do as well"
        )
    return replace(MODELS[name], tensor_parallel=tensor_parallel)


def _read_config(path: Path) -> ModelShape:
    try:
        config = json.loads(path.read_text("utf-8-sig"))
        figures = {name: int(config[key]) for name, key in CONFIG.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"cannot be read as a model's config.json: {error!r}", source=path
        ) from None
    heads = figures["heads"]
    experts = next((int(config[key]) for key in EXPERTS if config.get(key)), 1)
    if experts > 1 and config.get(EXPERT_FFN):
        figures["ffn"] = int(config[EXPERT_FFN])
    return ModelShape(
        **figures,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or figures["hidden"] // heads),
        experts=experts,
    )
