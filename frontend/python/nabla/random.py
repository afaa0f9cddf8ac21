"""Random numbers from explicit keys, and, for sessions at a prompt, from one global key.

A key is a uint32 tensor of two words; numbers are words of the stream Philox4x32-10(key) (Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011), the same in the interpreter, on CPUs, GPUs and in C++ programs. One key
gives the same numbers again: `split` or `fold_in` it for others.

    key = nb.random.key(0)
    a, b = nb.random.split(key)
    x = nb.random.normal(a, (3, 4))

Without a key (nabla.uniform, nabla.normal, nabla.randn, ...) the key is fold_in(fold_in(key(seed), high), low), where
(high, low) are the halves of a number that every draw advances; seed(n) begins anew at 0, and the seed of a new process
is 0. Inside of functions that are compiled (jit, export) or repeated (scan, while_loop) such a draw would be the same
every time: it is an error there. Keyless draws belong to the thread that calls.
"""

import functools
import math
import operator

from . import _nabla
from ._core import DType, Tensor, asarray, astype, check_range, default_float, dtype_of, inexact
from ._keys import PRNGKey, bits, fold_in, get_state, key, next_key, seed, set_state, split
from ._keys import checked as _key
from .ops import binary as _binary
from .ops._common import (
    axis_of, bounds_of, check_interval, count_of, decided, emit1, filled, float_tensors, require_at_least,
    same_size, sizes_of, static_size)
from .ops.indexing import taken

def _float_type(dtype):
    return default_float() if dtype is None else dtype_of(dtype)


def _between(unit, low, high):
    if isinstance(low, (int, float)) and low == 0 and isinstance(high, (int, float)) and high == 1:
        return unit
    low, high = asarray(low, unit.dtype), asarray(high, unit.dtype)
    out = _binary.add(low, _binary.mul(unit, _binary.sub(high, low)))
    return _binary.maximum(out, low)


def _are_numbers(*xs):
    return all(isinstance(x, (int, float)) and math.isfinite(x) for x in xs)


def _uniform(key, shape, low, high, dtype):
    shape, dtype = sizes_of(shape, "uniform"), _float_type(dtype)
    if _are_numbers(low, high) and low < high:
        return emit1("rng_uniform", [_key(key)], {"shape": shape, "dtype": dtype, "low": float(low),
                                                  "high": float(high)})
    return _between(emit1("rng_uniform", [_key(key)], {"shape": shape, "dtype": dtype}), low, high)


def uniform(key, shape=(), dtype=None, minval=0.0, maxval=1.0):
    """Uniform numbers in [minval, maxval), which are numbers or tensors that broadcast to the shape."""
    return _uniform(key, shape, minval, maxval, dtype)


def normal(key, shape=(), dtype=None, mean=0.0, std=1.0):
    """Normal numbers, by Box and Muller's transform (1958)."""
    shape, dtype = sizes_of(shape, "normal"), _float_type(dtype)
    if _are_numbers(mean, std) and std >= 0:
        return emit1("rng_normal", [_key(key)], {"shape": shape, "dtype": dtype, "mean": float(mean),
                                                 "stddev": float(std)})
    unit = emit1("rng_normal", [_key(key)], {"shape": shape, "dtype": dtype})
    return _binary.add(_binary.mul(unit, asarray(std, dtype)), asarray(mean, dtype))


gaussian = normal


def truncated_normal(key, lower=-2.0, upper=2.0, shape=(), dtype=None):
    """Normal numbers of the interval [lower, upper], Python numbers: by the inverse of the distribution function."""
    if not lower < upper:
        _nabla.fail(204, f"truncated_normal: [{lower}, {upper}] is no interval")
    dtype = _float_type(dtype)
    root = math.sqrt(2.0)
    u = _uniform(key, shape, math.erf(lower / root), math.erf(upper / root), dtype)
    out = _binary.mul(emit1("erfinv", [u], {}), root)
    return _binary.minimum(_binary.maximum(out, float(lower)), float(upper))


