"""Functions under NumPy's names, each against NumPy, and their gradients against differences."""

import itertools
import re
import warnings

import numpy as np
import pytest

import nabla as nb

RNG = np.random.default_rng(7)


def a(*shape):
    return RNG.standard_normal(shape).astype("float32")


def holes(*shape):
    x = a(*shape)
    x[RNG.random(shape) < 0.3] = np.nan
    return x


X, M, V, W = a(3, 4), a(4, 4), a(7), a(5)
H = holes(4, 5)
H[2] = np.nan
I = RNG.integers(0, 9, (3, 5)).astype("int32")  # noqa: E741
SORTED = np.sort(a(6))
POINTS = RNG.random((40, 2)).astype("float32")

# name of the function, arguments (arrays or not), keywords; compared with numpy's function of that name
CASES = [
    *[(n, (H,), {"axis": axis}) for n in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin",
                                          "nanmedian") for axis in (None, 0, 1)],
    ("nanstd", (H,), {"axis": 0, "ddof": 1}), ("nanvar", (H[:2],), {"axis": 1, "keepdims": True}),
    ("nanargmax", (H[:2],), {"axis": 1}), ("nanargmin", (H[:2],), {"axis": 0}), ("nanargmin", (H,), {}),
    ("nancumsum", (H,), {"axis": 1}), ("nancumprod", (H,), {}), ("nansum", (I,), {"axis": 0}), ("nanmax", (I,), {}),
    ("nanquantile", (H, 0.3), {"axis": 1}), ("nanquantile", (H, [0.0, 0.25, 1.0]), {"axis": 0}),
    ("nanpercentile", (H, 40), {}), ("percentile", (X, 30), {"axis": 1}), ("percentile", (X, [10, 90]), {}),
    ("quantile", (X, [0.2, 0.5]), {"axis": 0, "keepdims": True}), ("ptp", (X,), {"axis": 1}),
    ("isin", (I, np.array([1, 4, 8], "int32")), {}), ("isin", (I, np.array([1, 4], "int32")), {"invert": True}),
    ("isin", (X, X[:1]), {}), ("union1d", (I[0], I[1]), {}), ("intersect1d", (I, I[1]), {}),
    ("setdiff1d", (I, I[1]), {}), ("setxor1d", (np.unique(I[0]), np.unique(I[1])), {}),
    ("trim_zeros", (np.array([0, 0, 1, 0, 2, 0], "float32"),), {}),
    *[("convolve", (V, W, m), {}) for m in ("full", "same", "valid")], ("convolve", (W, V, "same"), {}),
    *[("correlate", (V, W, m), {}) for m in ("full", "same", "valid")], ("correlate", (W, V, "full"), {}),
    ("correlate", (V, W[:4], "same"), {}), ("convolve", (I[0], I[1]), {}),
    ("interp", (a(9) * 2, SORTED, a(6)), {}), ("interp", (a(9) * 2, SORTED, a(6)), {"left": -7.0, "right": 9.0}),
    ("interp", (a(9) * 4, a(6), a(6)), {"period": 2.0}), ("interp", (0.5, SORTED, a(6)), {}),
    ("gradient", (V,), {}), ("gradient", (V, 0.5), {"edge_order": 2}), ("gradient", (X, SORTED[:4]), {"axis": 1}),
    ("gradient", (X, 2.0), {}), ("unwrap", (np.cumsum(a(20)).astype("float32") * 3,), {}),
    ("unwrap", (np.array([1, 2, 3, 0.4, 1], "float32"),), {"period": 3.0}),
    ("hanning", (8,), {}), ("hamming", (8,), {}), ("blackman", (9,), {}), ("bartlett", (7,), {}),
    ("kaiser", (8, 5.0), {}),
    ("hanning", (1,), {}), ("bartlett", (1,), {}), ("blackman", (0,), {}),
    ("polyval", (W, V), {}), ("polyadd", (W, V), {}), ("polysub", (W, V), {}), ("polymul", (W, V), {}),
    ("polyder", (W,), {}), ("polyder", (W, 2), {}), ("polyint", (W,), {}), ("polyint", (W, 2), {"k": [1.0, 2.0]}),
    ("poly", (W,), {}), ("polyfit", (SORTED, a(6), 2), {}), ("polyfit", (SORTED, a(6, 2), 3), {}),
    ("polyfit", (SORTED, a(6), 2), {"w": np.arange(1, 7).astype("float32")}),
    ("tril_indices", (4,), {}), ("triu_indices", (3, 1, 5), {}), ("tril_indices", (2, -3), {}),
    ("tril_indices_from", (X,), {"k": -1}), ("triu_indices_from", (M,), {}), ("diag_indices_from", (M,), {}),
    ("diag_indices", (3, 3), {}),
    ("indices", ((2, 3),), {}), ("indices", ((2, 3),), {"sparse": True}),
    ("ix_", (np.array([0, 2]), np.array([True, False, True, True])), {}),
    ("unravel_index", (np.array([0, 5, 11]), (3, 4)), {}),
    ("ravel_multi_index", ((np.array([0, 2, 1]), np.array([3, 0, 2])), (3, 4)), {}),
    ("flatnonzero", (I - 3,), {}), ("extract", (I > 3, I), {}), ("diagflat", (X[0], 1), {}), ("diagflat", (X, -1), {}),
    ("choose", (np.array([0, 1, 1], "int32"), [X[:, 0], X[:, 1]]), {}), ("delete", (X, 1), {"axis": 1}),
    ("delete", (X, [0, -1]), {"axis": 0}), ("delete", (X, slice(0, 3, 2)), {}), ("insert", (V, 2, 9.0), {}),
    ("insert", (X, 1, X[:, 0]), {"axis": 1}), ("insert", (X, [0, 2], 5.0), {"axis": 0}),
    ("insert", (V, [1, 3], W[:2]), {}),
    ("insert", (V, 3, W), {}), ("hsplit", (M, 2), {}), ("vsplit", (M, 2), {}), ("dsplit", (a(2, 3, 4), 2), {}),
    ("rollaxis", (a(2, 3, 4), 2), {}), ("rollaxis", (a(2, 3, 4), 0, 2), {}), ("ediff1d", (X,), {}),
    ("ediff1d", (V,), {"to_begin": 1.0, "to_end": W[:2]}), ("cov", (X,), {}), ("cov", (X, X[::-1].copy()), {}),
    ("cov", (X,), {"rowvar": False, "ddof": 0}), ("cov", (V,), {}), ("corrcoef", (X,), {}),
    ("cov", (X,), {"aweights": np.array([1, 2, 3, 4.0])}), ("cov", (X,), {"fweights": np.array([1, 2, 3, 1])}),
    ("histogram2d", (POINTS[:, 0], POINTS[:, 1]), {"bins": 4}), ("histogramdd", (POINTS,), {"bins": (3, 2)}),
    ("histogram2d", (POINTS[:, 0], POINTS[:, 1]), {"bins": 3, "range": [[0.1, 0.8], [0, 1]], "density": True}),
    ("histogram_bin_edges", (V, 5), {}), ("frexp", (np.concatenate([V, [0, np.inf, -np.inf, 1e-42]]).astype("f4"),),
                                          {}),
    ("frexp", (V.astype("float64") * 1e-310,), {}), ("ldexp", (V, np.array([-3, 0, 5, 100, -140, 7, 1])), {}),
    ("modf", (np.array([1.5, -2.25, np.inf, -np.inf, 3], "float32"),), {}), ("nextafter", (V, V[::-1].copy()), {}),
    ("nextafter", (np.array([0, 0, 1, np.nan], "float64"), np.array([1, -1, 1, 1], "float64")), {}),
    ("spacing", (np.abs(V),), {}), ("spacing", (-np.abs(V),), {}),
    ("heaviside", (np.array([-1, 0, 2.0, np.nan]), 0.5), {}),
    ("logaddexp2", (V, V[::-1].copy()), {}), ("float_power", (np.abs(V), 0.3), {}), ("isneginf", (H,), {}),
    ("isposinf", (np.array([np.inf, -np.inf, 0]),), {}), ("isreal", (X,), {}), ("isscalar", (3.0,), {}),
    ("array_equiv", (X, X[None]), {}), ("array_equiv", (X, V), {}), ("packbits", (I > 4,), {}),
    ("packbits", (I,), {"axis": 1, "bitorder": "little"}), ("unpackbits", (I.astype("uint8"),), {"axis": 0}),
    ("unpackbits", (I.astype("uint8"),), {"count": 11, "bitorder": "little"}), ("ndim", (X,), {}), ("size", (X, 1), {}),
    ("shape", (X,), {}), ("conj", (X,), {}), ("around", (X, 1), {}),
    ("apply_over_axes", (None, X, [0, 1]), {}), ("block", ([[M, X.T], [X, a(3, 3)]],), {}), ("block", ([V, 2.0],), {}),
]


