"""logaddexp, hypot, floor_divide and mod at special values, and conversions at ties: by the interpreter (arrays of a
few elements), by the kernels of the package (larger ones), by jit and from a bundle, against NumPy in more bits."""

import nabla as nb
import numpy as np
import pytest

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
# smallest normal, smallest subnormal, largest, distance from 1
FORMAT = {"float16": (2.0**-14, 2.0**-24, 65504.0, 2.0**-10),
          "bfloat16": (2.0**-126, 2.0**-133, float.fromhex("0x1.fep127"), 2.0**-7),
          "float32": (2.0**-126, 2.0**-149, float.fromhex("0x1.fffffep127"), 2.0**-23),
          "float64": (2.0**-1022, 2.0**-1074, float.fromhex("0x1.fffffffffffffp1023"), 2.0**-52)}


def special(dtype):
    if dtype in INTS:
        info = np.iinfo(dtype)
        some = (info.min, info.min + 1, -7, -2, -1, 0, 1, 2, 3, 100, info.max - 1, info.max)
        return np.unique(np.array([v for v in some if v >= info.min], dtype))
    normal, tiny, largest, step = FORMAT[dtype]
    some = [0.0, tiny, 3 * tiny, normal - tiny, normal, 0.1, 1 - step / 2, 1.0, 1 + step, 3.0, 17.0, 90.0, largest / 2,
            largest, np.inf]
    return np.array([s * v for v in some for s in (1, -1)] + [np.nan])


def tensor(x, dtype):
    return nb.cast(nb.asarray(np.asarray(x, np.float64 if dtype in FLOATS else dtype)), dtype)


def numbers(t):
    """As the widest NumPy type: every value of ours is one of it."""
    return np.asarray(nb.cast(t, "float64")).astype(np.longdouble) if t.dtype.name in FLOATS else np.asarray(t)


def pairs(dtype):
    x, y = (a.ravel() for a in np.meshgrid(special(dtype), special(dtype), indexing="ij"))
    return tensor(x, dtype), tensor(y, dtype)


def every_way(f, args, folder):
    """What f gives: in pieces by the interpreter, at once by the kernels of the package, by jit and from a bundle."""
    def name(xs):
        return {f"x{i}": x for i, x in enumerate(xs)}

    count = args[0].shape[0]
    pieces = [f(*[a[i:i + 100] for a in args]) for i in range(0, count, 100)]
    repeats = 1 + 1000 // count
    yield "interpreter", nb.concatenate(pieces)
    yield "eager", f(*[nb.concatenate([a] * repeats) for a in args])[-count:]
    yield "jit", nb.jit(f)(*args)
    entry = (lambda x0, x1: f(x0, x1)) if len(args) == 2 else (lambda x0: f(x0))
    specs = {k: nb.spec(a.shape, a.dtype) for k, a in name(args).items()}
    bundle = nb.compile_bundle(nb.export({"f": entry}, args={"f": specs}), folder / "f.nbundle")
    yield "bundle", bundle.run("f", **name(args))["out"]


def check(f, args, want, folder, slack=0.0, tiny=0.0, signs=True):
    """want: exact numbers. slack: how many units in the last place, of 1, a result may be off."""
    for way, got in every_way(f, args, folder):
        got = numbers(got)
        with np.errstate(invalid="ignore"):
            good = (got == want) | (np.isnan(got) & np.isnan(want)) if got.dtype.kind == "f" else got == want
            if slack:
                good |= np.abs(got - want) <= slack * np.abs(want) + tiny
            if signs and got.dtype.kind == "f":
                good &= np.isnan(want) | (np.signbit(got) == np.signbit(want))
        if not good.all():
            at = np.flatnonzero(~good)
            rows = [f"{[str(numbers(a)[i]) for a in args]}: {got[i]} in place of {want[i]}" for i in at[:5]]
            raise AssertionError(f"{way}, {args[0].dtype.name}, {len(at)} of {len(want)}:\n" + "\n".join(rows))


def rounded(x, dtype):
    """Exact numbers as the dtype holds them: what is beyond half a step over the largest is infinite."""
    normal, tiny, largest, step = FORMAT[dtype]
    return np.where(np.abs(x) >= largest * (1 + np.longdouble(step) / 4), np.copysign(np.inf, x), x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["logaddexp", "hypot"])
