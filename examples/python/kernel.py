"""A kernel of one's own in C++, with a derivative of one's own (example 12; docs/user-kernels.md)."""

import nabla as nb

SOURCE = """
void add_one(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 1;
}
"""


def add_one():
    """x + 1 for vectors: its code in the bundle is that of SOURCE, and its cotangent passes through."""
    kernel = nb.cpp_kernel("add_one", "f32[n] -> f32[n]", SOURCE)
    return kernel.reference(lambda x: x + 1).vjp(lambda x, y, cotangent: cotangent)


def main():
    f = add_one()
    x = nb.asarray([1.0, 2.0, 3.0])
    out = nb.jit(f)(x).tolist()
    gradient = nb.jit(nb.grad(lambda x: nb.sum(x * f(x))))(x).tolist()
    print("out", out, "gradient", gradient)
    return {"out": out, "gradient": gradient}


if __name__ == "__main__":
    main()