def tensors(x):
    if isinstance(x, np.ndarray):
        return nb.asarray(x)
    return type(x)([tensors(v) for v in x]) if type(x) in (list, tuple) else x


def compare(got, expected):
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for g, e in zip(got, expected):
            compare(g, e)
        return
    expected = np.asarray(expected)
    assert tuple(np.shape(got)) == expected.shape
    kind = np.asarray(got).dtype.kind
    assert kind == expected.dtype.kind or {kind, expected.dtype.kind} <= set("iu"), (kind, expected.dtype)
    np.testing.assert_allclose(np.asarray(got, "float64"), expected.astype("float64"), rtol=2e-4, atol=2e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{n}-{c[0]}" for n, c in enumerate(CASES)])
def test_as_numpy(number):
    name, args, kwargs = CASES[number]
    if name == "apply_over_axes":
        compare(nb.apply_over_axes(nb.sum, tensors(args[1]), args[2]), np.apply_over_axes(np.sum, args[1], args[2]))
        return
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*args, **kwargs)
    inside = {k: tensors(v) if k in ("w", "aweights", "fweights", "to_end") else v for k, v in kwargs.items()}
    compare(getattr(nb, name)(*tensors(args), **inside), expected)


def test_names_without_a_function_of_numpys():
    compare(nb.trapezoid(nb.asarray(V)), np.trapz(V))
    compare(nb.trapezoid(nb.asarray(X), nb.asarray(SORTED[:3]), axis=0), np.trapz(X, SORTED[:3], axis=0))
    compare(nb.vecdot(nb.asarray(X), nb.asarray(X), axis=0), (X * X).sum(0))
    compare(nb.matvec(nb.asarray(X), nb.asarray(X[0])), X @ X[0])
    compare(nb.vecmat(nb.asarray(X[:, 0]), nb.asarray(X)), X[:, 0] @ X)
    compare(nb.unstack(nb.asarray(X), 1), list(X.T))
    compare(nb.cumulative_sum(nb.asarray(X), axis=1, include_initial=True), np.pad(np.cumsum(X, 1), ((0, 0), (1, 0))))
    compare(nb.cumulative_prod(nb.asarray(V)), np.cumprod(V))
    compare(nb.bitwise_count(nb.asarray(I)), np.vectorize(lambda v: bin(v).count("1"))(I).astype("int32"))
    compare(nb.partition(nb.asarray(V), 3), np.sort(V))
    compare(nb.asarray(V)[nb.argpartition(nb.asarray(V), 3)], np.sort(V))
    compare(nb.put(nb.asarray(X), nb.asarray([0, 5]), [7.0]), np.array([7.0 if i in (0, 5) else v for i, v in enumerate(
        X.ravel())], "float32").reshape(X.shape))
    want = X.copy()
    np.place(want, X > 0, [1, 2, 3])
    compare(nb.place(nb.asarray(X), nb.asarray(X) > 0, [1.0, 2.0, 3.0]), want)
    want = M.copy()
    np.fill_diagonal(want, 3)
    compare(nb.fill_diagonal(nb.asarray(M), 3.0), want)
    compare(nb.mgrid[0:3, 1:2:3j], np.mgrid[0:3, 1:2:3j].astype("float32"))
    compare(nb.ogrid[0:3, 0:2], list(np.ogrid[0:3, 0:2]))
    compare(nb.r_[nb.asarray(V), 1.0, 2.0], np.r_[V, 1.0, 2.0])
    compare(nb.c_[nb.asarray(V), nb.asarray(V)], np.c_[V, V])
    assert nb.s_[1:3, ..., None] == np.s_[1:3, ..., None]
    compare(nb.mask_indices(3, nb.triu), np.mask_indices(3, np.triu))
    compare(nb.fromfunction(lambda i, j: i * 10 + j, (2, 3)),
            np.fromfunction(lambda i, j: i * 10 + j, (2, 3), dtype=int))
    compare(nb.apply_along_axis(nb.sum, 0, nb.asarray(X)), X.sum(0))
    compare(nb.apply_along_axis(lambda r: r[:2], 1, nb.asarray(X)), X[:, :2])
    x = nb.asarray(V)
    compare(nb.piecewise(x, [x < 0, x > 1], [lambda v: -v, 5.0, lambda v: v * 2]),
            np.piecewise(V, [V < 0, V > 1], [lambda v: -v, 5.0, lambda v: v * 2]))
    compare(nb.vectorize(lambda p, q: nb.where(p > q, p, q * 2))(x[:, None], x),
            np.where(V[:, None] > V, V[:, None], V * 2))
    q, r = nb.polydiv(nb.asarray(V), nb.asarray(W))
    compare(nb.polyadd(nb.polymul(q, nb.asarray(W)), r), V)
    compare(nb.bitwise_left_shift(nb.asarray(I), 2), I << 2)
    compare(nb.bitwise_right_shift(nb.asarray(I), 1), I >> 1)
    compare(nb.bitwise_invert(nb.asarray(I)), ~I)
    assert nb.e == np.e and nb.euler_gamma == np.euler_gamma
    assert nb.pi == np.pi and nb.newaxis is None and nb.isrealobj(x) and np.isnan(nb.nan) and nb.inf == np.inf
    assert nb.real(x) is x and nb.dtype("f32") is nb.float32 and nb.copy(x) is not x


