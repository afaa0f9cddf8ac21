"""Small GPT-2, Llama and Qwen 2 with Hugging Face's weights give its logits: parity_torch/make_model_goldens.py."""

import os
import sys

import nabla as nb
import numpy as np
import pytest
from nabla import nn

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(_HERE, "..", "..", "examples", "python"))
GOLDENS = dict(np.load(os.path.join(_HERE, "..", "parity_torch", "models.npz")))


def model_of(name):
    from language_models import Gpt2, Llama3, Qwen2
    if name == "gpt2":
        return Gpt2(40, 16, 16, 2, 2)
    return {"llama3": Llama3, "qwen2": Qwen2}[name](40, 16, 4, 2, 2, 24)


@pytest.mark.parametrize("name", ["gpt2", "llama3", "qwen2"])
def test_logits_and_generation(name, tmp_path):
    from language_models import Generator
    from pretrained import filled
    weights = {k.split("/")[2]: nb.asarray(v) for k, v in GOLDENS.items() if k.startswith(f"{name}/weights/")}
    path = str(tmp_path / "model.safetensors")
    nn.save_file(weights, path)
    model = filled(model_of(name), nn.load_file(path))
    tokens = GOLDENS[f"{name}/tokens"]
    nb.testing.assert_allclose(model(nb.asarray(tokens)), GOLDENS[f"{name}/logits"], 2e-4, 2e-4)
    assert Generator(model, 12)(tokens[:, :4], 5) == GOLDENS[f"{name}/made"].tolist()
    missing = {k: v for k, v in weights.items() if "norm.weight" not in k and "ln_f" not in k}
    with pytest.raises(ValueError, match="the state lacks"):
        filled(model_of(name), missing)
    with pytest.raises(ValueError, match="is no tensor of"):
        filled(model_of(name), {"something.else": nb.asarray(1.0)})
