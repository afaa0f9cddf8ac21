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


# ---- Elementwise functions at points where formulas branch, cancel or overflow


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


def bell(x):
    return np.exp(-np.minimum(x * x, 700))


def sinc_slopes(x):
    """The first and second derivative of sinc: by series near 0, where the quotients cancel."""
    a = np.pi * np.where(np.abs(x) < 0.1, 1.0, x)
    near = np.pi * np.where(np.abs(x) < 0.1, x, 0.0)
    first = np.pi * (np.cos(a) / a - np.sin(a) / a**2)
    second = np.pi**2 * (-np.sin(a) / a - 2 * np.cos(a) / a**2 + 2 * np.sin(a) / a**3)
    series = np.pi * (-near / 3 + near**3 / 30 - near**5 / 840 + near**7 / 45360)
    curve = np.pi**2 * (-1 / 3 + near**2 / 10 - near**4 / 168 + near**6 / 6480)
    return np.where(np.abs(x) < 0.1, series, first), np.where(np.abs(x) < 0.1, curve, second)


def exponential(alpha, scale):
    """Slopes of alpha (exp(x / scale) - 1) below 0 and of x above; at 0 those from below."""
    def first(x):
        return np.where(x > 0, 1.0, alpha / scale * np.exp(np.minimum(x, 0) / scale))

    return first, lambda x: np.where(x > 0, 0.0, alpha / scale**2 * np.exp(np.minimum(x, 0) / scale))


ALL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.25, 1e-3, -1e-4, 3.0, -5.0, 30.0, -40.0, 1e-20, -1e-20, 1e-40, -1e-45, 3e38, -3e38,
       np.inf, -np.inf]
FINITE = [x for x in ALL if np.isfinite(x)]
NORMAL = [x for x in FINITE if x == 0 or abs(x) > 1e-30]  # 1e40 is a slope of slopes beside subnormals
MODERATE = [x for x in ALL if abs(x) < 100]
SMOOTH = {
    "softplus": (nb.softplus, sigmoid, lambda x: sigmoid(x) * sigmoid(-x), ALL),
    "log_sigmoid": (nb.log_sigmoid, lambda x: sigmoid(-x), lambda x: -sigmoid(x) * sigmoid(-x), ALL),
    "sigmoid": (nb.sigmoid, lambda x: sigmoid(x) * sigmoid(-x),
                lambda x: sigmoid(x) * sigmoid(-x) * (1 - 2 * sigmoid(x)), ALL),
    "tanh": (nb.tanh, lambda x: 1 - np.tanh(x)**2, lambda x: -2 * np.tanh(x) * (1 - np.tanh(x)**2), ALL),
    "elu": (nb.elu, *exponential(1, 1), ALL),
    "elu 0.5": (lambda x: nb.elu(x, 0.5), *exponential(0.5, 1), ALL),
    "celu": (nb.celu, *exponential(1, 1), ALL),
    "celu 2": (lambda x: nb.celu(x, 2.0), *exponential(2, 2), ALL),
    "nn celu 0.5": (lambda x: nb.nn.functional.celu(x, 0.5), *exponential(0.5, 0.5), ALL),
    "sinc": (nb.sinc, lambda x: sinc_slopes(x)[0], lambda x: sinc_slopes(x)[1], MODERATE),
    "expm1": (nb.expm1, np.exp, np.exp, [x for x in ALL if x < 80]),
    "exp": (nb.exp, np.exp, np.exp, [x for x in ALL if x < 80]),
    "erf": (nb.erf, lambda x: 2 / np.sqrt(np.pi) * bell(x), lambda x: -4 / np.sqrt(np.pi) * x * bell(x), FINITE[:-2]),
    "atan": (nb.atan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x)**2, MODERATE),
    "sin": (nb.sin, np.cos, lambda x: -np.sin(x), MODERATE),
    "square": (nb.square, lambda x: 2 * x, lambda x: 2 + 0 * x, MODERATE),
    "silu": (nb.silu, lambda x: sigmoid(x) * (1 + x * sigmoid(-x)),
             lambda x: sigmoid(x) * sigmoid(-x) * (2 + x * (1 - 2 * sigmoid(x))), MODERATE),
    "mish": (nb.mish, None, None, MODERATE),
    "gelu": (nb.gelu, None, None, FINITE),
    "logaddexp 1": (lambda x: nb.logaddexp(x, 1.0), lambda x: sigmoid(x - 1),
                    lambda x: sigmoid(x - 1) * sigmoid(1 - x), FINITE),
    "logaddexp of itself": (lambda x: nb.logaddexp(x, x), lambda x: 1 + 0 * x, lambda x: 0 * x, FINITE),
    "hypot 0": (lambda x: nb.hypot(x, 0.0), np.sign, lambda x: 0 * x, NORMAL),
    "hypot 1": (lambda x: nb.hypot(x, 1.0), lambda x: x / np.hypot(x, 1), lambda x: np.hypot(x, 1)**-3, MODERATE),
    "atan2 1": (lambda x: nb.atan2(x, nb.ones_like(x)), lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x)**2,
                MODERATE),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SMOOTH)