def test_sets_of_a_given_size():
    x, y = nb.asarray(I[0]), nb.asarray(I[1])
    for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
        f = getattr(nb, name)
        small = f(x, y)
        for run in (lambda f=f: f(x, y, size=12, fill_value=-1), lambda f=f: nb.jit(
                lambda p, q: f(p, q, size=12, fill_value=-1))(x, y)):
            assert run().tolist() == small.tolist() + [-1] * (12 - small.shape[0])
    with pytest.raises(nb.Error, match="needs a size"):
        nb.jit(nb.union1d)(x, y)
    values, places, inverse, counts = nb.unique_all(nb.asarray(I))
    want = np.unique(I, return_index=True, return_inverse=True, return_counts=True)
    compare([values, places, counts], [want[0], want[1].astype("int32"), want[3].astype("int32")])
    compare(nb.take(values, inverse), I)
    assert nb.unique_counts(nb.asarray([3, 1, 3]))[1].tolist() == [1, 2]
    assert nb.unique_values(nb.asarray([3, 1, 3])).tolist() == [1, 3]
    assert nb.unique_inverse(nb.asarray([3, 1, 3]))[1].tolist() == [1, 0, 1]


SMOOTH = [
    ("nansum", lambda x: nb.nansum(nb.where(x > 5, nb.nan, x) ** 2)), ("nanmean", lambda x: nb.nanmean(x ** 2)),
    ("nanvar", lambda x: nb.nanvar(x)), ("nanmax", lambda x: nb.nanmax(x)),
    ("nanquantile", lambda x: nb.nanquantile(x, 0.3)),
    ("percentile", lambda x: nb.percentile(x, 40)), ("convolve", lambda x: nb.sum(nb.convolve(x, x[:3]) ** 2)),
    ("correlate", lambda x: nb.sum(nb.correlate(x, x[1:4], "same") ** 2)),
    ("trapezoid", lambda x: nb.trapezoid(x ** 2)),
    ("interp", lambda x: nb.sum(nb.interp(nb.asarray([0.1, 0.7, 1.4]), nb.arange(7.0) / 3, x) ** 2)),
    ("interp_at", lambda x: nb.sum(nb.interp(x / 7 + 0.37, nb.arange(7.0) / 3, nb.sin(nb.arange(7.0))))),
    ("gradient", lambda x: nb.sum(nb.gradient(x) ** 2)), ("polyval", lambda x: nb.sum(nb.polyval(x, x) * 1e-2)),
    ("polyfit", lambda x: nb.sum(nb.polyfit(nb.arange(7.0) / 7, x, 2) ** 2)), ("poly", lambda x: nb.sum(nb.poly(x))),
    ("cov", lambda x: nb.sum(nb.cov(nb.stack([x, x ** 2])) ** 2)),
    ("logaddexp2", lambda x: nb.sum(nb.logaddexp2(x, x[::-1]))),
    ("corrcoef", lambda x: nb.corrcoef(nb.stack([x, nb.exp(x)]))[0, 1]),
    ("ldexp", lambda x: nb.sum(nb.ldexp(x, nb.asarray(3)))),
    ("insert", lambda x: nb.sum(nb.insert(x, 2, x[0]) ** 2)), ("delete", lambda x: nb.sum(nb.delete(x, 2) ** 2)),
    ("choose", lambda x: nb.sum(nb.choose(nb.asarray([0, 1, 0, 1, 0, 1, 0]), [x, x * 3]) ** 2)),
    ("block", lambda x: nb.sum(nb.block([x, x * 2]) ** 2)), ("vecdot", lambda x: nb.vecdot(x, x)),
    ("unwrap", lambda x: nb.sum(nb.unwrap(x * 2) ** 2)), ("ediff1d", lambda x: nb.sum(nb.ediff1d(x) ** 2)),
]