def bernoulli(key, p=0.5, shape=None):
    """True with probability p, a number or a tensor that broadcasts to the shape (its own by default)."""
    if not isinstance(p, (int, float)):
        p = asarray(p)
        shape = p.shape if shape is None else shape
    u = _uniform(key, () if shape is None else shape, 0.0, 1.0, p.dtype if isinstance(p, Tensor) else DType.float32)
    return emit1("lt", [u, p], {})


def randint(key, shape=(), minval=0, maxval=None, dtype="int32"):
    """Integers in [minval, maxval), ints of the dtype at most 2^31 - 1 apart; randint(key, shape, n) is in [0, n)."""
    minval, maxval = (0, minval) if maxval is None else (minval, maxval)
    shape, dtype = sizes_of(shape, "randint"), dtype_of(dtype)
    if any(isinstance(v, _nabla.Dim) for v in (minval, maxval)):
        return _randint_of_sizes(key, shape, minval, maxval, dtype)
    minval, maxval = operator.index(minval), operator.index(maxval)
    check_interval(minval, maxval, dtype, "randint")
    out = _nabla.randint(_key(key), shape, 0, maxval - minval)
    return _binary.add(astype(out, dtype), asarray(minval, dtype)) if minval else astype(out, dtype)


def _randint_of_sizes(key, shape, minval, maxval, dtype):
    """randint between sizes that are known only at run time: the same numbers as between ints."""
    require_at_least(maxval - minval, 1, f"randint in [{minval}, {maxval})")
    check_range(bounds_of(minval)[0], bounds_of(maxval)[1] - 1, dtype)
    out = emit1("rem", [bits(key, shape, "uint64"), maxval - minval], {})
    return _binary.add(astype(out, dtype), asarray(minval, dtype))


def gumbel(key, shape=(), dtype=None):
    """-log(-log(u)) of uniform u: noise whose addition to logits makes the argmax a draw."""
    return _nabla.gumbel(_key(key), sizes_of(shape, "gumbel"), _float_type(dtype))


def categorical(key, logits, axis=-1, shape=None):
    """Positions along `axis` with probabilities softmax(logits): int32, of the logits' shape without the axis.

    `shape`: (more dimensions in front, that shape), for several draws from each.
    """
    logits = float_tensors(logits)[0]
    d = axis_of(axis, logits.ndim, "categorical")
    if shape is not None:
        shape = sizes_of(shape, "categorical")
        rest = [s for i, s in enumerate(logits.shape) if i != d]
        more = shape[:len(shape) - len(rest)]
        if len(shape) < len(rest) or not all(same_size(n, m) for n, m in zip(shape[len(more):], rest)):
            _nabla.fail(204, f"categorical: the shape {tuple(shape)} does not end in {tuple(rest)}, of "
                             f"{logits.type_str()}")
        logits = _nabla.broadcast_to(logits, more + list(logits.shape))
        d += len(more)
    return _nabla.categorical(_key(key), logits, d)


def permutation(key, x, axis=0):
    """0 ... x-1 in random order, int32, for an int or a size; the slices of a tensor along an axis in random order."""
    if isinstance(x, (int, _nabla.Dim)):
        return emit1("argsort", [emit1("rng_bits", [_key(key)], {"shape": [x]})], {"axis": 0})
    x = asarray(x)
    d = axis_of(axis, x.ndim, "permutation")
    return taken(x, permutation(key, x.shape[d]), d)


shuffle = permutation


