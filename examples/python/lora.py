"""Fine-tuning a linear map with a low-rank adapter, its checkpoint, and the same over four-bit weights (example 11)."""

import tempfile

import nabla as nb
import numpy as np
from nabla import nn
from nabla.nn import finetune as ft

IN, OUT, RANK, ALPHA, SAMPLES = 64, 32, 8, 16.0, 512


def data():
    rng = np.random.RandomState(123)
    weight = rng.randn(IN, OUT).astype(np.float32)
    change = (rng.randn(IN, RANK) @ rng.randn(RANK, OUT) * 0.25).astype(np.float32)
    x = rng.randn(SAMPLES, IN).astype(np.float32)
    return nb.asarray(weight), nb.asarray(x), nb.asarray(x @ (weight + change))


def train(forward, adapter, steps):
    @nb.jit
    def step(adapter, state):
        value, gradients = nb.value_and_grad(forward)(adapter)
        adapter, state = nn.optim.adamw_update(adapter, gradients, state, lr=2e-2)
        return adapter, state, value

    state, losses = nn.optim.adamw_init(adapter), []
    for _ in range(steps):
        adapter, state, value = step(adapter, state)
        losses.append(value.item())
    return adapter, state, losses


def main(steps=60):
    weight, x, y = data()
    adapter = ft.init_lora_adapter(weight, RANK, key=1)
    tuned, state, losses = train(lambda a: nn.mse_loss(ft.lora_linear(x, weight, a, ALPHA), y), adapter, steps)
    print(f"LoRA: {losses[0]:.6f} -> {losses[-1]:.6f}")

    with tempfile.TemporaryDirectory() as folder:
        ft.save_finetune_checkpoint(folder, lora_params=tuned, optimizer_state=state, metadata={"steps": steps})
        loaded, _, meta = ft.load_finetune_checkpoint(folder, lora_template=adapter, optimizer_template=state)
    difference = max(np.abs(np.asarray(loaded[k]) - np.asarray(tuned[k])).max() for k in tuned)
    print(f"checkpoint of step {meta['user_metadata']['steps']}: largest difference {difference}")

    merged = ft.merge_lora_weight(weight, tuned, ALPHA)
    error = np.abs(np.asarray(x @ merged) - np.asarray(ft.lora_linear(x, weight, tuned, ALPHA))).max()
    print(f"merged weight: largest difference {error:.1e}")

    packed = ft.quantize_nf4(weight)
    relative = np.linalg.norm(np.asarray(ft.dequantize_nf4(packed) - weight)) / np.linalg.norm(np.asarray(weight))
    bytes_now = int(packed.codes.shape[0]) + 4 * int(packed.scales.shape[0])
    print(f"NF4: {IN * OUT * 4} bytes become {bytes_now}, relative error {relative:.4f}")
    _, _, quantized = train(lambda a: nn.mse_loss(ft.qlora_linear(x, packed, a, ALPHA), y), adapter, steps)
    print(f"QLoRA: {quantized[0]:.6f} -> {quantized[-1]:.6f}")
    return {"lora": losses, "qlora": quantized, "difference": float(difference), "nf4": float(relative),
            "merged": float(error)}


if __name__ == "__main__":
    main()
