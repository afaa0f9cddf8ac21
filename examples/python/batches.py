"""vmap: derivatives per example, Jacobians and Hessians in batches, an ensemble trained in one step (example 05)."""

import nabla as nb
import numpy as np
from nabla import nn


def per_example():
    points = nb.asarray([[2.0, 0.0], [0.0, 3.0], [5.0, 5.0]])
    gradients = nb.vmap(nb.grad(lambda x: nb.sum(x * x)))(points).tolist()
    print("gradients per example:", gradients)
    matrix = nb.asarray([[2.0, 1.0], [1.0, 3.0]])
    hessian = nb.hessian(lambda x: 0.5 * nb.sum(x * (matrix @ x)))(nb.asarray([1.0, -1.0])).tolist()
    print("Hessian of a quadratic form:", hessian)
    return gradients, hessian


def jacobian_of_a_layer():
    weight = nb.asarray([[1.0, 0.3, -0.2], [-0.5, 0.8, 0.6]])

    def layer(x):
        return nb.tanh(x @ weight + nb.asarray([0.1, -0.1, 0.2]))

    x = nb.asarray([1.0, 0.5])
    backward, forward = nb.jacrev(layer)(x), nb.jacfwd(layer)(x)
    print("Jacobian of a layer, in reverse and forward:", backward, forward, sep="\n")
    return backward.tolist(), forward.tolist()


def ensemble(members=3, steps=60):
    x = np.random.RandomState(0).randn(100, 4).astype(np.float32)
    y = nb.asarray(np.tanh(x.sum(1, keepdims=True)))
    x = nb.asarray(x)
    nets = [nn.MLP([4, 16, 1], nn.functional.tanh, key=k) for k in range(members)]
    stacked = nb.tree_map(lambda *leaves: nb.stack(list(leaves)), *nets)

    def step(model, state):
        value, gradients = nb.value_and_grad(lambda m: nn.mse_loss(m(x), y))(model)
        model, state = nn.optim.adamw_update(model, gradients, state, lr=1e-2)
        return model, state, value

    states = [nn.optim.adamw_init(net) for net in nets]
    state = nb.tree_map(lambda *leaves: nb.stack(list(leaves)), *states)
    both = nb.jit(nb.vmap(step))
    first = None
    for _ in range(steps):
        stacked, state, values = both(stacked, state)
        first = values if first is None else first
    print("losses of", members, "networks:", first.tolist(), "->", values.tolist())
    return first.tolist(), values.tolist()


def main(steps=60):
    gradients, hessian = per_example()
    jacobians = jacobian_of_a_layer()
    first, last = ensemble(steps=steps)
    return {"gradients": gradients, "hessian": hessian, "jacobians": jacobians, "first": first, "last": last}


if __name__ == "__main__":
    main()
