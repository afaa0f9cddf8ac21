"""A deep MLP fits a wave by plain gradient descent; the numbers are those of a JAX program (example 10)."""

import time

import nabla as nb
import numpy as np

WIDTHS = [1, 16, 32, 64, 64, 64, 64, 32, 16, 1]
# After the warm-up: losses before the steps 1, 10, ..., 60, in float64.
EXPECTED = {1: 0.337955145, 10: 0.210140219, 20: 0.155140691, 30: 0.136210076, 40: 0.129876759, 50: 0.127728207,
            60: 0.126994593}
WARM_UP = 0.364887


def parameters():
    rng = np.random.RandomState(42)
    out = []
    for a, b in zip(WIDTHS, WIDTHS[1:]):
        limit = np.sqrt(6.0 / (a + b))
        out.append({"w": nb.asarray(rng.uniform(-limit, limit, (a, b)).astype(np.float32)),
                    "b": nb.zeros((1, b))})
    return out


def data():
    x = np.linspace(0.0, 1.0, 500).reshape(-1, 1)
    return nb.asarray(x.astype(np.float32)), nb.asarray(((np.sin(8 * np.pi * x) + 1) / 2).astype(np.float32))


def predict(params, x):
    for layer in params[:-1]:
        x = nb.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def step(params, x, y):
    loss, gradients = nb.value_and_grad(lambda p: nb.mean((predict(p, x) - y) ** 2))(params)
    return nb.tree_map(lambda p, g: p - 0.01 * g, params, gradients), loss


def main(steps=60):
    x, y = data()
    params = parameters()
    count = sum(int(np.prod(t.shape)) for t in nb.tree_leaves(params))
    assert count == 17793
    compiled = nb.jit(step)
    params, loss = compiled(params, x, y)
    out = {0: loss.item()}
    print(f"warm-up: {out[0]:.6f}")
    begin = time.perf_counter()
    losses = []
    for _ in range(steps):
        params, loss = compiled(params, x, y)
        losses.append(loss)
    nb.realize(params)
    seconds = time.perf_counter() - begin
    for i in [1] + list(range(10, steps + 1, 10)):
        out[i] = losses[i - 1].item()
        print(f"step {i:2}: {out[i]:.6f}")
    print(f"{steps / seconds:.1f} steps/s")
    return out


if __name__ == "__main__":
    main()
