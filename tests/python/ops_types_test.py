"""Promotion: the table of JAX with 64-bit types (jax.numpy.promote_types), and numbers, which are weak."""

import numpy as np
import pytest

import nabla as nb

NAMES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 bfloat16 float16 float32 float64".split()
SHORT = {name[0] + name.lstrip("abcdefghijklmnopqrstuvwxyz"): name for name in NAMES if name != "bfloat16"}
SHORT |= {"b": "bool", "bf": "bfloat16"}
# A row per dtype, in the order of NAMES. -: uint64 beside signed integers becomes the default floating dtype.
TABLE = """
b   u8  u16 u32 u64 i8  i16 i32 i64 bf  f16 f32 f64
u8  u8  u16 u32 u64 i16 i16 i32 i64 bf  f16 f32 f64
u16 u16 u16 u32 u64 i32 i32 i32 i64 bf  f16 f32 f64
u32 u32 u32 u32 u64 i64 i64 i64 i64 bf  f16 f32 f64
u64 u64 u64 u64 u64 -   -   -   -   bf  f16 f32 f64
i8  i16 i32 i64 -   i8  i16 i32 i64 bf  f16 f32 f64
i16 i16 i32 i64 -   i16 i16 i32 i64 bf  f16 f32 f64
i32 i32 i32 i64 -   i32 i32 i32 i64 bf  f16 f32 f64
i64 i64 i64 i64 -   i64 i64 i64 i64 bf  f16 f32 f64
bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  f32 f32 f64
f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f16 f32 f64
f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64
f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64
""".split()


@pytest.mark.parametrize("i", range(13), ids=NAMES)
def test_two_dtypes(i):
    for j, other in enumerate(NAMES):
        want = TABLE[13 * i + j]
        want = nb.float32 if want == "-" else nb.dtype_of(SHORT[want])
        assert nb.promote_types(NAMES[i], other) == want, (NAMES[i], other)
        x, y = nb.ones(2, NAMES[i]), nb.ones(2, other)
        assert (x * y).dtype == want and nb.where(nb.asarray(True), x, y).dtype == want
        assert nb.concatenate([x, y]).dtype == want and nb.maximum(x, y).dtype == want
        assert (x == y).dtype == nb.bool_ and (x * y).tolist() == [1, 1]


@pytest.mark.parametrize("name", NAMES)
def test_numbers(name):
    x = nb.ones(2, name)
    dtype = x.dtype
    assert (x + True).dtype == dtype and (x * 2).dtype == (nb.int32 if name == "bool" else dtype)
    assert (x * 2.5).dtype == (dtype if dtype.is_float() else nb.float32)
    assert (x / 2).dtype == (dtype if dtype.is_float() else nb.float32)
    assert (x > 0.5).tolist() == [True, True] and nb.maximum(x, 0).dtype == (x * 2).dtype
    assert nb.exp(x).dtype == (dtype if dtype.is_float() else nb.float32)
    assert nb.sum(x).dtype == {"bool": nb.int32, "int8": nb.int32, "int16": nb.int32, "uint8": nb.uint32,
                               "uint16": nb.uint32}.get(name, dtype)
    assert nb.cumsum(x).tolist() == [1, 2] and nb.mean(x).dtype == (dtype if dtype.is_float() else nb.float32)
    assert x.astype("float64").dtype == nb.float64 and x.astype(int).dtype == nb.int32


def test_defaults_of_values():
    assert nb.asarray(1).dtype == nb.int32 and nb.asarray(1.0).dtype == nb.float32
    assert nb.asarray(True).dtype == nb.bool_
    assert nb.asarray([1, 2.5]).dtype == nb.float32 and nb.asarray([True, 2]).dtype == nb.int32
    assert nb.arange(3).dtype == nb.int32 and nb.arange(3.0).dtype == nb.float32 and nb.zeros(2).dtype == nb.float32
    assert nb.argmax(nb.ones(3)).dtype == nb.int64 and nb.argsort(nb.ones(3)).dtype == nb.int32
    assert nb.full(2, 7).dtype == nb.int32 and nb.full_like(nb.ones(2), 7).dtype == nb.float32
    assert nb.result_type(nb.ones(1, "int8"), 1.5) == nb.float32 and nb.result_type(1, True) == nb.int32


