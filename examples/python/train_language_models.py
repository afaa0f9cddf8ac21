"""GPT-2, Llama 3 and Qwen 2 at a small size: they learn to count, and go on counting through their caches."""

import nabla as nb
import numpy as np
from language_models import Generator, Gpt2, Llama3, Qwen2, train_step
from nabla import nn

VOCABULARY, LENGTH = 32, 16


def models():
    return {
        "gpt2": Gpt2(VOCABULARY, 32, 32, 4, 2, key=1),
        "llama3": Llama3(VOCABULARY, 32, 4, 2, 2, 64, key=2),
        "qwen2": Qwen2(VOCABULARY, 32, 4, 2, 2, 64, key=3),
    }


def batch(rng, rows=16):
    """Sequences that go up by 1, 2 or 3, modulo the vocabulary."""
    start, stride = rng.randint(0, VOCABULARY, (rows, 1)), rng.randint(1, 4, (rows, 1))
    return ((start + stride * np.arange(LENGTH + 1)) % VOCABULARY).astype(np.int32)


def main(steps=150, names=None):
    out = {}
    for name, model in models().items():
        if names is not None and name not in names:
            continue
        optimizer = nn.optim.adamw(nn.optim.schedules.cosine(1e-2, max(steps, 20), 10), weight_decay=0.01)
        step, state, rng, losses = train_step(optimizer), optimizer.init(model), np.random.RandomState(0), []
        for i in range(steps):
            model, state, loss, _ = step(model, state, batch(rng), nb.random.key(i))
            losses.append(loss.item())
        prompt = [[5, 7, 9, 11, 13], [1, 2, 3, 4, 5]]
        tokens = Generator(model, 16)(prompt, 6)
        print(f"{name}: {model.num_parameters()} parameters, loss {losses[0]:.4f} -> {losses[-1]:.4f}; "
              f"after {prompt}: {tokens}")
        out[name] = (losses, tokens, model)
    return out


if __name__ == "__main__":
    main()