def choice(key, a, shape=(), replace=True, p=None, axis=0):
    """Slices of `a` along an axis (or ints below a), with or without replacement, with probabilities p (equal ones)."""
    shape = sizes_of(shape, "choice")
    whole = isinstance(a, (int, _nabla.Dim))
    n = a if whole else asarray(a).shape[axis_of(axis, asarray(a).ndim, "choice")]
    count = count_of(shape)
    if same_size(count, 0) is True:  # `a` may have no elements
        places = _nabla.full(shape, 0.0, DType.int32)
    elif replace and p is None:
        places = randint(key, shape, 0, n)
    elif replace:
        places = categorical(key, emit1("log", [float_tensors(p)[0]], {}), shape=shape)
    else:
        static_size(count, "choice without replacement", "it is the number of results of top_k")
        if decided(count > n, "choice without replacement", f"{count} > {n}"):
            _nabla.fail(204, f"choice: {count} of {n} without replacement")
        scores = gumbel(key, (n,)) if p is None else _binary.add(
            gumbel(key, (n,)), emit1("log", [float_tensors(p)[0]], {}))
        places = emit1("reshape", [_nabla.emit("top_k", [scores], {"k": count, "axis": 0})[1]], {"shape": shape})
    return places if whole else taken(asarray(a), places, axis_of(axis, asarray(a).ndim, "choice"))


def exponential(key, shape=(), dtype=None):
    """Exponential numbers of mean 1."""
    u = _uniform(key, shape, 0.0, 1.0, dtype)
    return emit1("neg", [emit1("log1p", [emit1("neg", [u], {})], {})], {})


def laplace(key, shape=(), dtype=None):
    """Laplace's distribution around 0 with scale 1."""
    u = _uniform(key, shape, 0.0, 1.0, dtype)
    tiny = 2.0 ** -53 if u.dtype == DType.float64 else 2.0 ** -24
    centred = _binary.sub(_binary.mul(_binary.maximum(u, tiny / 2), 2.0), 1.0)
    size = emit1("log1p", [emit1("neg", [emit1("abs", [centred], {})], {})], {})
    return emit1("neg", [_binary.mul(emit1("sign", [centred], {}), size)], {})


def logistic(key, shape=(), dtype=None):
    """The logistic distribution: logits of uniform numbers."""
    u = _uniform(key, shape, 0.0, 1.0, dtype)
    u = _binary.maximum(u, 2.0 ** -54 if u.dtype == DType.float64 else 2.0 ** -25)
    return _binary.sub(emit1("log", [u], {}), emit1("log1p", [emit1("neg", [u], {})], {}))


def rademacher(key, shape=(), dtype="int32"):
    """-1 or 1 with equal probability."""
    out = astype(bernoulli(key, 0.5, shape), dtype_of(dtype))
    return _binary.sub(_binary.mul(out, 2), 1)


def multivariate_normal(key, mean, cov, shape=None, dtype=None):
    """Normal vectors with this mean [..., n] and covariance [..., n, n]; `shape`: of the batch."""
    mean, cov = [asarray(v, dtype) for v in inexact(mean, cov)]
    from .linalg import cholesky
    shape = _binary.broadcast_shapes(mean.shape[:-1], cov.shape[:-2]) if shape is None else shape
    batch = sizes_of(shape, "multivariate_normal")
    unit = normal(key, batch + [mean.shape[-1]], mean.dtype)
    low = cholesky(cov)
    moved = _binary.matmul(low, _nabla.unsqueeze(unit, -1))
    return _binary.add(mean, emit1("reshape", [moved], {"shape": list(unit.shape)}))


def _given(a, shape, dtype, what):
    """A floating parameter, and the shape of the result: its own by default."""
    (a,), shape = _all_given([a], shape, dtype, what)
    return a, shape


def _all_given(parameters, shape, dtype, what):
    """Floating parameters of one dtype, in the shape of the result: by default the one that they broadcast to."""
    given = [float_tensors(a)[0] if isinstance(a, Tensor) else asarray(a, _float_type(dtype)) for a in parameters]
    given = float_tensors(*given)
    shape = list(_binary.broadcast_shapes(*[a.shape for a in given])) if shape is None else sizes_of(shape, what)
    return [filled(a, shape, what) for a in given], shape