def test_floats(name, dtype, tmp_path):
    args = pairs(dtype)
    with np.errstate(all="ignore"):
        want = rounded(getattr(np, name)(*[numbers(a) for a in args]), dtype)
    _, tiny, _, step = FORMAT[dtype]
    check(getattr(nb, name), args, want, tmp_path, slack=4 * step, tiny=4 * tiny if name == "hypot" else 4 * step,
          signs=name == "hypot")


@pytest.mark.parametrize("dtype", FLOATS)
def test_floor_division_of_floats(dtype, tmp_path):
    args = pairs(dtype)
    with np.errstate(all="ignore"):
        if dtype == "float64":
            x, y = (numbers(a).astype(np.float64) for a in args)
        else:
            x, y = (numbers(a) for a in args)
        quotient, rest = np.floor_divide(x, y), np.mod(x, y)
    step = FORMAT[dtype][3]
    for f, want in ((nb.floor_divide, quotient), (nb.mod, rest)):  # zeros may have either sign
        check(f, args, rounded(want.astype(np.longdouble), dtype), tmp_path, slack=4 * step, signs=False)


@pytest.mark.parametrize("dtype", INTS)
def test_floor_division_of_integers(dtype, tmp_path):
    args = pairs(dtype)
    bits = np.iinfo(dtype).bits

    def wrapped(v):
        v &= 2**bits - 1
        return v - 2**bits if dtype[0] == "i" and v >> (bits - 1) else v

    x, y = (np.asarray(a).tolist() for a in args)
    quotient = np.array([wrapped(a // b) if b else wrapped(-1) for a, b in zip(x, y)], dtype)
    rest = np.array([a % b if b else a for a, b in zip(x, y)], dtype)
    check(nb.floor_divide, args, quotient, tmp_path)
    check(nb.mod, args, rest, tmp_path)


# ---- Conversions


def near_ties(target, source):
    """Values of `source` at, above and below the middle of neighbours in `target`."""
    normal, tiny, largest, step = FORMAT[target]
    rng = np.random.RandomState(0)
    low = [np.longdouble(m * step + 1) * np.longdouble(2.0)**e
           for m, e in zip(rng.randint(0, round(1 / step), 300), rng.randint(-14, 16, 300))]
    if source in INTS:
        bits = np.iinfo(source).bits
        low += [np.longdouble(m * step + 1) * np.longdouble(2.0)**e
                for m, e in zip(rng.randint(0, round(1 / step), 300), rng.randint(8, bits, 300))]
    middles = [x + np.longdouble(2.0)**(int(np.floor(np.log2(x))) - 1) * step for x in low]
    middles += [largest * (1 + np.longdouble(step) / 4), tiny / 2, normal - tiny / 2, largest]
    if source in INTS:
        info = np.iinfo(source)
        whole = {int(m) + d for m in middles for d in (-1, 0, 1)} | {int(-m) + d for m in middles for d in (-1, 0, 1)}
        return np.array(sorted(v for v in whole if info.min <= v <= info.max), source)
    beside = [1 + np.longdouble(d) for d in (0, 1e-9, -1e-9, 2e-16, -2e-16)]
    x = np.array([s * m * b for m in middles for s in (1, -1) for b in beside])
    return np.unique(x.astype(source))


def once(x, target):
    """Exact numbers rounded to nearest even."""
    normal, tiny, largest, step = FORMAT[target]
    x = x.astype(np.longdouble)
    exponent = np.floor(np.log2(np.maximum(np.abs(x), np.longdouble(normal))))
    unit = np.longdouble(2.0)**exponent * step
    return rounded(np.copysign(np.rint(np.abs(x) / unit) * unit, x), target)


@pytest.mark.parametrize("source", ["float64", "float32", "int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("target", FLOATS[:3])
def test_conversions_round_once(source, target, tmp_path):
    if source == target:
        return
    x = near_ties(target, source)
    assert len(x) > 50
    check(lambda t: nb.cast(t, target), [nb.asarray(x)], once(x, target), tmp_path, signs=source in FLOATS)


def test_a_tie_is_one():
    assert once(np.array([1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 65519.9, 65520.0]), "float16").tolist() == [
        1.0, 1 + 2.0**-10, 65504.0, np.inf]


# ---- Numbers of float16 and bfloat16 whose sums and squares the dtype does not hold

WAYS = [("eager", lambda f: f), ("jit", nb.jit)]


def near(got, want, rtol=4e-3, atol=0.0):
    np.testing.assert_allclose(np.asarray(nb.cast(got, "float64")), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("wrap", [w for _, w in WAYS], ids=[n for n, _ in WAYS])
def test_statistics_of_float16(wrap):
    x = np.tile(np.array([300, -300, 0, 1], np.float16), 1000)
    holes = x.copy()
    holes[::4] = np.nan
    wide, rest = x.astype(np.float64), holes.astype(np.float64)
    near(wrap(nb.mean)(np.full(70000, 1, np.float16)), 1.0)
    near(wrap(nb.mean)(np.full(1000, 100, np.float16)), 100.0)
    near(wrap(lambda x: nb.mean(x, axis=0))(np.full((1000, 3), 100, np.float16)), [100.0] * 3)
    near(wrap(nb.var)(x), wide.var())
    near(wrap(nb.std)(np.tile(np.array([500, -500], np.float16), 100)), 500)
    near(wrap(nb.nanmean)(holes), np.nanmean(rest))
    near(wrap(nb.nanvar)(holes), np.nanvar(rest))
    near(wrap(nb.nanstd)(np.array([500, -500, np.nan], np.float16)), 500)
    near(wrap(nb.nanmedian)(np.arange(4001).astype(np.float16)), 2000)
    near(wrap(nb.median)(np.array([-60000, 60000], np.float16)), 0)
    near(wrap(lambda x: nb.average(x, weights=x))(np.full(100, 100, np.float16)), 100)
    near(wrap(nb.linalg.norm)(np.array([300, 400], np.float16)), 500)
    near(wrap(lambda x: nb.avg_pool2d(x, kernel_size=16))(np.full((1, 16, 16, 1), 300, np.float16)), [[[[300.0]]]])
    slope = wrap(nb.grad(lambda x: nb.mean(x) * 1000))(nb.ones((70000,), "float16"))
    near(slope[:2], [1 / 70] * 2)
    for scale in (1, 1e-6):
        a = (np.array([[300, -300, 5, 7], [100, -50, 3, 9]]) * scale).astype(np.float16)
        near(wrap(nb.corrcoef)(a), np.corrcoef(a.astype(np.float64)))
    near(wrap(nb.cov)(a * np.float16(100)), np.cov(a.astype(np.float64) * 100), atol=2e-7)
    far = np.array([-60000, 60000], np.float16)
    near(wrap(nb.interp)(np.array([0, 100], np.float16), far, np.array([0, 1], np.float16)), [0.5, 0.50083])
    near(wrap(nb.trapezoid)(np.full(3, 60000, np.float16), np.array([0, 0.25, 0.5], np.float16)), 30000)
    near(wrap(lambda x, y: nb.polyfit(x, y, 1))(np.array([0, 100, 200, 300], np.float16),
                                                np.array([1, 2, 3, 4], np.float16)), [0.01, 1])


@pytest.mark.parametrize("wrap", [w for _, w in WAYS], ids=[n for n, _ in WAYS])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_densities_of_many_halves(dtype, wrap):
    # The counts are beyond 65,504.
    x = nb.broadcast_to(nb.asarray([[0.25], [0.75]], dtype), (2, 80000)).reshape((-1, 1))
    for weights in (None, nb.ones(160000, dtype)):
        for bins, want in ((1, [1.0]), (2, [1.0, 1.0])):
            got = wrap(lambda x: nb.histogramdd(x, bins, [(0, 1)], weights, density=True)[0])(x)
            near(got, want)
            assert got.dtype == x.dtype


@pytest.mark.parametrize("wrap", [w for _, w in WAYS], ids=[n for n, _ in WAYS])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_averages_of_small_integers_do_not_wrap(wrap, dtype):
    top = np.iinfo(dtype).max
    x, weights = np.array([top, top, 0], dtype), np.array([top, 1, 2], dtype)
    want = np.average(x.astype(float), weights=weights.astype(float))
    near(wrap(lambda x, w: nb.average(x, weights=w))(x, weights), want, rtol=1e-6)


def moments_of(optimizer, dtype, gradients):
    p = nb.ones((1,), dtype)
    state = optimizer.init(p)
    for g in gradients:
        p, state = optimizer.update(p, nb.asarray([g], dtype), state)
    return p.numpy().astype(float)


# 0.001 g^2 is 0 in float16, and 0.999 v is v in bfloat16, so moments are float32. The last gradients are 0, as those of
# a token that later batches do not have.
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "adagrad", "adafactor", "lion"])
def test_moments_of_half_precision_parameters(name, dtype):
    optimizer = getattr(nb.nn.optim, name)(1e-3)
    gradients = [2.0**-10] * 40 + [0.0] * 3
    near(moments_of(optimizer, dtype, gradients), moments_of(optimizer, "float32", gradients), rtol=5e-2)
    for slot in (s for s in optimizer.init(nb.ones((3, 4), dtype)).values() if s.ndim):
        assert slot.dtype == nb.float32


@pytest.mark.parametrize("wrap", [w for _, w in WAYS], ids=[n for n, _ in WAYS])
def test_normalisation_of_float16(wrap):
    F = nb.nn.functional
    x = np.random.RandomState(1).uniform(-200, 200, (2, 4, 4, 8)).astype(np.float16)
    wide = x.astype(np.float64)

    def normal(axes, v=wide):
        return (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + 1e-5)

    near(wrap(F.layer_norm)(x), normal(-1), atol=5e-3)
    near(wrap(lambda x: F.batch_norm_train(x)[0])(x), normal((0, 1, 2)), atol=5e-3)
    near(wrap(F.instance_norm)(x), normal((1, 2)), atol=5e-3)
    near(wrap(lambda x: F.group_norm(x, 2))(x), normal((1, 2, 4), wide.reshape(2, 4, 4, 2, 4)).reshape(x.shape),
         atol=5e-3)
    near(wrap(lambda x: F.layer_norm(x, axis=(1, 2, 3)))(x), normal((1, 2, 3)), atol=5e-3)
    near(wrap(lambda x: F.group_norm(x, 2, eps=1e-8))(np.full(x.shape, 3, np.float16)), np.zeros(x.shape))
    rows = np.array([[0, 0], [3, 4], [300, 400], [0.003, 0.004]], np.float16)
    near(wrap(F.normalize)(rows), [[0, 0], [0.6, 0.8], [0.6, 0.8], [0.6, 0.8]], rtol=1e-2)
    layer = nb.nn.BatchNorm(8)
    layer.train()
    layer.running_mean, layer.running_var = nb.zeros((8,), "float16"), nb.ones((8,), "float16")
    layer(nb.asarray(x))
    assert layer.running_mean.dtype == nb.float16


def test_steps_of_optimisers_in_float16():
    optim, p = nb.nn.optim, {"w": nb.asarray(np.array([1.0, -2.0], np.float16)), "m": nb.ones((2, 3), "float16")}
    still = {k: nb.zeros_like(v) for k, v in p.items()}
    moved = {k: nb.full_like(v, 1e-3) for k, v in p.items()}
    for make in (optim.adam, optim.adamw, optim.rmsprop, optim.adagrad, optim.lion, optim.sgd, optim.adafactor):
        tx = make(0.01)
        for gradients in (still, moved):
            params, state = p, tx.init(p)
            for _ in range(2):
                params, state = tx.update(params, gradients, state)
            for k in p:
                assert params[k].dtype == nb.float16
                got, before = (np.asarray(t[k]).astype(np.float64) for t in (params, p))
                assert np.isfinite(got).all() and np.abs(got - before).max() < 0.25, (make.__name__, k)
                if gradients is still:
                    np.testing.assert_array_equal(got, before)
    clipped, norm = optim.clip_by_global_norm({"w": nb.full((4,), 60000.0, "float16")}, 1.0)
    assert norm.item() == 120000
    near(clipped["w"], [0.5] * 4)


# ---- Bits and signs


@pytest.mark.parametrize("wrap", [w for _, w in WAYS], ids=[n for n, _ in WAYS])
def test_moves_and_bitcasts_keep_the_bits_of_nan(wrap):
    half = np.array([0x7E01, 0x7C01, 0xFE55, 0x3C00, 0x7D23], np.uint16)
    brain = np.array([0x7F81, 0x7FC1, 0xFF91, 0x3F80], np.uint16)
    for dtype, bits in (("float16", half), ("bfloat16", brain)):
        x = nb.bitcast(nb.asarray(bits), dtype)
        for f in (lambda x: nb.bitcast(x, "uint16"), lambda x: nb.bitcast(nb.flip(nb.flip(x, 0), 0), "uint16"),
                  lambda x: nb.bitcast(nb.where(nb.ones(x.shape) > 0, x, x), "uint16"),
                  lambda x: nb.bitcast(nb.concatenate([x, x])[:x.shape[0]], "uint16")):
            np.testing.assert_array_equal(np.asarray(wrap(f)(x)), bits)
        through = wrap(lambda u: nb.bitcast(nb.bitcast(u, dtype), "uint16"))(nb.asarray(bits))
        np.testing.assert_array_equal(np.asarray(through), bits)


@pytest.mark.parametrize("wrap", [w for _, w in WAYS], ids=[n for n, _ in WAYS])
def test_zeros_keep_their_signs(wrap):
    z = nb.asarray([-0.0, 0.0])
    for f, want in ((lambda x: x + 0.0, [0, 0]), (lambda x: x + -0.0, [1, 0]), (lambda x: x - 0.0, [1, 0]),
                    (lambda x: x - -0.0, [0, 0]), (lambda x: 0.0 + x, [0, 0]), (lambda x: x * 1.0, [1, 0])):
        np.testing.assert_array_equal(np.signbit(np.asarray(wrap(f)(z))), np.array(want, bool))


# ---- Spacing, ldexp, heaviside


@pytest.mark.parametrize("dtype", FLOATS)
def test_spacing(dtype, tmp_path):
    x = tensor(special(dtype), dtype)
    exact = numbers(x)
    normal, tiny, largest, step = FORMAT[dtype]
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(np.abs(exact), np.longdouble(normal))))
        want = np.where(np.isfinite(exact), np.where(exact < 0, -1, 1) * np.longdouble(2.0)**exponent * step, np.nan)
    check(nb.spacing, [x], want, tmp_path)
    assert nb.spacing(x).dtype == x.dtype


@pytest.mark.parametrize("dtype", FLOATS)
def test_ldexp_rounds_once(dtype):
    x = special(dtype)
    for n in (-40000, -2200, -1100, -300, -278, -150, -149, -139, -100, -42, -41, -25, -14, -1, 0, 1, 15, 40, 41, 127,
              128, 200, 277, 300, 1100, 2200, 40000):
        t = tensor(x, dtype)
        with np.errstate(all="ignore"):
            exact = np.ldexp(numbers(t), n)
            want = np.where(np.isinf(exact), exact, once(exact, dtype))
        for _, wrap in WAYS:
            got = numbers(wrap(nb.ldexp)(t, nb.asarray(n, "int32")))
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            assert same.all(), (n, np.asarray(x)[~same][:4], got[~same][:4], want[~same][:4])


@pytest.mark.parametrize("dtype", FLOATS)
def test_heaviside(dtype):
    x, y = tensor([-2, -0.0, 0, 3, np.inf, np.nan], dtype), tensor([0.5] * 6, dtype)
    got = nb.heaviside(x, y)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(nb.cast(got, "float64")), [0, 0.5, 0.5, 1, 1, np.nan])


@pytest.mark.parametrize("ord", [1.5, 2, 3, 4.0])
def test_norms_are_flat_at_zero(ord):
    assert nb.grad(lambda v: nb.linalg.norm(v, ord))(nb.zeros(3)).tolist() == [0, 0, 0]
    near(nb.grad(lambda v: nb.linalg.norm(v, ord))(nb.asarray([3.0, 0.0])), [1, 0])


def test_indices_beyond_int64_are_behind_the_end():
    i = nb.asarray([2**63, 2**64 - 1, 1], "uint64")
    assert nb.arange(4)[i].tolist() == [3, 3, 1]


@pytest.mark.parametrize("low, high, dtype, text", [
    (5, 5, "int32", r"no integer is in \[5, 5\)"), (-2**63, 2**63 - 1, "int64", "more than 2\\^31 - 1 apart")])
def test_ranges_of_draws_that_cannot_be(low, high, dtype, text):
    with pytest.raises(nb.Error, match=text):
        nb.random.randint(nb.random.key(0), (2,), low, high, dtype)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_divisors_of_the_least_integer(name, dtype):
    """The least integer has no absolute value. Only a divisor that is this number itself may be negative."""
    least = np.iinfo(dtype).min
    x, y = np.array([[least, least, 6, least, 0], [0, least, least, 6, 0]], dtype)
    assert np.array_equal(getattr(nb, name)(x, y).numpy(), getattr(np, name)(x, y))


@pytest.mark.parametrize("product", [
    "dot", "matmul", "inner", "vdot", "tensordot", "outer", "kron",
    lambda space, x, y: space.einsum("ij,jk->ik", x, y), lambda space, x, y: space.einsum("ij->i", x)])
def test_products_of_bools(product):
    x, y = np.random.RandomState(3).rand(2, 3, 3) < 0.5
    x, y = (x[0], y[0]) if product == "outer" else (x, y)  # NumPy's takes vectors
    got, want = [product(space, x, y) if callable(product) else getattr(space, product)(x, y) for space in (nb, np)]
    assert got.dtype == nb.DType.bool and np.array_equal(np.asarray(got), want)


def test_nan_is_in_neither_set():
    got = nb.setxor1d(np.array([1, np.nan, 2]), np.array([2, 3, np.nan]))
    np.testing.assert_array_equal(np.asarray(got), [1, 3, np.nan])


@pytest.mark.parametrize("wrap", [w for _, w in WAYS], ids=[n for n, _ in WAYS])
def test_sums_of_many_windows_do_not_stall(wrap):
    """A float32 to which ones are added one by one stays at 2^24."""
    count = 2**24 + 2**10
    ids, ones = nb.zeros(count, "int32"), nb.ones(count)

    def sums(x, table):
        return nb.segment_sum(x, ids, 2), nb.zeros(2).at[ids].add(x), nb.grad(lambda t: nb.sum(t[ids]))(table)

    for total in wrap(sums)(ones, nb.zeros(2)):
        np.testing.assert_array_equal(np.asarray(total), [count, 0])


@pytest.mark.parametrize("wrap", [w for _, w in WAYS], ids=[n for n, _ in WAYS])
def test_long_products_with_a_vector_do_not_stall(wrap):
    count = 2**24 + 2**20
    row, column = nb.ones((1, count)), nb.ones((count, 1))
    for total in wrap(lambda a, b: (a @ b, b.T @ a.T, b.T @ nb.concatenate([b, b], 1)))(row, column):
        np.testing.assert_array_equal(np.asarray(total), np.full(total.shape, count))


@pytest.mark.parametrize("wrap", [w for _, w in WAYS], ids=[n for n, _ in WAYS])
@pytest.mark.parametrize("m, n, k", [(1, 64, 40000), (64, 1, 40000), (1, 1, 2**21), (2048, 1024, 1), (1, 2**21, 1)])
def test_large_products_with_dimensions_of_one(wrap, m, n, k):
    """A dimension of one has the stride of its neighbour, from which a library would take a wrong length of rows."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype("float32"), rng.normal(size=(k, n)).astype("float32")
    want = a.astype("float64") @ b
    for f, x, y in ((lambda x, y: x @ y, a, b), (lambda x, y: x.T @ y, a.T.copy(), b),
                    (lambda x, y: x @ y.T, a, b.T.copy()), (lambda x, y: x.T @ y.T, a.T.copy(), b.T.copy())):
        np.testing.assert_allclose(np.asarray(wrap(f)(nb.asarray(x), nb.asarray(y))), want, atol=5e-3)
