"""Large tensors outside of compiled functions: kernels, rewritten ops and the interpreter say what NumPy says."""

import numpy as np
import pytest

import nabla as nb

RNG = np.random.default_rng(0)
# Sizes that are no multiple of a tile, a vector or a block of rows.
A = RNG.standard_normal((131, 67, 5)).astype(np.float32)
DTYPES = ["bool", "int8", "uint16", "int32", "float32", "int64", "float64"]  # elements of 1, 2, 4 and 8 bytes


def data(dtype, shape=(131, 67, 5)):
    return RNG.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def same(got, want):
    got = nb.realize(got).numpy()
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_movement(dtype):
    a = data(dtype)
    x = nb.asarray(a)
    for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
        same(nb.permute(x, *order), a.transpose(order).copy())
    same(x[1:, ::-2, 1:4], a[1:, ::-2, 1:4])
    same(x[::3, 5:-3, ::2], a[::3, 5:-3, ::2])
    same(nb.flip(x, (0, 2)), np.flip(a, (0, 2)))
    same(nb.roll(x, 7, 1), np.roll(a, 7, 1))
    same(nb.pad(x, [(2, 0), (0, 3), (1, 1)]), np.pad(a, [(2, 0), (0, 3), (1, 1)]))
    for axis in range(3):
        same(nb.concatenate([x, x[:, :, :], x], axis), np.concatenate([a, a, a], axis))
        same(nb.repeat(x, 3, axis), np.repeat(a, 3, axis))
    same(nb.stack([x, x], -1), np.stack([a, a], -1))
    same(nb.broadcast_to(x[:, :1], (131, 9, 5)), np.broadcast_to(a[:, :1], (131, 9, 5)))
    same(nb.tile(x, (2, 1, 3)), np.tile(a, (2, 1, 3)))
    same(nb.dynamic_slice(x, [200, 3, 1], [40, 60, 3]), a[91:131, 3:63, 1:4])
    written = a.copy()
    written[91:, 7:67] = a[:40, :60]
    same(nb.dynamic_update_slice(x, x[:40, :60], [200, 30, 0]), written)


@pytest.mark.parametrize("dtype", DTYPES)
def test_indexing(dtype):
    a = data(dtype)
    x = nb.asarray(a)
    for axis in range(3):
        at = RNG.integers(-a.shape[axis], a.shape[axis], 203)
        same(nb.take(x, nb.asarray(at.astype(np.int32)), axis), np.take(a, at, axis))
        along = RNG.integers(0, a.shape[axis], a.shape)
        same(nb.take_along_axis(x, nb.asarray(along), axis), np.take_along_axis(a, along, axis))
    rows, columns = RNG.integers(0, 131, 300), RNG.integers(0, 67, 300)
    same(x[nb.asarray(rows), nb.asarray(columns)], a[rows, columns])
    mask = RNG.random(a.shape) > 0.5
    same(x[nb.asarray(mask)], a[mask])
    order = RNG.permutation(131)
    written = a.copy()
    written[order[:100]] = a[:100]
    same(nb.scatter(x, nb.asarray(order[:100]), x[:100]), written)
    if dtype == "bool":
        return
    many = RNG.integers(0, 131, 400)
    added, updates = a.copy(), data(dtype, (400, 67, 5))
    np.add.at(added, many, updates)
    same(nb.scatter_add(x, nb.asarray(many), nb.asarray(updates)), added)


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_along_rows(dtype):
    a = data(dtype)
    x = nb.asarray(a)
    for axis in range(3):
        same(nb.argmax(x, axis), np.argmax(a, axis))
        same(nb.argmin(x, axis), np.argmin(a, axis))
        same(nb.sort(x, axis), np.sort(a, axis))
        same(nb.argsort(x, axis), np.argsort(a, axis, kind="stable").astype(np.int32))
        same(nb.cummax(x, axis), np.maximum.accumulate(a, axis))
        sums = nb.cumsum(x, axis).numpy()
        np.testing.assert_array_equal(sums, np.cumsum(a, axis, dtype=sums.dtype))
        same(nb.max(x, axis), np.max(a, axis))
    total = nb.realize(nb.sum(x, (0, 2))).numpy()
    np.testing.assert_array_equal(total, np.sum(a, (0, 2), dtype=total.dtype))
    same(nb.min(x, (0, 2)), np.min(a, (0, 2)))
    values, places = nb.top_k(x, 5, 0)
    same(values, -np.sort(-a.astype(np.int64), 0)[:5].astype(dtype))
    same(nb.take_along_axis(x, places, 0), values.numpy())