def _undifferentiated(draw):
    """`draw(key, *parameters, shape)` without derivatives by them: its number of steps is known only at run time."""
    @functools.wraps(draw)
    def whole(key, *parameters, shape, dtype):
        from .transforms import custom_vjp
        key, (parameters, shape) = _key(key), _all_given(parameters, shape, dtype, draw.__name__.strip("_"))
        rule = custom_vjp(lambda *a: draw(key, *a, shape))
        rule.defvjp(lambda *a: (draw(key, *a, shape), None), lambda _, ct: (None,) * len(parameters))
        return rule(*parameters)

    return whole


def _until_all(state, step):
    """`step(i, *state) -> state`, whose last part says what is done, until everything is."""
    from .transforms import while_loop
    done = state[-1]

    def test(s):
        left = emit1("not", [emit1("reduce_and", [s[-1]], {"axes": list(range(done.ndim))})], {})
        return emit1("and", [left, emit1("lt", [s[0], 1000], {})], {})

    return while_loop(test, lambda s: (_binary.add(s[0], 1), *step(s[0], *s[1:])),
                      (_nabla.full([], 0.0, DType.int32), *state))[1:]


def _select(condition, x, y):
    from .ops.control_flow import where
    return where(condition, x, y)


def gamma(key, a, shape=None, dtype=None):
    """The gamma distribution of shape parameter a (above 0, else NaN) and scale 1. Its derivative by a is 0.

    Source: Marsaglia and Tsang, A simple method for generating gamma variables, 2000; below 1 by a power of a uniform.
    """
    return _gamma(key, a, shape=shape, dtype=dtype)


@_undifferentiated
def _gamma(key, a, shape):
    draws, last = split(key)[0], split(key)[1]
    small = emit1("lt", [a, 1.0], {})
    d = _binary.sub(_select(small, _binary.add(a, 1.0), a), 1.0 / 3)
    c = _binary.div(1.0 / 3, emit1("sqrt", [emit1("maximum", [d, 1e-6], {})], {}))

    def step(i, out, done):
        first, second = split(fold_in(draws, i))
        x = normal(first, shape, a.dtype)
        v = _binary.pow(_binary.add(_binary.mul(c, x), 1.0), 3)
        positive = emit1("gt", [v, 0.0], {})
        v = _select(positive, v, 1.0)
        bound = x * x * 0.5 + d - d * v + d * emit1("log", [v], {})
        u = emit1("maximum", [uniform(second, shape, a.dtype), 1e-30], {})
        fits = positive & (emit1("log", [u], {}) < bound)
        return _select(fits & ~done, d * v, out), done | fits

    out, _ = _until_all((_nabla.full(shape, 0.0, a.dtype), _nabla.full(shape, 0.0, DType.bool)), step)
    u = 1.0 - uniform(last, shape, a.dtype)
    out = _select(small, out * _binary.pow(u, 1.0 / emit1("maximum", [a, 1e-30], {})), out)
    return _select(a > 0, out, float("nan"))


def beta(key, a, b, shape=None, dtype=None):
    """The beta distribution of parameters a and b: gamma(a) over the sum of gamma(a) and gamma(b)."""
    if shape is None:
        shape = _binary.broadcast_shapes(asarray(a).shape, asarray(b).shape)
    first, second = split(key)
    x = gamma(first, a, shape, dtype)
    return x / (x + gamma(second, b, shape, dtype))


def chisquare(key, df, shape=None, dtype=None):
    """Sums of squares of df normal numbers."""
    return gamma(key, asarray(df, dtype) * 0.5, shape, dtype) * 2.0


def t(key, df, shape=None, dtype=None):
    """Student's distribution of df degrees of freedom."""
    first, second = split(key)
    half, shape = _given(asarray(df, dtype) * 0.5, shape, dtype, "t")
    return normal(first, shape, half.dtype) * emit1("sqrt", [half / gamma(second, half, shape)], {})


