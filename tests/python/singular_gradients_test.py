"""Derivatives where a part of a program has none: singular matrices, and branches that an example does not take."""

import itertools

import nabla as nb
import numpy as np
import pytest


def cofactors(a):
    n = len(a)
    out = np.ones((n, n))
    for i, j in itertools.product(range(n), range(n)):
        rest = np.delete(np.delete(a, i, 0), j, 1)
        out[i, j] = (-1) ** (i + j) * (np.linalg.det(rest) if n > 1 else 1)
    return out


def second(a, step=1e-4):
    n = len(a)
    out = np.zeros((n, n, n, n))
    for i, j in itertools.product(range(n), range(n)):
        d = np.zeros((n, n))
        d[i, j] = step
        out[i, j] = (cofactors(a + d) - cofactors(a - d)) / (2 * step)
    return out


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_det_of_every_rank(n):
    rng = np.random.RandomState(n)
    for rank in range(n + 1):
        a = (rng.randint(-2, 3, (n, rank)) @ rng.randint(-2, 3, (rank, n))).astype("float64")
        x = nb.asarray(a)
        for got, want in ((nb.grad(nb.linalg.det)(x), cofactors(a)), (nb.hessian(nb.linalg.det)(x), second(a))):
            scale = max(1, np.abs(want).max())
            np.testing.assert_allclose(np.asarray(got), want, atol=1e-5 * scale, err_msg=f"rank {rank}")


def test_det_of_batches_with_singular_matrices():
    a = np.stack([np.outer([1.0, 2, 3], [1, 1, 2]), np.eye(3), np.diag([1.0, 2, 0])]).astype("float32")
    want = np.stack([cofactors(m) for m in a])
    x = nb.asarray(a)

    def total(x):
        return nb.sum(nb.linalg.det(x))

    for got in (nb.grad(total)(x), nb.jit(nb.grad(total))(x), nb.vmap(nb.grad(nb.linalg.det))(x),
                nb.grad(lambda x: nb.sum(nb.vmap(nb.linalg.det)(x)))(x)):
        np.testing.assert_allclose(np.asarray(got), want, atol=1e-4)


@pytest.mark.parametrize("gradient", [
    nb.grad(lambda x: nb.sum(nb.linalg.det(x))),
    nb.grad(lambda x: nb.sum(nb.vmap(nb.linalg.det)(x))),
    nb.vmap(nb.grad(nb.linalg.det)),
], ids=["of a batch", "of vmap", "under vmap"])
def test_regular_matrices_pay_no_decomposition(gradient):
    regular = np.random.RandomState(0).uniform(-1, 1, (6, 4, 4)).astype("float32") + 2 * np.eye(4, dtype="float32")
    singular = regular.copy()
    singular[2] = np.outer(regular[2, 0], regular[2, 1])
    compiled = nb.jit(gradient)
    for x, decomposed in ((regular, False), (singular, True)):
        got = np.asarray(compiled(nb.asarray(x)))
        np.testing.assert_allclose(got, np.stack([cofactors(m.astype("float64")) for m in x]), rtol=1e-3, atol=1e-3)
        assert (" svd " in repr(compiled.profile(nb.asarray(x)))) == decomposed


V = [4.0, 0.0, -1.0, 2.0]
BRANCHES = {
    "cond": lambda v: nb.cond(v > 0, nb.sqrt, lambda v: v * 2, v),
    "both sides": lambda v: nb.cond(v > 0, lambda v: nb.log(v), lambda v: nb.sqrt(1 - v) * nb.exp(v), v),
    "switch": lambda v: nb.switch(nb.cast(nb.sign(v) + 1, "int32"), [lambda v: v * v, lambda v: v * 3, nb.sqrt], v),
    "loop": lambda v: nb.cond(v > 0, lambda v: nb.fori_loop(0, 3, lambda i, s: s + nb.sqrt(v), v * 0), lambda v: v, v),
    "nested": lambda v: nb.cond(v >= 0, lambda v: nb.cond(v > 0, nb.log, lambda v: v, v), lambda v: -v, v),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_not_taken_gives_no_derivative(name):
    f, v = BRANCHES[name], nb.asarray(V)
    first, slope = nb.vmap(nb.grad(f))(v), nb.vmap(nb.grad(nb.grad(f)))(v)
    assert np.isfinite(np.asarray(first)).all() and np.isfinite(np.asarray(slope)).all()

    def total(v):
        return nb.sum(nb.vmap(f)(v))

    for got in (nb.grad(total)(v), nb.jit(nb.grad(total))(v), nb.jvp(nb.vmap(f), (v,), (nb.ones_like(v),))[1]):
        np.testing.assert_allclose(np.asarray(got), np.asarray(first), rtol=1e-6)
    got = nb.grad(lambda v: nb.sum(nb.grad(total)(v)))(v)
    np.testing.assert_allclose(np.asarray(got), np.asarray(slope), rtol=1e-6)


def test_nor_to_what_the_examples_share():
    w, v = nb.asarray(-3.0), nb.asarray(V)

    def f(w, v):
        return nb.cond(v > 0, lambda v: w * v, lambda v: nb.sqrt(w) * 0 + v, v)

    got = nb.grad(lambda w: nb.sum(nb.vmap(lambda x: f(w, x))(nb.abs(v) + 1)))(w)
    assert got.item() == pytest.approx(sum(abs(x) + 1 for x in V))


def test_large_weights_that_the_examples_share_are_not_copied():
    w, x = nb.ones((64, 64)), nb.ones((512, 64))

    def layer(x, w):
        return nb.cond(nb.sum(x) > 0, lambda x: nb.tanh(x @ w), lambda x: x @ w, x)

    for f in (nb.vmap(layer, in_axes=(0, None)),
              nb.grad(lambda x, w: nb.sum(nb.vmap(layer, in_axes=(0, None))(x, w)), argnums=1)):
        assert nb.jit(f).memory(x, w).arena < 512 * 64 * 64 * 4
    np.testing.assert_allclose(np.asarray(nb.jit(nb.vmap(layer, in_axes=(0, None)))(x, w)), 1, rtol=1e-6)