def test_first_and_second_derivatives_at_special_points(name, dtype):
    f, first, second, points = SMOOTH[name]
    x = nb.asarray(np.array(points, dtype))
    exact = np.asarray(x).astype(np.float64)
    once, twice = nb.vmap(nb.grad(f)), nb.vmap(nb.grad(nb.grad(f)))
    rtol = 2e-5 if dtype == "float32" else 1e-10
    for way, wrap in (("eager", lambda g: g), ("jit", nb.jit)):
        for what, got, want in (("first", wrap(once)(x), first), ("second", wrap(twice)(x), second)):
            got = np.asarray(got).astype(np.float64)
            assert np.isfinite(got).all(), f"{way}, {what}: {dict(zip(points, got))}"
            if want is not None:
                with np.errstate(all="ignore"):
                    wanted = want(exact)
                np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol / 10, err_msg=f"{way}, {what} of {points}")


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e18])
@pytest.mark.parametrize("x, y", [(3.0, 4.0), (1.0, 1.0), (2.0, -2.0), (1.0, 0.0), (0.0, -2.0), (-1.0, 1.0)])
def test_hypot_is_smooth_away_from_the_origin(x, y, scale):
    v, r = nb.asarray([x * scale, y * scale], "float64"), np.hypot(x, y)
    slope, curve = nb.grad(lambda v: nb.hypot(v[0], v[1]))(v), nb.hessian(lambda v: nb.hypot(v[0], v[1]))(v)
    np.testing.assert_allclose(np.asarray(slope), np.array([x, y]) / r, rtol=1e-12, atol=1e-15)
    want = np.array([[y * y, -x * y], [-x * y, x * x]]) / r**3
    np.testing.assert_allclose(np.asarray(curve) * scale, want, rtol=1e-9, atol=1e-12)
    angle = nb.grad(lambda v: nb.atan2(v[0], v[1]))(nb.asarray([x * scale, y * scale], "float32"))
    np.testing.assert_allclose(np.asarray(angle) * scale, np.array([y, -x]) / r**2, rtol=1e-5, atol=1e-6)


def test_norms_at_zero_have_the_slope_zero():
    for f in (nb.linalg.norm, lambda v: nb.hypot(v[0], v[1]), lambda v: nb.sum(nb.nn.functional.normalize(v))):
        for wrap in (lambda g: g, nb.jit):
            assert np.isfinite(np.asarray(wrap(nb.grad(f))(nb.zeros((2,))))).all()
    np.testing.assert_array_equal(np.asarray(nb.grad(nb.linalg.norm)(nb.zeros((3,)))), 0)


# ---- Losses of certain predictions

INF = np.inf


@pytest.mark.parametrize("wrap", [lambda g: g, nb.jit], ids=["eager", "jit"])
def test_losses_of_impossible_classes(wrap):
    logits, labels = nb.asarray([[0.0, -INF], [-INF, 1.0]]), nb.asarray([0, 1])
    hot, weight = nb.asarray([[1.0, 0.0], [0.0, 1.0]]), nb.asarray([1.0, 2.0])
    for loss in (lambda x: nb.nn.cross_entropy_loss(x, labels), lambda x: nb.nn.cross_entropy_loss(x, hot),
                 lambda x: nb.nn.cross_entropy_loss(x, labels, weight=weight),
                 lambda x: nb.nn.nll_loss(nb.log_softmax(x), labels)):
        value, slope = wrap(nb.value_and_grad(loss))(logits)
        assert value.item() == 0
        np.testing.assert_array_equal(np.asarray(slope), 0)
    for smoothed in (lambda x: nb.nn.cross_entropy_loss(x, labels, label_smoothing=0.1),
                     lambda x: nb.nn.cross_entropy_loss(x, hot, label_smoothing=0.1),
                     lambda x: nb.nn.cross_entropy_loss(x, labels, label_smoothing=0.1, weight=weight)):
        value, slope = wrap(nb.value_and_grad(smoothed))(logits)
        assert value.item() == INF  # a class that cannot be has a share of the label
        assert np.isfinite(np.asarray(slope)).all()


@pytest.mark.parametrize("wrap", [lambda g: g, nb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_binary_cross_entropy_of_certain_predictions(wrap, dtype):
    p, y = np.array([0.0, 1.0, 0.25, 0.0, 1.0], dtype), np.array([0.0, 1.0, 1.0, 1.0, 0.0], dtype)
    loss = np.asarray(wrap(lambda p: nb.nn.binary_cross_entropy(p, y, reduction="none"))(p)).astype(np.float64)
    np.testing.assert_allclose(loss, [0, 0, -np.log(0.25), 100, 100], rtol=1e-3)
    slope = wrap(nb.grad(lambda p: nb.nn.binary_cross_entropy(p, y, reduction="sum")))(nb.asarray(p))
    np.testing.assert_allclose(np.asarray(slope).astype(np.float64), [1, -1, -4, 0, 0], rtol=1e-3)
    curve = wrap(nb.grad(lambda p: nb.sum(nb.grad(lambda p: nb.nn.binary_cross_entropy(p, y, reduction="sum"))(p))))
    assert np.isfinite(np.asarray(curve(nb.asarray(p))).astype(np.float64)).all()