def dirichlet(key, alpha, shape=None, dtype=None):
    """Vectors along the last dimension of positive parts whose sum is 1: gammas over their sum. alpha [..., n];
    `shape`: of the batch."""
    alpha = asarray(alpha, dtype)
    batch = list(alpha.shape[:-1]) if shape is None else sizes_of(shape, "dirichlet")
    x = gamma(key, alpha, batch + [alpha.shape[-1]], dtype)
    return x / _nabla.sum(x, [x.ndim - 1], True)


def poisson(key, lam, shape=None, dtype="int32"):
    """Poisson's distribution of mean lam (at least 0): how many events happen.

    Source: below 10 sums of exponential numbers (Knuth); above Hoermann, The transformed rejection method for
    generating Poisson random variables, 1993.
    """
    return astype(_poisson(key, lam, shape=shape, dtype=None), dtype_of(dtype))


@_undifferentiated
def _poisson(key, lam, shape):
    few, many = split(key)
    small = lam < 10.0
    low, high = _select(small, lam, 0.0), _select(small, 10.0, lam)

    def count(i, k, s, done):
        s = s + exponential(fold_in(few, i), shape, lam.dtype)
        return k + astype(s <= low, lam.dtype), s, done | (s > low)

    zeros, nothing = _nabla.full(shape, 0.0, lam.dtype), _nabla.full(shape, 0.0, DType.bool)
    k = _until_all((zeros, zeros, nothing), count)[0]
    log_high = emit1("log", [high], {})
    b = emit1("sqrt", [high], {}) * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    inverse, limit = 1.1328 / (b - 3.4) + 1.1239, 0.9277 - 3.6224 / (b - 2.0)

    def draw(i, out, done):
        first, second = split(fold_in(many, i))
        u = uniform(first, shape, lam.dtype) - 0.5
        v = emit1("maximum", [uniform(second, shape, lam.dtype), 1e-30], {})
        us = emit1("maximum", [0.5 - emit1("abs", [u], {}), 1e-30], {})
        n = emit1("floor", [(a * 2.0 / us + b) * u + high + 0.43], {})
        sure = (us >= 0.07) & (v <= limit)
        wrong = (n < 0) | ((us < 0.013) & (v > us))
        n_safe = emit1("maximum", [n, 0.0], {})
        likely = emit1("log", [v * inverse / (a / (us * us) + b)], {}) <= (
            n_safe * log_high - high - emit1("lgamma", [n_safe + 1.0], {}))
        fits = sure | (~wrong & likely)
        return _select(fits & ~done, n_safe, out), done | fits

    large = _until_all((zeros, small), draw)[0]
    return _select(small, k, large)


def binomial(key, n, p, shape=None, dtype=None):
    """How many of n trials of probability p succeed, as floating numbers; NaN where n is not 0, 1, 2, ... or p not in
    [0, 1].
    The derivatives by n and p are 0.

    Source: below a mean of 10 by the numbers of trials between successes (Devroye, Non-Uniform Random Variate
    Generation, 1986, ch. X.4); above it Hoermann, The generation of binomial random variates, 1993.
    """
    if dtype is not None:
        n, p = asarray(n, dtype), asarray(p, dtype)
    return _binomial(key, n, p, shape=shape, dtype=dtype)


def _rest_of_stirling(k):
    """log(k!) less Stirling's formula at k + 1: its first terms."""
    k = k + 1.0
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / (k * k)) / (k * k)) / k


