"""What a traced function looks like, and what compiling it brings (example 03)."""

import time

import nabla as nb
import numpy as np
from nabla import nn


def small():
    def f(x, y):
        return nb.sin(x) * y + nb.exp(x)

    x, y = nb.asarray([1.0, 2.0]), nb.asarray([3.0, 4.0])
    print(nb.trace(f, x, y))
    print("as it comes", f(x, y), "compiled", nb.jit(f)(x, y))
    return nb.jit(f)(x, y).tolist()


def main(calls=50):
    pair = small()
    net = nn.MLP([8, 32, 1], key=0)
    x = nb.asarray(np.random.RandomState(0).randn(16, 8).astype(np.float32))
    y = nb.asarray(np.random.RandomState(1).randn(16, 1).astype(np.float32))

    def step(model, x, y):
        gradients = nn.grad(lambda m: nn.mse_loss(m(x), y))(model)
        return nn.optim.sgd_update(model, gradients, lr=0.05)[0]

    print(nb.make_ir(lambda m, x: m(x))(net, x))
    compiled = nb.jit(step)
    eager, fast = net, compiled(net, x, y)
    nb.realize(fast)

    def seconds(f, model):
        begin = time.perf_counter()
        for _ in range(calls):
            model = f(model, x, y)
            nb.realize(model)
        return model, (time.perf_counter() - begin) / calls

    eager, slow_time = seconds(step, eager)
    fast, fast_time = seconds(compiled, net)
    difference = max(np.abs(np.asarray(a) - np.asarray(b)).max() for a, b in zip(eager.parameters(), fast.parameters()))
    print(f"a step: {slow_time * 1e3:.2f} ms as it comes, {fast_time * 1e3:.2f} ms compiled; {compiled.stats}")
    print(f"largest difference of the parameters: {difference:.1e}")
    return {"pair": pair, "difference": float(difference), "misses": compiled.stats.misses}


if __name__ == "__main__":
    main()
