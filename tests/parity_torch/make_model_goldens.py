"""Golden numbers of small GPT-2, Llama and Qwen 2 models of Hugging Face: python make_model_goldens.py

Needs torch, transformers and numpy. Writes models.npz beside this file: the weights under their names there, tokens,
the logits, and what greedy generation gives after the first tokens.
"""

import os

import numpy as np
import torch
import transformers as hf

OUT = {}


def record(name, model):
    model.eval()
    tokens = torch.tensor(np.random.RandomState(1).randint(0, 40, (2, 9)))
    with torch.no_grad():
        logits = model(tokens).logits
        made = model.generate(tokens[:, :4], max_new_tokens=5, do_sample=False, pad_token_id=0)[:, 4:]
    weights = {k: v for k, v in model.state_dict().items() if not k.endswith((".attn.bias", "masked_bias", "inv_freq"))}
    if model.config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    for k, v in weights.items():
        OUT[f"{name}/weights/{k}"] = v.numpy()
    OUT[f"{name}/tokens"], OUT[f"{name}/logits"], OUT[f"{name}/made"] = tokens.numpy(), logits.numpy(), made.numpy()


def main():
    torch.manual_seed(0)
    common = {"vocab_size": 40, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0, "initializer_range": 0.3}
    record("gpt2", hf.GPT2LMHeadModel(hf.GPT2Config(n_positions=16, n_embd=16, n_layer=2, n_head=2, **common)))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 24, "max_position_embeddings": 32, "rms_norm_eps": 1e-5}
    llama = hf.LlamaConfig(rope_theta=5e5, tie_word_embeddings=False, **sizes, **common)
    record("llama3", hf.LlamaForCausalLM(llama))
    qwen = hf.Qwen2Config(rope_theta=1e6, tie_word_embeddings=True, **sizes, **common)
    model = hf.Qwen2ForCausalLM(qwen)
    for name, p in model.named_parameters():  # biases that do something
        if name.endswith("bias"):
            torch.nn.init.normal_(p, std=0.3)
    record("qwen2", model)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models.npz")
    np.savez_compressed(path, **OUT)
    print(f"{len(OUT)} arrays, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
