"""Weights in Hugging Face's layout for the models of language_models.py.

`python3 pretrained.py gpt2 model.safetensors 464 3290` prints the tokens that follow, by greedy choice. Tokenisers are
not part of this.
"""

import argparse
import re

import nabla as nb
from language_models import Generator, Gpt2, Llama3, Qwen2
from nabla import nn

_GPT2 = {"ln_1": "norm1", "ln_2": "norm2", "attn.c_proj": "attention.out_proj", "mlp.c_fc": "up", "mlp.c_proj": "down"}
_LLAMA = {"input_layernorm": "norm1", "post_attention_layernorm": "norm2", "self_attn.q_proj": "attention.q_proj",
          "self_attn.k_proj": "attention.k_proj", "self_attn.v_proj": "attention.v_proj",
          "self_attn.o_proj": "attention.out_proj", "mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.up",
          "mlp.down_proj": "mlp.down"}


def _bias(name, x):
    """Biases of linear maps are [1, out] here."""
    return nb.reshape(x, (1, x.shape[0])) if name.endswith(".bias") and "norm" not in name else x


def gpt2_state(tensors):
    """The state of a Gpt2 from tensors named as in GPT-2's files. Their matrices are [in, out], as here."""
    out = {}
    for name, x in tensors.items():
        name = name.removeprefix("transformer.")
        block = re.fullmatch(r"h\.(\d+)\.(.+)\.(weight|bias)", name)
        if name in ("wte.weight", "wpe.weight"):
            out["embedding.weight" if name == "wte.weight" else "positions.weight"] = x
        elif name.startswith("ln_f."):
            out["norm." + name.removeprefix("ln_f.")] = x
        elif block and block[2] == "attn.c_attn":  # queries, keys and values side by side
            for part, y in zip("qkv", nb.split(x, 3, axis=-1)):
                own = f"blocks.{block[1]}.attention.{part}_proj.{block[3]}"
                out[own] = _bias(own, y)
        elif block and block[2] in _GPT2:
            own = f"blocks.{block[1]}.{_GPT2[block[2]]}.{block[3]}"
            out[own] = _bias(own, x)
        elif not name.endswith(("attn.bias", "attn.masked_bias", "lm_head.weight")):  # masks, and the tied head
            raise ValueError(f"{name} is no tensor of GPT-2's")
    return out


def llama_state(tensors):
    """The state of a Llama3 or Qwen2 from tensors named as in their files, whose matrices are [out, in]."""
    out = {}
    for name, x in tensors.items():
        name = name.removeprefix("model.")
        block = re.fullmatch(r"layers\.(\d+)\.(.+)\.(weight|bias)", name)
        if name == "embed_tokens.weight":
            out["embedding.weight"] = x
        elif name == "norm.weight":
            out["norm.weight"] = x
        elif name == "lm_head.weight":
            out["head.weight"] = nb.transpose(x)
        elif block and block[2] in _LLAMA:
            own = f"blocks.{block[1]}.{_LLAMA[block[2]]}.{block[3]}"
            out[own] = nb.transpose(x) if x.ndim == 2 else _bias(own, x)
        else:
            raise ValueError(f"{name} is no tensor of Llama's")
    return out


def filled(model, tensors):
    """The model with weights in Hugging Face's layout. Raises ValueError when names or shapes do not fit."""
    model.load_state_dict(gpt2_state(tensors) if isinstance(model, Gpt2) else llama_state(tensors))
    return model


def main(kind, path, prompt, count=20):
    model = {"gpt2": Gpt2, "llama3": Llama3, "qwen2": Qwen2}[kind]()
    filled(model, nn.load_file(path))
    tokens = Generator(model, len(prompt) + count)([prompt], count)[0]
    print(*tokens)
    return tokens


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["gpt2", "llama3", "qwen2"])
    parser.add_argument("path", help="a safetensors file")
    parser.add_argument("prompt", nargs="+", type=int, help="tokens")
    parser.add_argument("--count", type=int, default=20)
    args = parser.parse_args()
    main(args.kind, args.path, args.prompt, args.count)