def test_uint64_with_signed_is_the_default_dtype_of_the_moment():
    for dtype in (nb.float64, nb.float32, nb.float64):
        with nb.default_dtype(dtype):
            assert nb.promote_types("uint64", "int8") == nb.promote_types("int64", "uint64") == dtype


THIRD = np.float64(1) / 3
X64 = np.array([1.0, -2.0, 0.5])
TWO = {  # functions of a tensor and a number
    "mul": lambda x, k: x * k, "rsub": lambda x, k: k - x, "div": lambda x, k: x / k, "maximum": nb.maximum,
    "clip": lambda x, k: nb.clip(x, -k, k), "where": lambda x, k: nb.where(x > k, x, k),
    "power": lambda x, k: abs(x) ** k,
    "full": lambda x, k: x + nb.full((3,), k, "float64"), "at": lambda x, k: x.at[1].set(k),
    "astype": lambda x, k: x * nb.astype(k, "float64"), "stack": lambda x, k: nb.stack([x[0], x[1] * k]),
    "list": lambda x, k: nb.asarray([x[0], k, 1.0]), "chain": lambda x, k: x * (-(k - 2) / 3 + abs(1 - k) ** 2 % k),
    "function": lambda x, k: x * nb.sqrt(k)}
WAYS = {
    "jit": lambda f: nb.jit(f), "vmap": lambda f: lambda x, k: nb.vmap(f, in_axes=(None, None), axis_size=2)(x, k)[0],
    "cond": lambda f: lambda x, k: nb.cond(nb.asarray(True), f, lambda x, k: f(x, k) * 0, x, k),
    "switch": lambda f: lambda x, k: nb.switch(0, [f], x, k), "checkpoint": lambda f: nb.checkpoint(f),
    "nested": lambda f: nb.jit(lambda x, k: nb.cond(nb.asarray(True), nb.jit(f), f, x, k)),
    "value": lambda f: lambda x, k: nb.value_and_grad(
        lambda k, x: (nb.sum(f(x, k)), f(x, k)), has_aux=True)(k, x)[0][1],
    "vjp": lambda f: lambda x, k: nb.vjp(f, x, k)[0], "jvp": lambda f: lambda x, k: nb.jvp(f, (x, k), (x, k))[0],
    "no jit": lambda f: lambda x, k: _without_jit(f, x, k)}


def _without_jit(f, x, k):
    with nb.disable_jit():
        return nb.jit(f)(x, k)


@pytest.mark.parametrize("name", TWO)
def test_doubles_stay_doubles_beside_float64(name):
    f, x, k = TWO[name], nb.asarray(X64), float(THIRD)
    plain, exact = f(x, k), f(x, THIRD)
    assert plain.dtype == nb.float64
    for way, transformed in WAYS.items():
        got = transformed(f)(x, k)
        assert got.dtype == nb.float64, way
        np.testing.assert_allclose(np.asarray(got), np.asarray(plain), rtol=1e-15, err_msg=way)
        got = transformed(f)(x, THIRD)
        np.testing.assert_allclose(np.asarray(got), np.asarray(exact), rtol=1e-15, err_msg=way)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8", "int32"])
def test_numbers_are_as_weak_where_they_are_traced(dtype):
    x = nb.ones(3, dtype)
    for name in ("mul", "rsub", "div", "maximum", "where", "at", "chain", "function"):
        for way, transformed in WAYS.items():
            if way in ("value", "vjp", "jvp") and not x.dtype.is_float():
                continue
            got, plain = transformed(TWO[name])(x, 0.3), TWO[name](x, 0.3)
            assert got.dtype == plain.dtype, (name, way)


