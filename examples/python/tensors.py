"""Tensors: made, combined, indexed, turned into arrays. Nothing is computed before somebody looks (example 01)."""

import nabla as nb
import numpy as np


def main():
    a = nb.asarray([[1.0, 2.0], [3.0, 4.0]])
    b = nb.arange(4, dtype="float32").reshape((2, 2))
    print("a + b =", (a + b).tolist())
    print("a @ b =", (a @ b).tolist())
    print("column sums", nb.sum(a, axis=0).tolist(), "mean", nb.mean(a).item())
    print("row 1", a[1].tolist(), "every second of 0..7", nb.arange(8)[::2].tolist())

    # Integers and floats meet as in JAX; Python's numbers adapt to the tensor.
    print("dtypes:", (a + 1).dtype, (nb.asarray([1, 2]) * 0.5).dtype, (nb.asarray([1, 2]) // 2).dtype)

    lazy = nb.exp(a) * 2
    assert not lazy.has_array  # a promise so far
    nb.realize_all(lazy)
    assert lazy.has_array
    back = np.asarray(lazy)
    print("exp(a) * 2 =", back.round(4).tolist())

    x = nb.asarray(np.zeros(3, np.float32))
    print("repeated indices add up:", x.at[nb.asarray([0, 0, 2])].add(1.0).tolist())
    return {"product": (a @ b).tolist(), "added": x.at[nb.asarray([0, 0, 2])].add(1.0).tolist()}


if __name__ == "__main__":
    main()
