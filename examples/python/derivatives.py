"""Derivatives: grad, vjp, jvp, Jacobians, Hessians by four routes, and a linear regression (example 02)."""

import nabla as nb
import numpy as np


def calculus():
    slope = nb.grad(lambda x: x ** 3 + 3 * x)(2.0).item()
    gradient = nb.grad(lambda x: nb.sum(x * x))(nb.asarray([1.0, 2.0, 3.0])).tolist()
    print("f'(2) =", slope, " grad =", gradient)

    def pair(x, y):
        return nb.stack([x * x * y, 2 * x + 3 * y])

    columns = [nb.jvp(pair, (1.0, 3.0), tangents)[1].tolist() for tangents in ((1.0, 0.0), (0.0, 1.0))]
    print("jvp along x and y:", columns)
    out, pullback = nb.vjp(pair, 1.0, 3.0)
    print("vjp:", [g.item() for g in pullback(nb.asarray([1.0, 1.0]))])

    matrix = nb.asarray([[2.0, -1.0], [1.0, 3.0]])
    point = nb.asarray([1.0, 0.5])
    jacobian = nb.jacrev(lambda x: matrix @ x + nb.sin(x))(point)
    assert np.allclose(np.asarray(jacobian), np.asarray(nb.jacfwd(lambda x: matrix @ x + nb.sin(x))(point)))
    print("J =", np.asarray(jacobian).round(4).tolist())

    def surface(v):
        return v[0] ** 3 + 4 * v[0] * v[1] + v[1] ** 3

    v = nb.asarray([1.0, 3.0])
    modes = (nb.jacfwd, nb.jacrev)
    hessians = [outer(inner(surface))(v).tolist() for outer in modes for inner in modes]
    assert all(np.allclose(h, hessians[0], atol=1e-4) for h in hessians)
    print("H =", np.asarray(hessians[0]).round(4).tolist())
    return {"slope": slope, "gradient": gradient, "columns": columns, "jacobian": np.asarray(jacobian),
            "hessians": hessians}


def regression(steps=10):
    rng = np.random.RandomState(42)
    x = rng.randn(50, 3).astype(np.float32)
    y = (x @ np.array([1.0, -2.0, 0.5], np.float32) + 0.1 * rng.randn(50)).astype(np.float32)
    x, y = nb.asarray(x), nb.asarray(y)

    def loss(w):
        return nb.mean((x @ w - y) ** 2)

    w, losses = nb.zeros((3,)), []
    for _ in range(steps):
        value, gradient = nb.value_and_grad(loss)(w)
        w = w - 0.1 * gradient
        losses.append(value.item())
    print("regression:", [round(v, 6) for v in losses], "weights", np.asarray(w).round(3).tolist())
    return losses


def main(steps=10):
    out = calculus()
    out["losses"] = regression(steps)
    return out


if __name__ == "__main__":
    main()