def test_traced_numbers_are_tensors_of_the_default_dtype():
    seen = []

    def f(k):
        seen.append((k.dtype, k.shape))
        return k

    for way in (nb.jit, nb.checkpoint, lambda f: lambda k: nb.cond(nb.asarray(True), f, lambda k: k, k)):
        assert way(f)(0.1).dtype == nb.float32
    assert seen == [(nb.float32, ())] * 3
    assert nb.grad(lambda k: k * k)(0.1).dtype == nb.float32
    assert nb.vjp(lambda k: k * k, 0.1)[1](1.0)[0].dtype == nb.float32
    assert nb.while_loop(lambda k: k < 3, lambda k: k + 1, 0.5).dtype == nb.float32
    assert nb.jit(lambda k: k < 0.1)(0.1).item() is False
    with nb.default_dtype("float64"):
        assert nb.jit(f)(0.1).item() == 0.1

    def written(x, k):
        k[...] = 2.0
        return x * k

    assert nb.jit(written)(X64, 0.1).tolist() == (X64 * 2).tolist()


def test_numpy_scalars_keep_their_dtype():
    for name in "bool_ int8 uint8 int16 uint32 int64 uint64 float16 float32 float64".split():
        scalar = getattr(np, name)(1)
        wanted = nb.dtype_of(scalar.dtype)
        for x in (nb.asarray(scalar), nb.asarray([scalar, scalar]), nb.asarray([[scalar], [scalar]]),
                  nb.full(2, scalar), nb.jit(lambda k: k)(scalar)):
            assert x.dtype == wanted, name
    assert nb.asarray(np.float64(1e300)).item() == 1e300 and nb.full(1, np.float64(1e300)).tolist() == [1e300]
    assert nb.asarray([np.float64(1e300), 1]).tolist() == [1e300, 1.0]
    assert nb.asarray([np.float16(1), 2.0]).dtype == nb.float16 and nb.asarray([np.int8(1), 300.5]).dtype == nb.float32
    assert nb.asarray([np.int64(2**40), 1]).tolist() == [2**40, 1]
    assert (nb.ones(2) * np.float64(0.1)).dtype == nb.float64 and (nb.ones(2) * np.float32(0.1)).dtype == nb.float32
    assert nb.result_type(np.float64(1), nb.ones(1)) == nb.float64


def test_ints_that_do_not_fit():
    for n in (2**31, -2**31 - 1, 2**63 - 1, 2**63, 2**64 - 2**31, 2**64 - 1, 2**64, -2**63, -2**64):
        for make in (nb.asarray, lambda n: nb.asarray([1, n]), lambda n: nb.full(2, n), lambda n: nb.arange(n, n + 1),
                     nb.jit(lambda n: n)):
            with pytest.raises(ValueError, match="does not fit into"):
                make(n)
    known = nb.jit(lambda n: n * 1)
    assert known(3).item() == 3 and known(4).item() == 4  # the second call is a known one
    with pytest.raises(ValueError, match="does not fit into int32"):
        known(2**40)
    assert nb.asarray(2**64 - 1, "uint64").item() == 2**64 - 1 and nb.asarray(-2**31).item() == -2**31
    for seed in (2**64, -2**63 - 1, 2**70):
        with pytest.raises(ValueError, match="does not fit into 64 bits"):
            nb.random.key(seed)
    assert nb.random.key(2**64 - 1).tolist() == nb.random.key(-1).tolist()
    for low, high in ((0, 300), (-200, 0)):
        with pytest.raises(OverflowError, match="does not fit into int8"):
            nb.random.randint(nb.random.key(0), (2,), low, high, "int8")