@pytest.mark.parametrize("name, f", SMOOTH, ids=[n for n, _ in SMOOTH])
def test_gradients(name, f):
    with nb.default_dtype("float64"):
        x = nb.asarray(V.astype("float64") + 0.3 * np.arange(7))
        g = np.asarray(nb.grad(f)(x))
        for i in range(7):
            step = np.zeros(7)
            step[i] = 1e-6
            want = (f(x + nb.asarray(step)).item() - f(x - nb.asarray(step)).item()) / 2e-6
            assert abs(g[i] - want) <= 1e-4 * max(1, abs(want)), (name, i, g[i], want)


def test_what_dtypes_hold():
    for name in ("float16", "float32", "float64"):
        ours, theirs = nb.finfo(name), np.finfo(name)
        assert ours.eps == theirs.eps and ours.max == theirs.max and ours.tiny == theirs.tiny
        assert ours.bits == theirs.bits
        assert ours.smallest_subnormal == theirs.smallest_subnormal and ours.nmant == theirs.nmant
    assert nb.finfo("bfloat16").eps == 2 ** -7
    for name in ("int8", "uint16", "int64", "uint64"):
        assert (nb.iinfo(name).min, nb.iinfo(name).max) == (np.iinfo(name).min, np.iinfo(name).max)
    with pytest.raises(TypeError, match="iinfo is for integers"):
        nb.finfo("int8")
    for x in ("int8", "uint8", "int32", "float16", "float64", "bool"):
        for y in ("int16", "int64", "float32", "float64", "uint8"):
            assert nb.can_cast(x, y) == np.can_cast(x, y), (x, y)
    assert nb.isdtype("int8", "integral") and nb.isdtype(nb.float32, ("bool", "real floating"))
    assert not nb.isdtype("uint8", "signed integer") and nb.isdtype("uint8", nb.uint8)


def test_dtypes_are_called():
    assert nb.float32(0).dtype == nb.float32 and nb.int8([1, 2]).tolist() == [1, 2] and nb.bool_(0.5).item() is True
    assert nb.float64(np.ones(2, "float32")).dtype == nb.float64 and nb.int32().item() == 0


def test_eval_shape_computes_nothing():
    def f(p, x, n):
        return {"y": x @ p["w"], "n": n, "i": nb.argmax(x, axis=-1)}

    out = nb.eval_shape(f, {"w": nb.spec((4, 5))}, nb.spec((3, 4)), "text")
    assert out["y"].shape == (3, 5) and out["y"].dtype == nb.float32 and out["n"] == "text"
    assert out["i"].dtype == nb.int64 and repr(out["y"]) == "spec((3, 5), float32)"
    assert nb.eval_shape(nb.zeros_like, nb.spec((2 ** 20, 2 ** 20))).shape == (2 ** 20, 2 ** 20)


