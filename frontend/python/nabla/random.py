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

import math
import operator
import threading

from . import _nabla
from ._core import DType, Error, Tensor, asarray, astype, default_float, dtype_of, inexact
from .ops import binary as _binary
from .ops._common import axis_of, count_of, emit1, float_tensors, sizes_of

_SPLIT = 0x73706C69  # of split: its children are not those of fold_in with small numbers


def key(seed):
    """The key of an integer seed of up to 64 bits: its high and low half, as `nabla-run --seed` fills inputs `seed`."""
    seed = operator.index(seed) & 0xFFFFFFFFFFFFFFFF
    return asarray([seed >> 32, seed & 0xFFFFFFFF], DType.uint32)


PRNGKey = key


def _key(k):
    k = asarray(k)
    if k.dtype != DType.uint32 or k.shape != (2,):
        raise TypeError(f"a key is a uint32 tensor of two words, from nabla.random.key(seed), split or fold_in; got "
                        f"{k.type_str()}")
    return k


def fold_in(key, data):
    """A new key for each integer `data` (a Python int or an integer scalar, of which the low 32 bits count)."""
    key = _key(key)
    if not isinstance(data, Tensor):
        data = asarray(operator.index(data) & 0xFFFFFFFF, DType.uint32)
    return emit1("rng_fold_in", [key, astype(data, DType.uint32)], {})


def split(key, num=2):
    """`num` independent keys, as the rows of a uint32 tensor [num, 2]: words of a stream of its own."""
    return emit1("rng_bits", [fold_in(key, _SPLIT)], {"shape": [num, 2]})


def bits(key, shape=(), dtype="uint32"):
    """Uniform 32-bit words: uint32, or uint64 of two of them."""
    shape, dtype = sizes_of(shape, "bits"), dtype_of(dtype)
    if dtype == DType.uint64:
        words = emit1("rng_bits", [_key(key)], {"shape": shape + [2]})
        low, high = [astype(w, DType.uint64) for w in _nabla.unbind(words, len(shape))]
        return emit1("or", [emit1("shift_left", [high, 32], {}), low], {})
    words = emit1("rng_bits", [_key(key)], {"shape": shape})
    if not dtype.is_integer() or dtype.itemsize > 4:
        raise TypeError(f"bits: {dtype} is none of the unsigned integers")
    return astype(words, dtype)


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
        raise ValueError(f"truncated_normal: [{lower}, {upper}] is no interval")
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
    """Integers in [minval, maxval), Python ints at most 2^31 - 1 apart; randint(key, shape, n) is in [0, n)."""
    if maxval is None:
        minval, maxval = 0, minval
    dtype = dtype_of(dtype)
    out = _nabla.randint(_key(key), sizes_of(shape, "randint"), 0, operator.index(maxval) - operator.index(minval))
    return _binary.add(astype(out, dtype), asarray(minval, dtype)) if minval else astype(out, dtype)


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
        if shape[len(more):] != rest:
            raise ValueError(f"categorical: the shape {tuple(shape)} does not end in {tuple(rest)}, of "
                             f"{logits.type_str()}")
        logits = _nabla.broadcast_to(logits, more + list(logits.shape))
        d += len(more)
    return _nabla.categorical(_key(key), logits, d)


def permutation(key, x, axis=0):
    """0 ... x-1 in random order, int32, for an int; the slices of a tensor along an axis in random order."""
    if isinstance(x, int):
        return _nabla.permutation(_key(key), x)
    x = asarray(x)
    d = axis_of(axis, x.ndim, "permutation")
    return _nabla.take(x, _nabla.permutation(_key(key), x.shape[d]), d)


shuffle = permutation


def choice(key, a, shape=(), replace=True, p=None, axis=0):
    """Slices of `a` along an axis (or ints below a), with or without replacement, with probabilities p (equal ones)."""
    shape = sizes_of(shape, "choice")
    n = a if isinstance(a, int) else asarray(a).shape[axis_of(axis, asarray(a).ndim, "choice")]
    count = count_of(shape)
    if replace and p is None:
        places = randint(key, shape, 0, n)
    elif replace:
        places = categorical(key, emit1("log", [float_tensors(p)[0]], {}), shape=shape)
    else:
        if count > n:
            raise ValueError(f"choice: {count} of {n} without replacement")
        scores = gumbel(key, (n,)) if p is None else _binary.add(
            gumbel(key, (n,)), emit1("log", [float_tensors(p)[0]], {}))
        places = emit1("reshape", [_nabla.emit("top_k", [scores], {"k": count, "axis": 0})[1]], {"shape": shape})
    return places if isinstance(a, int) else _nabla.take(asarray(a), places, axis_of(axis, asarray(a).ndim, "choice"))


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


def orthogonal(key, n, shape=(), dtype=None):
    """Orthogonal matrices [*shape, n, n], uniformly: q of qr of normal numbers, whose r has a positive diagonal."""
    return _nabla.emit("qr", [normal(key, sizes_of(shape, "orthogonal") + [n, n], dtype)], {})[0]


def dropout_mask(key, shape, rate):
    """bool: true, to be kept, with probability 1 - rate."""
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: rate {rate} is not in [0, 1)")
    return bernoulli(key, 1.0 - rate, shape)


def dropout(key, x, rate):
    """x of which each element is 0 with probability `rate`, and otherwise divided by 1 - rate."""
    return _nabla.dropout(float_tensors(x)[0], _key(key), float(rate))


# ---- Without a key


class _Global(threading.local):
    def __init__(self):
        self.seed, self.draws = 0, 0


_global = _Global()


def seed(n=0):
    """Begins the numbers without a key anew, for this thread."""
    _global.seed, _global.draws = operator.index(n), 0


def get_state():
    """(seed, number of draws) of this thread; set_state goes back to it."""
    return _global.seed, _global.draws


def set_state(state):
    """Continues where get_state was called."""
    _global.seed, _global.draws = [operator.index(v) for v in state]


def next_key():
    """A key of the global sequence, which advances. Raises Error in functions that are compiled or repeated."""
    if _nabla.is_tracing():
        raise Error("a random number without a key inside of a traced function: it would be the same at every call. "
                    "Pass a key, nabla.random.normal(key, shape), and split or fold_in it for every step")
    n = _global.draws
    _global.draws += 1
    return fold_in(fold_in(key(_global.seed), n >> 32), n)


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
    "PRNGKey", "bernoulli", "bits", "categorical", "choice", "dropout", "dropout_mask", "exponential", "fold_in",
    "gaussian", "get_state", "gumbel", "key", "keyless_normal", "keyless_uniform", "laplace", "logistic",
    "multivariate_normal", "next_key", "normal", "orthogonal", "permutation", "rademacher", "rand", "randint", "randn",
    "seed", "set_state", "shuffle", "split", "truncated_normal", "uniform",
]
