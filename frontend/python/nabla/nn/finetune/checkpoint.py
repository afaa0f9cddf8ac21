"""Checkpoints of fine-tuning: adapters and their optimiser's state, without the frozen weights."""

import json
import os

from ..checkpoints import MissingCheckpoint, load_file, load_metadata, load_tree, named_arrays, save_file

_FILE = "adapters.safetensors"


def save_finetune_checkpoint(path, *, lora_params, optimizer_state=None, metadata=None):
    """Writes adapters (a tree) and an optimiser's state (a tree) to `path`/adapters.safetensors.

    `metadata` is a dict that JSON can hold. The folder is made where it is missing; the file is whole or not there.
    """
    os.makedirs(path, exist_ok=True)
    tensors = {f"lora.{k}": x for k, x in named_arrays(lora_params, "lora_params").items()}
    if optimizer_state is not None:
        tensors.update({f"optimizer.{k}": x for k, x in named_arrays(optimizer_state, "optimizer_state").items()})
    texts = {"has_optimizer": str(optimizer_state is not None).lower(), "user_metadata": json.dumps(metadata or {})}
    save_file(tensors, os.path.join(path, _FILE), texts)


def load_finetune_checkpoint(path, *, lora_template, optimizer_template=None):
    """`(lora_params, optimizer_state, meta)` of such a folder, in the form of the templates; without a template for the
    optimiser, or where none was saved, its state is None. meta: {"user_metadata": what was saved as metadata,
    "has_optimizer", "step" (of the optimiser, or None), "tensor_keys"}.
    Raises MissingCheckpoint, CheckpointError where names or shapes differ."""
    file = os.path.join(path, _FILE)
    if not os.path.exists(file):
        raise MissingCheckpoint(f"{path} has no {_FILE}")
    parts = {"lora": {}, "optimizer": {}}
    tensors = load_file(file)
    for name, x in tensors.items():
        prefix, _, rest = name.partition(".")
        parts.setdefault(prefix, {})[rest] = x
    texts = load_metadata(file)
    state = None
    if optimizer_template is not None and texts.get("has_optimizer") == "true":
        state = load_tree(optimizer_template, parts["optimizer"], file, True)
    step = parts["optimizer"].get("step")
    meta = {"user_metadata": json.loads(texts.get("user_metadata", "{}")), "tensor_keys": sorted(tensors),
            "has_optimizer": texts.get("has_optimizer") == "true", "step": None if step is None else int(step.item())}
    return load_tree(lora_template, parts["lora"], file, True), state, meta


__all__ = ["load_finetune_checkpoint", "save_finetune_checkpoint"]