def test_eig_is_refused_in_words():
    for f in (nb.linalg.eig, nb.linalg.eigvals):
        with pytest.raises(NotImplementedError,
                           match=r"eig of f32\[2,2\]: its eigenvalues may be complex.*linalg.eigh"):
            f(nb.ones((2, 2)))


def test_roots_are_refused_in_words():
    with pytest.raises(NotImplementedError,
                       match=r"roots of f32\[3\]: how many there are depends.*complex.*numpy.roots"):
        nb.roots([1.0, 0.0, 1.0])


@pytest.mark.parametrize("shape, split, axes", [((2, 3, 6), 2, None), ((4, 2, 2), 1, None), ((2, 6, 3), 2, (1,)),
                                                ((3, 2, 3, 2), 2, (0, 1))], ids=str)
def test_tensorsolve(shape, split, axes):
    a64 = RNG.standard_normal(shape)
    rest = [n for d, n in enumerate(shape) if axes is None or d not in axes][:split]
    b64 = RNG.standard_normal(rest)
    got = nb.linalg.tensorsolve(nb.asarray(a64), nb.asarray(b64), axes=axes)
    np.testing.assert_allclose(got.numpy(), np.linalg.tensorsolve(a64, b64, axes), rtol=1e-8)
    compiled = nb.jit(lambda p, q: nb.linalg.tensorsolve(p, q, axes=axes))(a64, b64)
    np.testing.assert_allclose(compiled.numpy(), got.numpy(), rtol=1e-8)


@pytest.mark.parametrize("shape, ind", [((2, 3, 6), 2), ((6, 2, 3), 1), ((2, 2, 2, 2), 2)], ids=str)
def test_tensorinv(shape, ind):
    a64 = RNG.standard_normal(shape)
    got = nb.linalg.tensorinv(nb.asarray(a64), ind)
    np.testing.assert_allclose(got.numpy(), np.linalg.tensorinv(a64, ind), rtol=1e-8)


def test_tensors_as_matrices_have_gradients_and_errors():
    a64, b64 = RNG.standard_normal((2, 2, 4)), nb.asarray(RNG.standard_normal((2, 2)))
    for f in (lambda m: nb.sum(nb.linalg.tensorsolve(m, b64) ** 2), lambda m: nb.sum(nb.linalg.tensorinv(m) ** 2),
              lambda m: nb.sum(nb.linalg.tensorsolve(m, b64 * nb.sum(m)))):
        g = np.asarray(nb.grad(f)(nb.asarray(a64)))
        for at in np.ndindex(*a64.shape):
            step = np.zeros(a64.shape)
            step[at] = 1e-6
            want = (f(nb.asarray(a64 + step)).item() - f(nb.asarray(a64 - step)).item()) / 2e-6
            assert abs(g[at] - want) <= 1e-4 * max(1, abs(want)), (at, g[at], want)
    with pytest.raises(nb.Error, match=r"tensorinv: f32\[2,3\] is no square matrix .* 2 by 3"):
        nb.linalg.tensorinv(nb.ones((2, 3)), 1)
    with pytest.raises(nb.Error, match="ind is 3, .* 1 to 1"):
        nb.linalg.tensorinv(nb.ones((2, 2)), 3)
    with pytest.raises(nb.Error, match=r"first dimensions of f32\[4,2,2\] are not those of f32\[2\]|no square matrix"):
        nb.linalg.tensorsolve(nb.ones((4, 2, 2)), nb.ones(2))
    with pytest.raises(nb.Error, match=r"first dimensions of f32\[4,2,2\] are not those of f32\[3\]"):
        nb.linalg.tensorsolve(nb.ones((4, 2, 2)), nb.ones(3))
    with pytest.raises(nb.Error, match=r"tensorsolve: axes=\(0, -3\) names a dimension of f32\[2,4,2\] twice"):
        nb.linalg.tensorsolve(nb.ones((2, 4, 2)), nb.ones((2, 2)), axes=(0, -3))
    with pytest.raises(nb.Error, match="tensorsolve: axis 3 of a tensor with 3 dimensions"):
        nb.linalg.tensorsolve(nb.ones((2, 4, 2)), nb.ones((2, 2)), axes=(3,))


@pytest.mark.parametrize("optimize", ["greedy", "optimal", True, False], ids=str)
def test_einsum_path(optimize):
    arrays = [np.ones(s, "float32") for s in ((2, 30), (30, 4), (4, 50), (50, 2))]
    want = np.einsum_path("ij,jk,kl,lm->im", *arrays, optimize=optimize)
    got = nb.einsum_path("ij,jk,kl,lm->im", *[nb.asarray(v) for v in arrays], optimize=optimize)
    assert got == want and got[0][0] == "einsum_path"
    # Shapes are enough: it says so of traced operands.
    seen = []
    nb.jit(lambda *xs: seen.append(nb.einsum_path("ij,jk,kl,lm->im", *xs, optimize=optimize)[0]) or xs[0])(*arrays)
    assert seen == [want[0]]


@pytest.mark.parametrize("path", [["einsum_path"], ["einsum_path", (0, 5)], ["einsum_path", 3], [(0, 1)], "fast"],
                         ids=str)
