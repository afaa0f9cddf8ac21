"""Numbers as they lie in memory, constants, and what dtypes can hold."""

import math
import types

from .. import _nabla
from .._core import DType, asarray, astype, dtype_of, promote_types, result_type, weak_floats
from ._common import all_static, axis_of, count_of, emit1, float_tensors
from .binary import broadcast_arrays, broadcast_shapes, left_shift, logaddexp, pow, right_shift
from .comparison import array_equal, equal_if
from .control_flow import where
from .unary import bitcast, bitwise_not, population_count

pi, e, inf, nan, euler_gamma, newaxis = math.pi, math.e, math.inf, math.nan, 0.5772156649015329, None

# Bits of the fraction and of the exponent.
_LAYOUT = {DType.float16: (10, 5), DType.bfloat16: (7, 8), DType.float32: (23, 8), DType.float64: (52, 11)}
_WORD = {2: DType.int16, 4: DType.int32, 8: DType.int64}


def finfo(dtype):
    """Of a floating dtype: bits, eps, max, min, tiny (the smallest normal number), smallest_subnormal, nmant."""
    dtype = dtype_of(dtype)
    if not dtype.is_float():
        raise TypeError(f"finfo: {dtype.name} is no floating dtype; iinfo is for integers")
    fraction, exponent = _LAYOUT[dtype]
    bias = 2 ** (exponent - 1) - 1
    largest = (2 - 2.0 ** -fraction) * 2.0 ** bias
    return types.SimpleNamespace(dtype=dtype, bits=8 * dtype.itemsize, eps=2.0 ** -fraction, max=largest, min=-largest,
                                 tiny=2.0 ** (1 - bias), smallest_normal=2.0 ** (1 - bias),
                                 smallest_subnormal=2.0 ** (1 - bias - fraction), nmant=fraction, nexp=exponent)


def iinfo(dtype):
    """Of an integer dtype: bits, min, max."""
    dtype = dtype_of(dtype)
    if not dtype.is_integer():
        raise TypeError(f"iinfo: {dtype.name} is no integer dtype; finfo is for floating ones")
    bits, signed = 8 * dtype.itemsize, dtype.name.startswith("int")
    return types.SimpleNamespace(dtype=dtype, bits=bits, min=-2 ** (bits - 1) if signed else 0,
                                 max=2 ** (bits - 1) - 1 if signed else 2 ** bits - 1)


def can_cast(a, b):
    """Whether every value of dtype a, or of a tensor's dtype, is one of dtype b: promote_types(a, b) is b."""
    a = a.dtype if hasattr(a, "dtype") else a
    if dtype_of(b).is_float() and dtype_of(a).is_integer():
        return _LAYOUT[dtype_of(b)][0] + 1 >= iinfo(a).bits - (iinfo(a).min < 0)
    return promote_types(a, b) == dtype_of(b)


_KINDS = {"bool": lambda d: d == DType.bool, "signed integer": lambda d: d.name.startswith("int"),
          "unsigned integer": lambda d: d.name.startswith("uint"), "integral": lambda d: d.is_integer(),
          "real floating": lambda d: d.is_float(), "complex floating": lambda d: False,
          "numeric": lambda d: d.is_integer() or d.is_float()}


