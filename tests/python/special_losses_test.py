"""Derivatives of losses, norms and softmaxes where they are delicate: constant and zero rows, equal pairs, ties with
margins, saturated logits, probabilities of 0 and 1. Where a loss is a number, its first and second derivatives are
numbers, and the first one lies between the slopes from both sides. Losses are found by their names, so that new ones
are tested."""

import inspect

import nabla as nb
import numpy as np
import pytest
from nabla import nn
from nabla.nn import functional as F
from nabla.nn import losses

ROWS = {"zero": np.zeros((2, 4)), "constant": np.full((2, 4), 3.0), "far down": np.full((2, 4), -1e4),
        "one large": np.array([[1e4, 0, 0, 0], [0, -1e4, 0, 1]]), "tiny": np.full((2, 4), 1e-30),
        "ties": np.array([[1.0, 1, 0, 0], [1, -1, 1, -1]]),
        "margins": np.array([[1.0, -1, 0.5, 2], [-2, 1, -0.5, 0]])}
SHARES = {"sure": np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]]), "half": np.full((2, 4), 0.5),
          "uneven": np.array([[0.1, 0.9, 0.2, 0.8]] * 2)}
SIGNS = np.array([[1.0, -1, 1, -1], [-1, 1, 1, -1]])

# Per loss: the points for its first operand, and its other operands.
OPERANDS = {
    "binary_cross_entropy": (SHARES, [SHARES["sure"]]),
    "binary_cross_entropy_with_logits": (ROWS, [SHARES["uneven"]]),
    "cross_entropy_loss": (ROWS, [np.array([1, 3])]),
    "nll_loss": (ROWS, [np.array([1, 3])]),
    "kl_div_loss": (ROWS, [SHARES["sure"]]),
    "cosine_embedding_loss": (ROWS, [ROWS["ties"], np.array([1.0, -1])]),
    "hinge_loss": (ROWS, [SIGNS]),
    "triplet_margin_loss": (ROWS, [ROWS["ties"], ROWS["zero"]]),
}
# Norms and softmaxes as functions of x alone.
NORMS = {"layer_norm": F.layer_norm, "rms_norm": F.rms_norm, "group_norm": lambda x: F.group_norm(x, 2),
         "instance_norm": lambda x: F.instance_norm(x[:, :, None]), "normalize": F.normalize,
         "batch_norm_train": lambda x: F.batch_norm_train(x)[0],
         "batch_norm": lambda x: F.batch_norm(x, nb.zeros(4, x.dtype), nb.zeros(4, x.dtype)),
         "softmax": F.softmax, "log_softmax": F.log_softmax, "logsumexp": lambda x: nb.logsumexp(x, axis=-1),
         "norm": lambda x: nb.linalg.norm(x, axis=-1), "std": lambda x: nb.std(x, axis=-1)}


def cases():
    seen = set()  # some have two names
    for name in losses.__all__:
        f = getattr(losses, name)
        name = getattr(f, "__name__", name)
        if not callable(f) or name in seen or "loss" not in name and "entropy" not in name and "similarity" not in name:
            continue
        seen.add(name)
        points, rest = OPERANDS.get(name, (ROWS, None))
        takes = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty]
        for point, x in points.items():
            others = rest if rest is not None else [ROWS["ties"]] * (len(takes) - 1)
            yield pytest.param(f, x, others, id=f"{name}-{point}")
            if rest is None:  # at its least value
                yield pytest.param(f, x, [x] * (len(takes) - 1), id=f"{name}-{point}, equal")
    for name, f in NORMS.items():
        for point, x in ROWS.items():
            yield pytest.param(f, x, [], id=f"{name}-{point}")


def total(f, others):
    weights = np.linspace(0.5, 1.5, 8)

    def of(x):
        y = f(x, *others).reshape((-1,))
        return nb.sum(y * nb.asarray(weights[:y.shape[0]], y.dtype))
    return of


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("f, x, others", cases())
def test_derivatives_are_numbers_and_lie_between_the_slopes(f, x, others, dtype):
    others = [o.astype(dtype) if o.dtype == np.float64 else o for o in others]
    loss, x = total(f, others), x.astype(dtype)
    value = float(loss(nb.asarray(x)))
    if not np.isfinite(value):
        pytest.skip("no number")
    gradient = np.asarray(nb.grad(loss)(nb.asarray(x)))
    assert np.isfinite(gradient).all(), gradient
    again = np.asarray(nb.grad(lambda x: nb.sum(nb.grad(loss)(x)))(nb.asarray(x)))
    assert not np.isnan(again).any(), again
    if dtype == "float32":
        return
    def slope(at, step):
        moved = x.copy()
        moved[at] += step
        return (float(loss(nb.asarray(moved))) - value) / step

    scale = max(1.0, np.abs(x).max())
    for at in np.ndindex(*x.shape):
        slopes = [slope(at, sign * 1e-7 * scale) for sign in (1, -1)]
        closer = [slope(at, sign * 1e-6 * scale) for sign in (1, -1)]
        slack = 1e-3 * (1 + np.abs(slopes).max()) + 1e-9 * abs(value) / scale
        if not np.allclose(slopes, closer, atol=slack):
            continue  # the slope changes within these steps
        assert min(slopes) - slack <= gradient[at] <= max(slopes) + slack, (at, slopes, gradient[at])


def test_every_loss_is_tested():
    named = {getattr(losses, n).__name__ for n in losses.__all__ if n.endswith("loss")}
    assert named <= {p.id.split("-")[0] for p in cases()}
    assert all(hasattr(nn, n) or hasattr(losses, n) for n in OPERANDS)