# Functions of a Python number k beside the float64 tensor d. k is not rounded to float32 on its way.
PLACES = nb.asarray([0, 1])
BESIDE = {
    "isin": lambda d, k: nb.isin(d, k), "union1d": lambda d, k: nb.union1d(d, k), "setxor1d": nb.setxor1d,
    "intersect1d": nb.intersect1d, "setdiff1d": nb.setdiff1d, "array_equal": lambda d, k: nb.array_equal(d[0], k),
    "array_equiv": lambda d, k: nb.array_equiv(d[:1], k), "isclose": lambda d, k: nb.isclose(d, k, 0.0, 0.0),
    "jvp": lambda d, k: nb.jvp(lambda v: v * d, (k,), (k,)), "jvp_tangent": lambda d, k: nb.jvp(nb.sin, (d[0],), (k,)),
    "vjp": lambda d, k: nb.vjp(nb.sin, d[0])[1](k), "linearize": lambda d, k: nb.linearize(lambda v: v * d, k)[1](k),
    "linear_transpose": lambda d, k: nb.linear_transpose(lambda v: v * 2, d[0])(k),
    "hvp": lambda d, k: nb.hvp(lambda v: nb.sum(v * v * d), (d[0],), (k,)), "jacfwd": lambda d, k: nb.jacfwd(
        lambda v: v * v * d)(k), "piecewise": lambda d, k: nb.piecewise(d, [d > 0.15], [k, k]),
    "piecewise_function": lambda d, k: nb.piecewise(d, [d > 0.15], [lambda x: k]),
    "select": lambda d, k: nb.select([d > 0.15, d > 0.05], [d, k], k), "choose": lambda d, k: nb.choose(PLACES, [d, k]),
    "put_along_axis": lambda d, k: nb.put_along_axis(d, PLACES, k, 0),
    "add_along_axis": lambda d, k: nb.add_along_axis(d, PLACES, k, 0), "put": lambda d, k: nb.put(d, PLACES, k),
    "subtract": lambda d, k: d.at[0].subtract(k), "divide": lambda d, k: d.at[0].divide(k),
    "hstack": lambda d, k: nb.hstack([k, d, k]), "vstack": lambda d, k: nb.vstack([d[:1], k]),
    "dstack": lambda d, k: nb.dstack([d[:1], k]), "append": nb.append, "r_": lambda d, k: nb.r_[k, d, 0:1, k],
    "block": lambda d, k: nb.block([[k, d], [d, k]]), "stack": lambda d, k: nb.stack([k, d[0]]),
    "linspace": lambda d, k: nb.linspace(d[0], k, 3), "logspace": lambda d, k: nb.logspace(k, d[0], 3),
    "geomspace": lambda d, k: nb.geomspace(d[0], k, 3), "arange": lambda d, k: nb.arange(d[0], k, d[1]),
    "polyadd": nb.polyadd, "polysub": lambda d, k: nb.polysub(k, d), "polymul": nb.polymul, "polydiv": nb.polydiv,
    "polyval": nb.polyval, "interp": lambda d, k: nb.interp(k, d, d * 3), "float_power": nb.float_power,
    "vectorize": lambda d, k: nb.vectorize(lambda x, y: x * y)(d, k), "pad": lambda d, k: nb.pad(d, 1, value=k),
    "masked_select": lambda d, k: nb.masked_select(d, d > 0.15, 4, k), "compress": lambda d, k: nb.compress(
        d > 0.15, d, size=4, fill_value=k), "unique": lambda d, k: nb.unique(d, 4, k),
    "trapezoid": lambda d, k: nb.trapezoid(d, dx=k),
    "fill_diagonal": lambda d, k: nb.fill_diagonal(nb.diag(d), k), "insert": lambda d, k: nb.insert(d, 1, k),
    "scan": lambda d, k: nb.scan(lambda c, v: (c + v, c), k, d), "cond": lambda d, k: nb.cond(
        True, lambda: k, lambda: d[0]), "switch": lambda d, k: nb.switch(1, [lambda: d[0], lambda: k]),
    "while_loop": lambda d, k: nb.while_loop(lambda c: c < 2, lambda c: c + d[0], k),
    "fori_loop": lambda d, k: nb.fori_loop(0, 3, lambda i, c: c * d[1], k),
    "scan_result": lambda d, k: nb.scan(lambda c, v: (k, c), d[0], d), "custom_vjp": lambda d, k: nb.grad(
        lambda v: _constant_slope(v, k))(d[0]),
}