def isdtype(dtype, kind):
    """Whether a dtype is another, or of a kind: "bool", "signed integer", "unsigned integer", "integral", "real
    floating", "complex floating" (none is), "numeric", or one of a tuple of such (the array API standard)."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    return _KINDS[kind](dtype_of(dtype)) if kind in _KINDS else dtype_of(dtype) == dtype_of(kind)


def _layout(x):
    x, = float_tensors(x)
    fraction, exponent = _LAYOUT[x.dtype]
    return x, fraction, 2 ** exponent - 1, _WORD[x.dtype.itemsize]


def _power_of_two(n, dtype):
    """2 to integer powers whose results are normal numbers, exactly."""
    fraction, bits = _LAYOUT[dtype]
    word, bias = _WORD[dtype.itemsize], 2 ** (bits - 1) - 1
    return bitcast(left_shift(astype(n, word) + bias, asarray(fraction, word)), dtype)


def _between(n, low, high):
    return emit1("minimum", [emit1("maximum", [n, low], {}), high], {})


def frexp(x):
    """`(mantissa, exponent)`: x is mantissa * 2^exponent, the mantissa in [0.5, 1); 0, infinity and NaN stay."""
    x, fraction, mask, word = _layout(x)
    small = emit1("lt", [emit1("abs", [x], {}), finfo(x.dtype).tiny], {})
    scaled = where(small, x * 2.0 ** (fraction + 1), x)
    bits = bitcast(scaled, word)
    raw = right_shift(bits, asarray(fraction, word)) & mask
    still = (x == 0) | ~emit1("is_finite", [x], {})
    exponent = raw - (mask // 2 - 1) - astype(small, word) * (fraction + 1)
    head = asarray(~(mask << fraction), word)
    mantissa = bitcast((bits & head) | ((mask // 2 - 1) << fraction), x.dtype)
    return where(still, x, mantissa), astype(where(still, 0, exponent), DType.int32)


def ldexp(x, n):
    """x * 2^n for integers n, rounded once; zeros, infinities and NaN stay."""
    n = asarray(n)
    if not n.dtype.is_integer():
        raise TypeError(f"ldexp: the exponent is {n.type_str()}, not an integer")
    x, = float_tensors(x)
    # Factors are normal numbers: 0 times infinity would be NaN. Three steps lead from the least subnormal to infinity,
    # and from the largest number to 0. The remainder is the first factor, so that only the last product of a small
    # result is rounded.
    step = 2 ** (_LAYOUT[x.dtype][1] - 1) - 2
    n = astype(_between(n, *_bounds(n.dtype, 3 * step)), DType.int32)
    rest = emit1("rem", [n, step], {})
    out, left = x * _power_of_two(rest, x.dtype), n - rest
    for _ in range(3):
        part = _between(left, -step, step)
        out, left = out * _power_of_two(part, x.dtype), left - part
    return out


def _bounds(dtype, most):
    """-most and most, or the bounds of an integer dtype that does not hold them."""
    own = iinfo(dtype)
    return max(own.min, -most), min(own.max, most)


def modf(x):
    """`(fraction, whole)`: parts of one sign, whose sum is x."""
    x, = float_tensors(x)
    whole = emit1("trunc", [x], {})
    return where(emit1("is_inf", [x], {}), 0.0, x - whole), whole


def nextafter(x, y):
    """The next number after x on the way to y."""
    x, y = float_tensors(x, y)
    x, y = broadcast_arrays(x, y)
    word = _WORD[x.dtype.itemsize]
    bits = bitcast(x, word)
    up = emit1("eq", [(y > x), (x > 0)], {})
    moved = bitcast(where(up, bits + 1, bits - 1), x.dtype)
    least = bitcast(where(y > 0, asarray(1, word), asarray(iinfo(word).min + 1, word)), x.dtype)
    out = where(x == 0, least, moved)
    out = where(x == y, y, out)
    return where(emit1("is_nan", [x], {}) | emit1("is_nan", [y], {}), nan, out)


def spacing(x):
    """The distance from x to the next number away from 0, with the sign of x; NaN of infinities."""
    x, fraction, mask, word = _layout(x)
    exponent = right_shift(bitcast(x, word), asarray(fraction, word)) & mask
    exponent = emit1("maximum", [exponent, 1], {})  # that of subnormals, too
    one = asarray(1, word)
    normal = left_shift(exponent - fraction, asarray(fraction, word))
    small = left_shift(one, emit1("minimum", [exponent - 1, fraction], {}))
    out = bitcast(where(exponent > fraction, normal, small), x.dtype)
    out = where(emit1("lt", [x, 0.0], {}), -out, out)
    return where(emit1("is_finite", [x], {}), out, nan)


def heaviside(x, at_zero):
    """0 below 0, 1 above, `at_zero` at 0; NaN of NaN."""
    x, at_zero = float_tensors(x, at_zero)
    out = where(x == 0, at_zero, astype(x > 0, x.dtype))
    return where(emit1("is_nan", [x], {}), x, out)


def logaddexp2(x, y):
    """log2(2^x + 2^y) without overflow."""
    x, y = float_tensors(x, y)
    return logaddexp(x * math.log(2.0), y * math.log(2.0)) / math.log(2.0)


def float_power(x, y):
    """x to the power y in float64."""
    return pow(astype(x, DType.float64), astype(y, DType.float64))


def isneginf(x):
    """Where x is negative infinity."""
    return asarray(x) == -inf


def isposinf(x):
    """Where x is positive infinity."""
    return asarray(x) == inf


def isreal(x):
    """True everywhere: there are no complex dtypes."""
    return _nabla.full(asarray(x).shape, 1.0, DType.bool)


def isrealobj(x):
    """True: there are no complex dtypes."""
    asarray(x)
    return True


def isscalar(x):
    """Whether x is a number, or a tensor without dimensions."""
    return isinstance(x, (bool, int, float)) or getattr(x, "ndim", None) == 0


def conj(x):
    """x: there are no complex dtypes."""
    return asarray(x)


def array_equiv(x, y):
    """Whether one broadcasts to the other and all elements are equal then: a bool."""
    x, y = [astype(v, result_type(weak_floats(x), weak_floats(y))) for v in (x, y)]
    if all_static([*x.shape, *y.shape]):
        try:
            broadcast_shapes(x.shape, y.shape)
        except _nabla.Error:
            return asarray(False)
        return array_equal(*broadcast_arrays(x, y))
    rank = max(x.ndim, y.ndim)
    x, y = [emit1("reshape", [t], {"shape": [1] * (rank - t.ndim) + list(t.shape)}) for t in (x, y)]
    return equal_if(x, y, "array_equiv", lambda n, m: (n == m) | (n == 1) | (m == 1))


def packbits(x, axis=None, bitorder="big"):
    """Bools, or integers that are not 0, as bits of uint8, eight along an axis to one; the last is filled by zeros."""
    x = asarray(x)
    x = emit1("ne", [x, 0], {}) if x.dtype != DType.bool else x
    x, d = _lined(x, axis, "packbits")
    n = x.shape[d]
    x = astype(_nabla.moveaxis(x, d, x.ndim - 1), DType.int32)
    groups = (n + 7) // 8
    x = _nabla.pad(x, asarray(0, x.dtype), [0] * x.ndim, [0] * (x.ndim - 1) + [8 * groups - n])
    x = emit1("reshape", [x], {"shape": [*x.shape[:-1], groups, 8]})
    out = emit1("reduce_sum", [x * asarray(_weights(bitorder), DType.int32)], {"axes": [x.ndim - 1]})
    return astype(_nabla.moveaxis(out, out.ndim - 1, d), DType.uint8)


def unpackbits(x, axis=None, count=None, bitorder="big"):
    """The bits of uint8 along an axis, eight for one: uint8 of 0 and 1, the first `count` of them."""
    x = asarray(x)
    if x.dtype != DType.uint8:
        raise TypeError(f"unpackbits: the operand is {x.type_str()}, not uint8")
    x, d = _lined(x, axis, "unpackbits")
    x = astype(_nabla.moveaxis(x, d, x.ndim - 1), DType.int32)
    x = emit1("reshape", [x], {"shape": [*x.shape, 1]})
    bits = emit1("ne", [x & asarray(_weights(bitorder), DType.int32), 0], {})
    bits = emit1("reshape", [bits], {"shape": [*bits.shape[:-2], 8 * bits.shape[-2]]})
    n = bits.shape[-1]
    bits = bits if count is None else bits[..., :count if count >= 0 else n + count]
    return astype(_nabla.moveaxis(bits, bits.ndim - 1, d), DType.uint8)


def _weights(bitorder):
    if bitorder not in ("big", "little"):
        _nabla.fail(204, f"packbits: bitorder {bitorder!r} is none of big, little")
    return [1 << i for i in (range(7, -1, -1) if bitorder == "big" else range(8))]


def _lined(x, axis, what):
    if axis is None:
        return emit1("reshape", [x], {"shape": [count_of(x.shape)]}), 0
    return x, axis_of(axis, x.ndim, what)


def ndim(x):
    """The number of dimensions."""
    return asarray(x).ndim


def size(x, axis=None):
    """The number of elements, or the size along an axis."""
    x = asarray(x)
    return count_of(x.shape) if axis is None else x.shape[axis_of(axis, x.ndim, "size")]


def shape(x):
    """The shape, a tuple of ints and Dims."""
    return asarray(x).shape


bitwise_count, bitwise_invert = population_count, bitwise_not
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
dtype, real = dtype_of, conj

__all__ = [
    "array_equiv", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "can_cast", "conj",
    "dtype", "e", "euler_gamma", "finfo", "float_power", "frexp", "heaviside", "iinfo", "inf", "isdtype", "isneginf",
    "isposinf", "isreal", "isrealobj", "isscalar", "ldexp", "logaddexp2", "modf", "nan", "ndim", "newaxis",
    "nextafter", "packbits", "pi", "real", "shape", "size", "spacing", "unpackbits",
]