@_undifferentiated
def _binomial(key, n, p, shape):
    few, many = split(key)
    valid = (n >= 0) & (n - emit1("floor", [n], {}) == 0) & (p >= 0) & (p <= 1)
    flipped = p > 0.5
    q = _select(valid, _select(flipped, 1.0 - p, p), 0.0)
    small = n * q < 10.0
    zeros, nothing = _nabla.full(shape, 0.0, n.dtype), _nabla.full(shape, 0.0, DType.bool)
    log_failure = emit1("minimum", [emit1("log1p", [-_select(small, q, 0.5)], {}), -1e-30], {})

    def count(i, k, s, done):
        u = 1.0 - uniform(fold_in(few, i), shape, n.dtype)
        s = s + emit1("maximum", [emit1("ceil", [emit1("log", [u], {}) / log_failure], {}), 1.0], {})
        return k + astype(s <= n, n.dtype), s, done | (s > n)

    k = _until_all((zeros, zeros, nothing | ~small | ~valid), count)[0]
    # What is small is computed as if it were not, and left.
    trials, share = _select(small, 40.0, n), _select(small, 0.5, q)
    deviation = emit1("sqrt", [trials * share * (1.0 - share)], {})
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 + share * 0.01 - 0.0873
    limit, alpha = 0.92 - 4.2 / b, (5.1 / b + 2.83) * deviation
    mode, odds = emit1("floor", [(trials + 1.0) * share], {}), share / (1.0 - share)
    at_mode = (mode + 0.5) * emit1("log", [(mode + 1.0) / (odds * (trials - mode + 1.0))], {}) + (
        _rest_of_stirling(mode) + _rest_of_stirling(trials - mode))

    def draw(i, out, done):
        first, second = split(fold_in(many, i))
        u = uniform(first, shape, n.dtype) - 0.5
        v = emit1("maximum", [uniform(second, shape, n.dtype), 1e-30], {})
        us = emit1("maximum", [0.5 - emit1("abs", [u], {}), 1e-30], {})
        k = emit1("floor", [(a * 2.0 / us + b) * u + trials * share + 0.5], {})
        inside = (k >= 0) & (k <= trials)
        k = _select(inside, k, mode)
        left = trials - k + 1.0
        ratio = at_mode + (trials + 1.0) * emit1("log1p", [(k - mode) / left], {}) + (
            k + 0.5) * emit1("log", [odds * left / (k + 1.0)], {}) - (
            _rest_of_stirling(k) + _rest_of_stirling(trials - k))
        likely = emit1("log", [v * alpha / (a / (us * us) + b)], {}) <= ratio
        fits = inside & (((us >= 0.07) & (v <= limit)) | likely)
        return _select(fits & ~done, k, out), done | fits

    k = _select(small, k, _until_all((zeros, small), draw)[0])
    return _select(valid, _select(flipped, n - k, k), float("nan"))


def multinomial(key, n, p, *, shape=None, dtype=None):
    """How often each of k outcomes comes in n trials: floating numbers [..., k], whose sums are n, for probabilities
    p [..., k], or weights, of which each has its share of their sum; NaN where that is 0. `shape`: of the batch.

    Each outcome is a binomial draw from the trials that are left, by its share of the probabilities that are left.
    """
    from .transforms import scan
    p = asarray(p) if dtype is None else asarray(p, dtype)
    if p.ndim == 0:
        _nabla.fail(204, f"multinomial: the probabilities are {p.type_str()}; they have a dimension of outcomes")
    p, = float_tensors(p)
    n = asarray(n, p.dtype)
    batch = _binary.broadcast_shapes(n.shape, p.shape[:-1]) if shape is None else sizes_of(shape, "multinomial")
    count = p.shape[-1]
    p = _nabla.moveaxis(filled(p, [*batch, count], "multinomial"), len(batch), 0)
    rest = emit1("reverse", [emit1("cumsum", [emit1("reverse", [p], {"axes": [0]})], {"axis": 0})], {"axes": [0]})
    last = emit1("eq", [emit1("iota", [], {"shape": list(p.shape), "axis": 0, "dtype": DType.int32}), count - 1], {})
    shares = _select(last | (rest <= 0), astype(last, p.dtype), p / _select(rest > 0, rest, 1.0))
    shares = emit1("minimum", [shares, 1.0], {})

    def step(left, now):
        key, share = now
        k = binomial(key, left, share)
        return left - k, k

    n = filled(n, list(batch), "multinomial")
    n = _select(rest[0] > 0, n, float("nan")) if count else n
    counts = scan(step, n, (split(key, count), shares))[1]
    return _nabla.moveaxis(counts, 0, len(batch))