def _constant_slope(x, k):
    @nb.custom_vjp
    def f(v):
        return v * 2

    f.defvjp(lambda v: (f(v), None), lambda residuals, ct: (k,))
    return f(x)


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("number", [0.1, 0.7])
def test_numbers_beside_float64_are_not_rounded(name, number):
    """No result is that of a number rounded to float32. `exact` has the number as a float64 tensor."""
    d = nb.asarray([0.1, 0.2], "float64")
    got, exact = [nb.tree.leaves(BESIDE[name](d, k)) for k in (number, nb.asarray(number, "float64"))]
    for a, b in zip(got, exact, strict=True):
        assert a.dtype == b.dtype and a.dtype != nb.float32
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_ranges_between_numpys_scalars_and_traced_ends():
    for low in (np.float64(0.1), nb.asarray(0.1, "float64")):
        for f in (nb.linspace, nb.logspace, nb.geomspace):
            np.testing.assert_allclose(np.asarray(f(low, 0.7, 3)), getattr(np, f.__name__)(0.1, 0.7, 3), rtol=1e-14)
    np.testing.assert_array_equal(np.asarray(nb.arange(np.float64(0.1), 0.7, 0.3)), np.arange(0.1, 0.7, 0.3))
    assert nb.linspace(0, 1, 3).dtype == nb.float32 and nb.linspace(np.float16(0), 1, 3).dtype == nb.float16
    traced = nb.jit(lambda v: nb.linspace(v, 0.7, 3))(nb.asarray(0.1, "float64"))
    np.testing.assert_array_equal(np.asarray(traced), np.linspace(0.1, 0.7, 3))


# Functions of a Python int n beside an int32 tensor x.
INTS = {
    "where": lambda x, n: nb.where(True, n, 0), "where_beside": lambda x, n: nb.where(x > 2, n, x),
    "select": lambda x, n: nb.select([x > 2], [3], n), "clip": lambda x, n: nb.clip(x, n, n), "full_like": nb.full_like,
    "full": lambda x, n: nb.full(2, n, "int32"), "pad": lambda x, n: nb.pad(x, 1, value=n),
    "set": lambda x, n: x.at[0].set(n), "add": lambda x, n: x.at[0].add(n), "min": lambda x, n: x.at[0].min(n),
    "subtract": lambda x, n: x.at[0].subtract(n), "multiply": lambda x, n: x.at[PLACES].multiply(n),
    "get": lambda x, n: x.at[PLACES].get("fill", n), "put": lambda x, n: nb.put(x, PLACES, [n, 1]),
    "place": lambda x, n: nb.place(x, x > 2, n), "insert": lambda x, n: nb.insert(x, 1, n), "append": nb.append,
    "put_along_axis": lambda x, n: nb.put_along_axis(x, PLACES, n, 0), "ediff1d": nb.ediff1d, "isin": nb.isin,
    "scatter": lambda x, n: nb.scatter(x, PLACES, n), "scatter_add": lambda x, n: nb.scatter_add(x, PLACES, n),
    "take": lambda x, n: nb.take(x, PLACES, mode="fill", fill_value=n), "choose": lambda x, n: nb.choose(x, [x, n]),
    "masked_select": lambda x, n: nb.masked_select(x, x > 2, 4, n), "extract": lambda x, n: nb.extract(x > 2, x, 4, n),
    "compress": lambda x, n: nb.compress(x > 2, x, size=4, fill_value=n), "unique": lambda x, n: nb.unique(x, 4, n),
    "union1d": lambda x, n: nb.union1d(x, x, 4, n), "nonzero": lambda x, n: nb.nonzero(x, 4, n),
    "r_": lambda x, n: nb.r_[x, n], "hstack": lambda x, n: nb.hstack([x, n]),
    "list": lambda x, n: nb.asarray([x[0], n]), "dtype": lambda x, n: nb.int32(n),
    "numbers": lambda x, n: nb.maximum(n, 1), "state": lambda x, n: nb.fori_loop(0, 3, lambda i, c: c, n),
}


@pytest.mark.parametrize("name", INTS)
def test_ints_that_do_not_fit_beside_int32(name):
    x = nb.asarray([1, 5])
    for n in (2**31, -2**31 - 1, 2**64 - 1, 2**70):
        with pytest.raises((OverflowError, ValueError), match="does not fit into"):
            INTS[name](x, n)


def test_large_ints_beside_other_dtypes():
    assert (nb.ones(1) + (2**64 - 1)).tolist() == [2.0**64] and nb.grad(lambda v: v * 2**70)(1.0).item() == 2.0**70
    x, n = nb.asarray([1, 5], "int64"), 2**60 + 1
    assert nb.masked_select(x, x > 2, 2, n).tolist() == nb.compress(x > 2, x, size=2, fill_value=n).tolist() == [5, n]
    assert nb.dynamic_slice(x, [2**64 - 1], [1]).tolist() == [5]