def test_long_rows_sort_with_what_is_no_number():
    a = RNG.standard_normal(20011).astype(np.float32)
    a[RNG.integers(0, a.size, 50)] = np.nan
    a[RNG.integers(0, a.size, 50)] = np.inf
    a[RNG.integers(0, a.size, 500)] = -0.0
    a[RNG.integers(0, a.size, 500)] = 0
    for dtype in (np.float32, np.float64):
        x = nb.asarray(a.astype(dtype))
        same(nb.argsort(x), np.argsort(a, kind="stable").astype(np.int32))
        assert nb.argmax(x).item() == np.argmax(np.isnan(a))


def test_sums_over_scattered_dimensions_and_softmax_of_any():
    a = RNG.standard_normal((13, 17, 19, 5)).astype(np.float32)
    x = nb.asarray(a)
    for axes in [(0, 2), (1, 3), (0, 3), (0, 1, 3), (0, 1, 2, 3), 1]:
        np.testing.assert_allclose(nb.sum(x, axes).numpy(), a.sum(axes), atol=1e-3)
        np.testing.assert_array_equal(nb.max(x, axes).numpy(), a.max(axes))
    for axis in range(4):
        shares = np.exp(a) / np.exp(a).sum(axis, keepdims=True)
        np.testing.assert_allclose(nb.softmax(x, axis).numpy(), shares, atol=1e-6)
        np.testing.assert_allclose(nb.logsumexp(x, axis).numpy(), np.log(np.exp(a).sum(axis)), atol=1e-5)


@pytest.mark.parametrize("spec", ["ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ji,kj->ik", "bij,bjk->bik", "bij,bkj->ibk",
                                  "ibj,jbk->kbi", "abij,abjk->abik", "ijk,kl->jil", "ijk,jkl->il", "ij,kl->ikjl",
                                  "aij,ajk->ik", "ij,j->i"])
def test_products_of_any_layout(spec):
    extents = dict(zip("abijkl", (3, 4, 23, 37, 11, 7)))
    left, right = spec.split("->")[0].split(",")
    a, b = (RNG.standard_normal([extents[c] for c in operand]).astype(np.float32) for operand in (left, right))
    got = nb.einsum(spec, nb.asarray(a), nb.asarray(b)).numpy()
    np.testing.assert_allclose(got, np.einsum(spec, a.astype(float), b.astype(float)), atol=1e-4)


