"""Initial values: `f(shape, *, key=None, dtype=None)` gives a tensor; without a key, the process's next one.

The last two dimensions of a weight are its inputs and outputs, as in `x @ w`; dimensions in front of them are the taps
of a convolution and count to both fans.
Sources: Glorot and Bengio (2010), He et al. (2015), Saxe et al. (2014) for orthogonal.
"""

import math

from .. import _nabla
from .._core import default_float, dtype_of
from . import _math as m
from .rng import key_of, next_key


def _drawn(name, shape, key, dtype, **attributes):
    key = next_key() if key is None else key_of(key)
    dtype = default_float() if dtype is None else dtype_of(dtype)
    return m.op(name, key, shape=list(shape), dtype=dtype, **attributes)


def fans(shape):
    """`(fan_in, fan_out)` of a weight [taps..., in, out]. Raises ValueError below two dimensions."""
    if len(shape) < 2:
        raise ValueError(f"a weight of shape {tuple(shape)} has no fans: it needs two dimensions or more")
    if any(isinstance(n, int) and n < 1 for n in shape):
        raise ValueError(f"a weight of shape {tuple(shape)}: every size must be at least 1")
    taps = math.prod(shape[:-2])
    return shape[-2] * taps, shape[-1] * taps


def zeros(shape, *, key=None, dtype=None):
    """All 0; the key is not used."""
    return m.zeros(shape, dtype)


def ones(shape, *, key=None, dtype=None):
    """All 1; the key is not used."""
    return m.ones(shape, dtype)


def constant(value):
    """An initialiser that gives `value` everywhere."""
    return lambda shape, *, key=None, dtype=None: m.full(shape, value, dtype)


def uniform(shape, low=0.0, high=1.0, *, key=None, dtype=None):
    """Uniform in [low, high)."""
    return _drawn("rng_uniform", shape, key, dtype, low=float(low), high=float(high))


def normal(shape, std=1.0, mean=0.0, *, key=None, dtype=None):
    """Normal numbers."""
    return _drawn("rng_normal", shape, key, dtype, mean=float(mean), stddev=float(std))


def truncated_normal(shape, std=1.0, mean=0.0, lower=-2.0, upper=2.0, *, key=None, dtype=None):
    """Normal numbers within [lower, upper] standard deviations of the mean, by inversion of the distribution."""
    cut = [0.5 * (1 + math.erf(bound / math.sqrt(2))) for bound in (lower, upper)]
    u = uniform(shape, 2 * cut[0] - 1, 2 * cut[1] - 1, key=key, dtype=dtype)
    z = _nabla.clip(m.mul(m.op("erfinv", u), math.sqrt(2)), float(lower), float(upper))
    return m.add(m.mul(z, float(std)), float(mean))


def xavier_uniform(shape, gain=1.0, *, key=None, dtype=None):
    """Uniform in +-gain sqrt(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6 / sum(fans(shape)))
    return uniform(shape, -bound, bound, key=key, dtype=dtype)


def xavier_normal(shape, gain=1.0, *, key=None, dtype=None):
    """Normal with a standard deviation of gain sqrt(2 / (fan_in + fan_out))."""
    return normal(shape, gain * math.sqrt(2 / sum(fans(shape))), key=key, dtype=dtype)


def kaiming_uniform(shape, gain=math.sqrt(2), *, key=None, dtype=None):
    """Uniform in +-gain sqrt(3 / fan_in); the gain sqrt(2) is relu's."""
    bound = gain * math.sqrt(3 / fans(shape)[0])
    return uniform(shape, -bound, bound, key=key, dtype=dtype)


def kaiming_normal(shape, gain=math.sqrt(2), *, key=None, dtype=None):
    """Normal with a standard deviation of gain / sqrt(fan_in)."""
    return normal(shape, gain / math.sqrt(fans(shape)[0]), key=key, dtype=dtype)


he_normal = kaiming_normal
he_uniform = kaiming_uniform
glorot_normal = xavier_normal
glorot_uniform = xavier_uniform


def lecun_normal(shape, *, key=None, dtype=None):
    """Normal with a standard deviation of 1 / sqrt(fan_in)."""
    return kaiming_normal(shape, 1.0, key=key, dtype=dtype)


def orthogonal(shape, gain=1.0, *, key=None, dtype=None):
    """Orthonormal rows or columns (whichever are fewer) of [prod(shape[:-1]), shape[-1]], uniformly distributed."""
    if len(shape) < 2:
        raise ValueError(f"orthogonal: shape {tuple(shape)} is no matrix")
    rows, columns = math.prod(shape[:-1]), shape[-1]
    long, short = max(rows, columns), min(rows, columns)
    q, r = m.emit("qr", [normal((long, short), key=key, dtype=dtype)], {})
    # Signs of the diagonal make the decomposition unique, and q uniform (Mezzadri, 2007).
    q = m.mul(q, m.op("sign", _nabla.diagonal(r)))
    q = q if rows >= columns else m.swapped(q, 0, 1)
    return m.mul(m.reshape(q, list(shape)), float(gain))


def gain_of(nonlinearity, slope=0.01):
    """The gain that keeps variances through an activation: relu, tanh, leaky_relu, selu, linear, sigmoid."""
    gains = {"relu": math.sqrt(2), "tanh": 5 / 3, "selu": 0.75, "linear": 1.0, "sigmoid": 1.0,
             "leaky_relu": math.sqrt(2 / (1 + slope * slope))}
    if nonlinearity not in gains:
        raise ValueError(f"no gain is known for {nonlinearity!r}: one of {', '.join(gains)}")
    return gains[nonlinearity]


__all__ = ["constant", "fans", "gain_of", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
           "kaiming_normal", "kaiming_uniform", "lecun_normal", "normal", "ones", "orthogonal", "truncated_normal",
           "uniform", "xavier_normal", "xavier_uniform", "zeros"]