def cauchy(key, shape=(), dtype=None):
    """Cauchy's distribution: tan(pi (u - 1/2)) of uniform numbers."""
    return emit1("tan", [(_uniform(key, shape, 0.0, 1.0, dtype) - 0.5) * math.pi], {})


def lognormal(key, sigma=1.0, shape=(), dtype=None):
    """exp of normal numbers of deviation sigma."""
    return emit1("exp", [normal(key, shape, dtype) * sigma], {})


def pareto(key, b, shape=None, dtype=None):
    """Pareto's distribution from 1 on: exp of exponential numbers over b."""
    b, shape = _given(b, shape, dtype, "pareto")
    return emit1("exp", [exponential(key, shape, b.dtype) / b], {})


def weibull_min(key, scale, concentration, shape=(), dtype=None):
    """Weibull's distribution: scale times exponential numbers to the power 1 / concentration."""
    return _binary.pow(exponential(key, shape, dtype), 1.0 / concentration) * scale


def rayleigh(key, scale=1.0, shape=(), dtype=None):
    """Rayleigh's distribution: scale times sqrt(2 e) of exponential numbers e."""
    return emit1("sqrt", [exponential(key, shape, dtype) * 2.0], {}) * scale


def geometric(key, p, shape=None, dtype="int32"):
    """How many trials of probability p it takes until the first success: 1, 2, ..."""
    p, shape = _given(p, shape, None, "geometric")
    u = 1.0 - uniform(key, shape, p.dtype)
    n = emit1("ceil", [emit1("log", [u], {}) / emit1("log1p", [-p], {})], {})
    return astype(emit1("maximum", [_select(p >= 1, 1.0, n), 1.0], {}), dtype_of(dtype))


def orthogonal(key, n, shape=(), dtype=None):
    """Orthogonal matrices [*shape, n, n], uniformly: q of qr of normal numbers, whose r has a positive diagonal."""
    return _nabla.emit("qr", [normal(key, sizes_of(shape, "orthogonal") + [n, n], dtype)], {})[0]


def dropout_mask(key, shape, rate):
    """bool: true, to be kept, with probability 1 - rate."""
    if not 0 <= rate < 1:
        _nabla.fail(204, f"dropout: rate {rate} is not in [0, 1)")
    return bernoulli(key, 1.0 - rate, shape)


def dropout(key, x, rate):
    """x of which each element is 0 with probability `rate`, and otherwise divided by 1 - rate."""
    return _nabla.dropout(float_tensors(x)[0], _key(key), float(rate))


# ---- Without a key


def keyless_uniform(shape=(), low=0.0, high=1.0, dtype=None):
    """nabla.uniform: numbers in [low, high), from the global key."""
    return _uniform(next_key(), shape, low, high, dtype)


def keyless_normal(shape=(), mean=0.0, std=1.0, dtype=None):
    """nabla.normal: normal numbers, from the global key."""
    return normal(next_key(), shape, dtype, mean, std)


def rand(*shape):
    """keyless_uniform in [0, 1) by sizes."""
    return keyless_uniform(shape)


def randn(*shape):
    """keyless_normal by sizes."""
    return keyless_normal(shape)


__all__ = [
    "PRNGKey", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare", "choice", "dirichlet",
    "dropout", "dropout_mask", "exponential", "fold_in", "gamma", "gaussian", "geometric", "get_state", "gumbel",
    "key", "keyless_normal", "keyless_uniform", "laplace", "logistic", "lognormal", "multinomial",
    "multivariate_normal", "next_key", "normal", "orthogonal", "pareto", "permutation", "poisson", "rademacher",
    "rand", "randint", "randn", "rayleigh", "seed", "set_state", "shuffle", "split", "t", "truncated_normal",
    "uniform", "weibull_min",
]