def convolved(x, w, stride, pad, dilation):
    """The meaning of a convolution, tap by tap."""
    space, taps = x.shape[1:-1], w.shape[:-2]
    x = np.pad(x, [(0, 0)] + [(pad, pad)] * len(space) + [(0, 0)])
    sizes = [(n + 2 * pad - (t - 1) * dilation - 1) // stride + 1 for n, t in zip(space, taps)]
    out = 0
    for tap in np.ndindex(*taps):
        read = tuple(slice(t * dilation, t * dilation + (n - 1) * stride + 1, stride) for t, n in zip(tap, sizes))
        out = out + x[(slice(None), *read)].astype(float) @ w[tap]
    return out


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("stride, pad, dilation", [(1, 0, 1), (1, 1, 1), (2, 1, 1), (3, 2, 1), (1, 2, 2), (2, 3, 2)])
def test_convolutions_and_their_gradients(dims, stride, pad, dilation):
    x = RNG.standard_normal((3, *(11, 13)[:dims], 5)).astype(np.float32)
    w = RNG.standard_normal((*(3, 2)[:dims], 5, 7)).astype(np.float32)
    conv = nb.conv1d if dims == 1 else nb.conv2d
    def f(x, w):
        return conv(x, w, stride=stride, padding=pad, dilation=dilation)
    want = convolved(x, w, stride, pad, dilation)
    np.testing.assert_allclose(f(nb.asarray(x), nb.asarray(w)).numpy(), want, atol=1e-4)
    # The sum of ct * convolution is linear in either operand, so its gradient by one, times another, is a convolution.
    ct = RNG.standard_normal(want.shape).astype(np.float32)
    def g(x, w):
        return nb.sum(f(x, w) * nb.asarray(ct))
    by_x, by_w = nb.grad(g, (0, 1))(nb.asarray(x), nb.asarray(w))
    other_x, other_w = RNG.standard_normal(x.shape), RNG.standard_normal(w.shape)
    assert by_x.shape == x.shape and by_w.shape == w.shape
    for gradient, other, moved in ((by_x, other_x, convolved(other_x, w, stride, pad, dilation)),
                                   (by_w, other_w, convolved(x, other_w, stride, pad, dilation))):
        np.testing.assert_allclose((gradient.numpy() * other).sum(), (moved * ct).sum(), rtol=1e-3, atol=1e-2)


def test_pools():
    a = RNG.standard_normal((2, 20, 22, 9)).astype(np.float32)
    x = nb.asarray(a)
    blocks = a.reshape(2, 10, 2, 11, 2, 9)
    np.testing.assert_array_equal(nb.max_pool2d(x, kernel_size=2, stride=2).numpy(), blocks.max((2, 4)))
    np.testing.assert_allclose(nb.avg_pool2d(x, kernel_size=2, stride=2).numpy(), blocks.mean((2, 4)), atol=1e-6)


@pytest.mark.parametrize("dtype", [nb.uint8, nb.int16, nb.uint32])
def test_dtypes_without_kernels(dtype):
    a, b = RNG.integers(1, 100, (2, 1300))
    x, y = (nb.cast(nb.asarray(v), dtype) for v in (a, b))
    for op in (np.add, np.multiply, np.maximum, np.minimum):
        same(getattr(nb, {"add": "add", "multiply": "mul"}.get(op.__name__, op.__name__))(x, y),
             op(x.numpy(), y.numpy()))
    same(nb.cast(x, nb.float32), a.astype(np.float32))


def test_half_precision_rounds_once():
    a = (RNG.standard_normal(3001) * 10.0 ** RNG.integers(-8, 4, 3001)).astype(np.float16)
    sums = np.cumsum(a.astype(np.float64))
    assert np.any(np.abs(sums) < 65000)
    with np.errstate(over="ignore"):
        same(nb.cumsum(nb.asarray(a)), sums.astype(np.float16))
    x = nb.cast(nb.asarray(a), nb.bfloat16)
    wide = nb.cast(x, nb.float64).numpy()
    same(nb.cast(nb.cummax(x), nb.float64), np.maximum.accumulate(wide))
    rounded = nb.cast(nb.cumsum(x), nb.float64).numpy()
    sums = np.cumsum(wide)
    assert np.all(np.abs(rounded - sums) <= np.abs(sums) * 2.0**-8)


def test_draws_do_not_depend_on_the_shape():
    key = nb.random.key(3)
    for draw in (nb.random.uniform, nb.random.normal):
        whole = draw(key, (1303,)).numpy()
        np.testing.assert_array_equal(draw(key, (1303,)).numpy(), whole)
        np.testing.assert_array_equal(draw(key, (97,)).numpy(), whole[:97])
