"""A regression by an MLP 4-32-1 in two styles: modules and backward(), and functions over trees (example 04)."""

import nabla as nb
import numpy as np
from nabla import nn


def data():
    x = np.random.RandomState(42).randn(200, 4).astype(np.float32)
    y = np.sin(x[:, 0]) + np.cos(x[:, 1]) + 0.5 * x[:, 2] - x[:, 3]
    return nb.asarray(x), nb.asarray(y[:, None].astype(np.float32))


def with_modules(steps):
    """As in PyTorch: losses, backward(), an optimizer that holds the state."""
    x, y = data()
    net = nn.Sequential(nn.Linear(4, 32, key=1), nn.ReLU(), nn.Linear(32, 1, key=2))
    assert net.num_parameters() == 193
    net.requires_grad_()
    optimizer = nn.optim.AdamW(net, lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = nn.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def with_functions(steps):
    """As in JAX: parameters are a tree, a step is a function, compiled as a whole."""
    x, y = data()
    first, last = nn.Linear(4, 32, key=1), nn.Linear(32, 1, key=2)
    params = [{"w": layer.weight, "b": layer.bias} for layer in (first, last)]

    def loss(params):
        hidden = nb.relu(x @ params[0]["w"] + params[0]["b"])
        return nb.mean((hidden @ params[1]["w"] + params[1]["b"] - y) ** 2)

    @nb.jit
    def step(params, state):
        value, gradients = nb.value_and_grad(loss)(params)
        params, state = nn.optim.adamw_update(params, gradients, state, lr=1e-2)
        return params, state, value

    state, losses = nn.optim.adamw_init(params), []
    for _ in range(steps):
        params, state, value = step(params, state)
        losses.append(value.item())
    return losses


def main(steps=60):
    a, b = with_modules(steps), with_functions(steps)
    print("modules:  ", [round(v, 6) for v in a[::10]], "final", round(a[-1], 6))
    print("functions:", [round(v, 6) for v in b[::10]], "final", round(b[-1], 6))
    return {"modules": a, "functions": b}


if __name__ == "__main__":
    main()