def test_a_constant_power_and_a_length_have_no_slope_at_small_numbers():
    small = np.array([0, 1e-5, 1e-3, 1], np.float16)
    assert not np.asarray(nb.vmap(nb.grad(lambda a: a ** 0.0))(nb.asarray(small))).any()
    assert np.array_equal(nb.vmap(nb.grad(nb.grad(lambda a: a ** 2.0)))(nb.asarray([0.0, 1e-20, 1.0])), [2, 2, 2])
    for norm in (nb.linalg.norm, nb.linalg.matrix_norm, nb.std):
        assert not np.asarray(nb.hessian(norm)(nb.zeros((2, 2)))).any()


# ---- Losses of 16-bit floats: their terms and counts may be larger than the dtype holds

WRAPS = {"eager": lambda f: f, "jit": nb.jit}
HUGE = np.zeros((100, 4))
HUGE[0] = [300, -300, 0, 2]
HUGE_OPERANDS = {
    "binary_cross_entropy": (np.full((100, 4), 0.5), [HUGE]),
    "cross_entropy_loss": (HUGE * 100, [np.arange(100) % 4]),
    "nll_loss": (-np.full((70000, 2), 3), [np.zeros(70000, np.int64)]),
    "kl_div_loss": (-np.full((100, 4), 250.0), [np.full((100, 4), 250.0)]),
    "cosine_embedding_loss": (HUGE + 200, [HUGE * 100 - 50, np.where(np.arange(100) % 2, 1.0, -1.0)]),
    "hinge_loss": (HUGE * 100, [HUGE * 100]),
    "triplet_margin_loss": (HUGE * 200, [-HUGE * 200, HUGE]),
}


LOSSES = sorted({getattr(losses, n).__name__ for n in losses.__all__ if n.endswith("loss") or "entropy" in n})


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_losses_of_16_bit_floats_are_computed_in_float32(loss_name, dtype, wrap):
    f = getattr(losses, loss_name)
    x, others = HUGE_OPERANDS.get(loss_name, (HUGE, [-HUGE]))
    tensors = [nb.asarray(o, dtype) if np.asarray(o).dtype == np.float64 else nb.asarray(o) for o in (x * 1.0, *others)]
    exact = [nb.cast(t, "float64") if t.dtype.is_float() else t for t in tensors]
    got, want = wrap(f)(*tensors), float(f(*exact))
    assert got.dtype == nb.dtype_of(dtype) and np.isfinite(want)
    largest = 65504.0 if dtype == "float16" else 3e38
    if abs(want) < largest:
        np.testing.assert_allclose(float(got), want, rtol=1e-2, atol=1e-2)
    slope = nb.grad(lambda x: nb.cast(f(x, *tensors[1:]), "float32"))(tensors[0])
    assert np.isfinite(np.asarray(nb.cast(slope, "float32"))).all()


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("options", [
    {}, {"ignore_index": -1}, {"ignore_index": 1}, {"weight": [1.0, 2.0]}, {"weight": [60000.0, 60000.0]},
    {"ignore_index": 1, "weight": [3.0, 1.0]}, {"label_smoothing": 0.1, "weight": [1.0, 1.0]}], ids=str)
def test_counts_of_cross_entropy_beyond_the_dtype(options, dtype, wrap):
    # float16 ends at 65,504, and bfloat16 counts to 256.
    labels = nb.zeros(70000, "int32")
    loss = wrap(lambda x: losses.cross_entropy_loss(x, labels, **options))
    x = nb.zeros((70000, 2), dtype)
    assert abs(float(loss(x)) - np.log(2)) < 4e-3 and loss(x).dtype == x.dtype
    slope = nb.grad(lambda x: loss(x) * 30000)(x)
    np.testing.assert_allclose(np.asarray(nb.cast(slope[:2], "float32")), [[-3 / 14, 3 / 14]] * 2, rtol=2e-1)


def test_gradients_of_cross_entropy_use_the_unrounded_logarithm():
    x = np.array([[1000.0, 1000.5, 999.0]])  # in float16 the logarithm of the sum is rounded to a multiple of 0.5
    for dtype, tolerance in (("float16", 1e-3), ("float64", 1e-9)):
        slope = nb.grad(lambda x: losses.cross_entropy_loss(x, nb.asarray([0])))(nb.asarray(x, dtype))
        p = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
        np.testing.assert_allclose(np.asarray(nb.cast(slope, "float64")), p - [[1, 0, 0]], atol=tolerance)


# ---- Labels


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_labels_of_every_integer_dtype_in_losses(dtype):
    x, weight = np.random.RandomState(3).randn(3, 300).astype(np.float32), np.linspace(0.5, 2, 300, dtype=np.float32)
    labels = np.array([3, 100, 7])
    for options in ({}, {"weight": weight}, {"weight": weight, "label_smoothing": 0.1}, {"label_smoothing": 0.1},
                    {"ignore_index": 7}, {"ignore_index": -100}, {"ignore_index": 255}):
        want = losses.cross_entropy_loss(x, labels, **options).item()
        assert abs(losses.cross_entropy_loss(x, labels.astype(dtype), **options).item() - want) < 1e-5, options
    assert abs(losses.nll_loss(x, labels.astype(dtype)).item() + x[np.arange(3), labels].mean()) < 1e-6


def test_a_label_out_of_range_gives_nan():
    for options in ({}, {"weight": [1.0, 2.0]}, {"weight": [1.0, 2.0], "label_smoothing": 0.1}, {"ignore_index": 0}):
        assert np.isnan(losses.cross_entropy_loss(nb.zeros((2, 2)), nb.asarray([0, 2]), **options).item())