def test_einsum_path_refuses_other_paths(path):
    with pytest.raises(ValueError, match=rf"(?s)optimize={re.escape(repr(path))} is no path for 3 operands"):
        nb.einsum_path("ij,jk,kl->il", nb.ones((2, 3)), nb.ones((3, 4)), nb.ones((4, 5)), optimize=path)


def test_einsum_path_wants_sizes():
    f = nb.jit(lambda x: nb.einsum_path("ij,jk", x, x) and x, dynamic_dims={0: {0: ("n", 1, 8), 1: ("n", 1, 8)}})
    with pytest.raises(nb.Error, match="einsum_path: the size n is known only at run time"):
        f(nb.ones((3, 3)))


def test_trees_by_short_names():
    tree = {"a": nb.ones(2), "b": [1, (2, None)]}
    assert nb.tree.map(lambda x: 0, tree) == {"a": 0, "b": [0, (0, None)]} and len(nb.tree.leaves(tree)) == 3
    assert [p for p, _ in nb.tree.leaves_with_path(tree)] == ["a", "b.0", "b.1.0"]
    assert nb.tree.map_with_path(lambda p, x: p, tree)["b"] == ["b.0", ("b.1.0", None)]
    assert nb.tree.reduce(lambda p, q: p + q, [1, 2, [3]]) == 6 and nb.tree.reduce(lambda p, q: p + q, [], 5) == 5
    assert nb.tree.all([1, [2]]) and not nb.tree.all([1, [0]])
    outer, inner = nb.tree.structure([0, 0]), nb.tree.structure({"x": 0})
    assert nb.tree.transpose(outer, inner, [{"x": 1}, {"x": 2}]) == {"x": [1, 2]}
    leaves, form = nb.tree.flatten(tree)
    assert nb.tree.unflatten(form, leaves)["b"] == tree["b"]


def test_nothing_of_these_modules_is_left_out():
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    tested = {c[0] for c in CASES} | set(re.findall(r"nb\.(\w+)", text))
    for part in ("functional", "nans", "numbers", "places", "polynomial", "sets", "signal", "statistics"):
        same = {id(getattr(nb, name)) for name in tested if hasattr(nb, name)}
        names = getattr(nb.ops, part).__all__
        assert not [name for name in names if name not in tested and id(getattr(nb, name)) not in same], part


def check(got, want, **options):
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), np.asarray(want).astype(np.float64), **options)


# ---- Special sizes and values


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_round_to_decimals(dtype):
    values = np.array([0, -0.0, 0.5, 1.5, 2.675, -12.345, 123.456, 1999000, 1e15, 3e38, -3e38, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        x = values.astype(dtype)
        exact = x.astype(np.longdouble)
    for decimals in (-400, -50, -39, -38, -15, -3, -1, 0, 1, 2, 5, 15, 38, 39, 50, 400):
        got = np.asarray(nb.round(x, decimals))
        assert got.dtype == x.dtype
        scale = np.longdouble(10) ** decimals
        with np.errstate(all="ignore"):
            want = np.where(np.isfinite(exact), np.rint(exact * scale) / scale, exact).astype(dtype)
        # A tie in decimals is none in the binary number: one multiple or the other.
        step = 0 if decimals < 0 else float(1 / scale)
        np.testing.assert_allclose(got, want, rtol=2 * np.finfo(dtype).eps, atol=step)
        if decimals < 0 and -decimals < 16:
            np.testing.assert_array_equal(got, want)


def test_numbers_beyond_64_bits():
    x, huge = nb.ones(3), 2**70
    assert nb.round(x, huge).tolist() == [1.0] * 3 and nb.round(x, -huge).tolist() == [0.0] * 3
    assert nb.round(nb.asarray([5]), -huge).tolist() == [0]
    for f in (lambda: nb.zeros((huge,)), lambda: nb.full(huge, 1.0), lambda: nb.reshape(x, huge),
              lambda: nb.iota((huge,)), lambda: nb.random.normal(nb.random.key(0), (huge,))):
        with pytest.raises(ValueError, match=f"the size {huge} does not fit into 64 bits"):
            f()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_round_of_integers(dtype):
    info = np.iinfo(dtype)
    values = sorted({v for n in (0, 1, 4, 5, 6, 14, 15, 16, 25, 35, 45, 149, 150, 250, 350, 1432116610123450000,
                                 info.max - 1, info.max) for v in (n, -n) if info.min <= v <= info.max})
    for decimals in (-1, -2, -3, -6, -9, -18, -30, 0, 2):
        exact = [round(v, decimals) for v in values]
        got = nb.round(np.array(values, dtype), decimals).tolist()
        fits = [info.min <= w <= info.max and 10**-decimals <= info.max for w in exact]
        assert [g for g, f in zip(got, fits) if f] == [w for w, f in zip(exact, fits) if f]
        assert 10**-decimals <= info.max or not any(got)


def test_expm_of_batches_with_different_norms():
    turn = np.array([[0, -1], [1, 0]], np.float32)
    large = [-n * np.eye(2, dtype=np.float32) for n in (1e2, 2e5)]
    batch = np.stack([turn * scale for scale in (0, 1e-3, 1, 30)] + large)
    want = np.stack([np.array([[np.cos(s), -np.sin(s)], [np.sin(s), np.cos(s)]]) for s in (0, 1e-3, 1, 30)]
                    + [np.zeros((2, 2))] * 2)
    for f in (nb.linalg.expm, nb.vmap(nb.linalg.expm),
              lambda x: nb.linalg.expm(x.reshape(2, 3, 2, 2)).reshape(6, 2, 2)):
        np.testing.assert_allclose(np.asarray(f(nb.asarray(batch))), want, atol=2e-5)
    np.testing.assert_allclose(np.asarray(nb.linalg.expm(turn)), want[2], atol=1e-6)
    slope = nb.grad(lambda x: nb.sum(nb.linalg.expm(x)[2]))(nb.asarray(batch))
    assert np.asarray(slope)[2].any() and not np.asarray(slope)[[0, 1, 3, 4, 5]].any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_quantiles_of_infinite_and_huge_values(dtype):
    top = float(np.finfo(dtype).max)
    values = (-np.inf, -top, -1.0, 0.0, 1.0, top, np.inf)
    for n, q in itertools.product((1, 2, 3), (0, 0.25, 0.5, 0.75, 1)):
        rows = np.array(list(itertools.combinations_with_replacement(values, n)), dtype)
        place, order = q * (n - 1), np.sort(rows, 1).T.astype(np.longdouble)
        low, part = int(place), place - int(place)
        with np.errstate(all="ignore"):
            want = order[low] * (1 - part) + order[low + 1] * part if part else order[low]
            want = want.astype(dtype)
        for f in (nb.quantile, nb.nanquantile):
            np.testing.assert_allclose(np.asarray(f(rows, q, axis=1)), want, rtol=2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_labels_of_every_integer_dtype(dtype):
    info = np.iinfo(dtype)
    labels = np.array([-1, -2, 3, 3, 127, info.max, info.min, 5] if info.min else [3, 3, 127, info.max, 250, 5], dtype)
    weights = np.arange(1, len(labels) + 1).astype(np.float32)
    for count in (1, 4, 200, 70000):
        inside = (labels >= 0) & (labels.astype(np.float64) < count)
        kept = labels[inside].astype(np.int64)
        check(nb.bincount(labels, length=count), np.bincount(kept, minlength=count))
        sums = np.bincount(kept, weights[inside], minlength=count)
        check(nb.bincount(labels, weights=weights, length=count), sums)
        check(nb.segment_sum(weights, labels, count), sums)
        check(nb.jit(lambda x, i: nb.segment_sum(x, i, count))(weights, labels), sums)
    for half, total in (("float16", 3000.0), ("bfloat16", 3008.0)):
        assert nb.segment_sum(nb.ones(3000, half), np.zeros(3000, dtype), 2).tolist() == [total, 0.0]
    assert nb.bincount(np.zeros(300, dtype), weights=np.ones(300, np.int8), length=1).tolist() == [300]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_places_of_every_integer_dtype(dtype):
    places = np.array([99, 3, 127], dtype)
    for shape in ((20, 300), (300, 20), (2, 2, 40)):
        for got, want in zip(nb.unravel_index(places, shape), np.unravel_index(places.astype(np.int64), shape)):
            check(got, want)
    for mode, f in itertools.product(("clip", "wrap"), (lambda g: g, nb.jit)):
        for shape in ((200, 300), (100, 300)):
            got = f(lambda p: nb.ravel_multi_index((p, p), shape, mode))(places)
            check(got, np.ravel_multi_index((places.astype(np.int64),) * 2, shape, mode))
            assert got.dtype.is_integer()
        choices = [np.full(3, i, np.int32) for i in range(300)]
        check(f(lambda p: nb.choose(p, choices, mode))(places), places)
    for f in (nb.one_hot, nb.nn.functional.one_hot, nb.jit(nb.one_hot, static_argnums=1)):
        check(f(places, 400), np.eye(400)[places.astype(np.int64)])
    check(nb.take(nb.arange(300.0), places), places)
    check(nb.nn.functional.embedding(places, np.arange(300.0, dtype=np.float32)[:, None]), places[:, None])


def test_places_of_large_arrays():
    last = nb.asarray([-1, 2**31 - 1])
    assert [p.tolist() for p in nb.unravel_index(last, (2**16, 2**16))] == [[65535, 32767], [65535, 65535]]
    assert nb.ravel_multi_index([nb.asarray([65535])] * 2, (2**16, 2**16)).tolist() == [2**32 - 1]
    assert nb.unravel_index(nb.asarray([1], "int8"), (2, 2))[0].dtype == nb.int32


def test_one_hot_of_halves_and_bools():
    assert nb.one_hot(nb.asarray([2048.0], "float16"), 4096).sum().item() == 1
    assert nb.one_hot(nb.asarray([True, False]), 3).tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("f", [nb.quantile, nb.percentile, nb.nanquantile, nb.nanpercentile])
def test_one_place_of_every_kind(f):
    x, want = X.copy(), f(X, 0.5).item()
    for place in (nb.asarray(0.5), np.asarray(0.5), np.float32(0.5), np.float64(0.5)):
        got = f(x, place)
        assert got.shape == () and got.item() == want
    for places in ([0.5, 1], nb.asarray([0.5, 1.0]), np.array([0.5, 1.0])):
        check(f(x, places), [f(x, 0.5).item(), f(x, 1).item()])


def test_linear_algebra_of_matrices_without_elements():
    failed = []
    for name in sorted(set(nb.linalg.__all__) - {"tensorsolve"}):  # of equal shapes it is no matrix
        f, g = getattr(nb.linalg, name), getattr(np.linalg, name, None)
        for shape in ((0, 0), (2, 0, 0), (0, 2, 2)):
            x = np.zeros(shape, np.float32)
            for args in ((x,), (x, x)) if g else ((x,),) if name == "expm" else ():
                try:
                    want = g(*args) if g else x
                except Exception:  # noqa: BLE001 - so may ours
                    continue
                try:
                    got = f(*args)
                    if not isinstance(want, tuple) and name != "matrix_rank":
                        check(got, want)
                except (TypeError, NotImplementedError):
                    continue
                except Exception as e:  # noqa: BLE001 - reported with its name
                    failed.append(f"{name} of {shape}: {str(e).splitlines()[0][:90]}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_convolutions_of_integers_wrap(dtype):
    info = np.iinfo(dtype)
    x, y = np.array([info.max, 2**6 + 1, info.min, 5], dtype), np.array([info.max, 7, 1], dtype)
    for name, mode in itertools.product(("convolve", "correlate"), ("full", "same", "valid")):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(x, y, mode)
        for f in (getattr(nb, name), nb.jit(getattr(nb, name), static_argnums=2)):
            assert f(x, y, mode).tolist() == want.tolist()


def test_counts_beyond_int32():
    assert nb.count_nonzero(nb.ones(3)).dtype == nb.int32
    for axis, dtype in ((0, nb.int64), (1, nb.int32), (None, nb.int64)):
        count = nb.eval_shape(lambda x: nb.count_nonzero(nb.broadcast_to(x, (2**31, 3)), axis), nb.asarray(True))
        assert count.dtype == dtype


def test_repeated_nan_is_one_element():
    x = np.array([np.nan, 1, np.nan, 2, np.nan, 1], np.float32)
    check(nb.unique(x), np.unique(x))
    check(nb.union1d(x, x[:2]), np.union1d(x, x[:2]))
    values, counts = nb.unique_counts(x)
    assert values.shape == (3,) and counts.tolist() == [2, 1, 3]


# Functions that differ from NumPy's function of the same name, in their results (nonzero) or their arguments.
NOT_AS_NUMPY = {"nonzero", "argwhere", "empty", "empty_like", "choose", "einsum_path", "meshgrid", "set_printoptions",
                "cumsum", "cumprod", "outer", "resize", "squeeze", "tril", "triu", "trim_zeros", "vander", "cov",
                "roots", "polyadd", "polysub", "polymul", "take", "quantile", "percentile", "nanquantile",
                "nanpercentile"}


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_functions_of_nothing(shape):
    x, failed = np.zeros(shape, np.float32), []
    for name in sorted((set(dir(nb)) & set(dir(np))) - NOT_AS_NUMPY):
        f, g = getattr(nb, name), getattr(np, name)
        if not callable(f) or isinstance(f, type) or isinstance(f, nb.DType) or isinstance(g, type):
            continue
        for args in ((x,), (x, x), (x.astype(np.int32),), (x.astype(np.int32),) * 2, (x.astype(bool),)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    want = g(*args)
            except Exception:  # noqa: BLE001 - so may ours
                continue
            several = isinstance(want, (tuple, list))
            if not all(isinstance(w, (np.ndarray, np.generic, bool)) for w in (want if several else [want])):
                continue
            try:
                got = f(*args)
                for p, q in zip(got, want) if several else [(got, want)]:
                    check(nb.asarray(p), q)
            except TypeError:  # it takes other arguments
                continue
            except Exception as e:  # noqa: BLE001 - told with its name
                first = str(e).strip().splitlines()[0][:90]
                failed.append(f"{name}{[str(a.dtype) for a in args]}: {type(e).__name__}: {first}")
    assert not failed, "\n".join(failed)
    for f in (nb.quantile, nb.nanquantile, nb.percentile):
        assert f(nb.ones((3, 2)), [], axis=0).shape == (0, 2) and np.isnan(f(x, 0.5).item())
    if len(shape) == 2:
        assert nb.linalg.matrix_rank(x).item() == 0
    assert nb.nonzero(x).shape == (0, len(shape)) and nb.unique_all(x)[3].shape == (0,)
    assert nb.nonzero(x, 2).tolist() == [[-1] * len(shape)] * 2 and nb.unique(x, 2, 7).tolist() == [7.0, 7.0]
    assert nb.segment_sum(x, np.zeros(shape[0], np.int32), 2).shape == (2, *shape[1:])
    for axis in range(len(shape)):
        places = x.astype(np.int32)
        assert nb.take_along_axis(x, places, axis).shape == nb.put_along_axis(x, places, x, axis).shape == shape
        check(nb.trapezoid(x, axis=axis), np.trapz(x, axis=axis))
    assert nb.union1d(x, np.array([2.0, 1.0], np.float32)).tolist() == [1.0, 2.0]
