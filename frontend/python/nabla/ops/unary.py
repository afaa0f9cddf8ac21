"""Functions of one operand, element by element. Integers become the default floating dtype where the result is no
integer."""

import builtins
import math

from .. import _nabla
from .._core import DType, asarray, astype, check_fits, dtype_of, inexact
from ._common import axis_of, emit1


def _floating(x):
    return inexact(x)[0]


def _made(name, doc):
    def function(x):
        return emit1(name, inexact(x), {})

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


sigmoid = _made("logistic", "1 / (1 + exp(-x)).")
tanh = _made("tanh", "Hyperbolic tangent.")
exp = _made("exp", "e to the power x.")
exp2 = _made("exp2", "2 to the power x.")
expm1 = _made("expm1", "exp(x) - 1, exact near 0.")
log = _made("log", "Natural logarithm; NaN below 0.")
log2 = _made("log2", "Logarithm to the base 2.")
log1p = _made("log1p", "log(1 + x), exact near 0.")
sqrt = _made("sqrt", "Square root; NaN below 0. The derivative at 0 is infinite.")
rsqrt = _made("rsqrt", "1 / sqrt(x).")
cbrt = _made("cbrt", "Cube root, also of negative values.")
sin = _made("sin", "Sine of x in radians.")
cos = _made("cos", "Cosine of x in radians.")
tan = _made("tan", "Tangent of x in radians.")
asin = _made("asin", "Arc sine in [-pi/2, pi/2]; NaN beyond -1 and 1.")
acos = _made("acos", "Arc cosine in [0, pi]; NaN beyond -1 and 1.")
atan = _made("atan", "Arc tangent in [-pi/2, pi/2].")
sinh = _made("sinh", "Hyperbolic sine.")
cosh = _made("cosh", "Hyperbolic cosine.")
asinh = _made("asinh", "Inverse hyperbolic sine.")
acosh = _made("acosh", "Inverse hyperbolic cosine; NaN below 1.")
atanh = _made("atanh", "Inverse hyperbolic tangent; 1 and -1 give infinities.")
erf = _made("erf", "The error function.")
erfc = _made("erfc", "1 - erf(x), exact where erf is near 1.")
erfinv = _made("erfinv", "The inverse of erf.")
lgamma = _made("lgamma", "log |gamma(x)|; infinite at 0 and the negative integers.")
i0e = _made("bessel_i0e", "exp(-|x|) I0(x): the modified Bessel function of order 0, scaled.")
i1e = _made("bessel_i1e", "exp(-|x|) I1(x): the modified Bessel function of order 1, scaled.")
silu = _made("silu", "x / (1 + exp(-x)), also called swish.")
sigmoid.__name__ = sigmoid.__qualname__ = "sigmoid"
i0e.__name__ = i0e.__qualname__ = "i0e"
i1e.__name__ = i1e.__qualname__ = "i1e"


def _native(name, doc):
    native = getattr(_nabla, name)

    def function(x):
        return native(asarray(_floating(x)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


softplus = _native("softplus", "log(1 + exp(x)) without overflow.")
log_sigmoid = _native("log_sigmoid", "log(sigmoid(x)) without overflow.")
selu = _native("selu", "The self-normalising multiple of elu (Klambauer et al., 2017).")
mish = _native("mish", "x tanh(softplus(x)) (Misra, 2019).")
digamma = _native("digamma", "The derivative of lgamma.")
i0 = _native("bessel_i0", "The modified Bessel function of the first kind of order 0.")
i1 = _native("bessel_i1", "The modified Bessel function of the first kind of order 1.")


def relu(x):
    """max(x, 0). The derivative at 0 is 0."""
    x = asarray(x)
    return emit1("relu", [x], {}) if x.dtype.is_float() else emit1("maximum", [_number(x), 0], {})


def relu6(x):
    """x between 0 and 6. The derivative at 0 and 6 is 0."""
    x = asarray(x)
    return _bounded(x, 0.0, 6.0) if x.dtype.is_float() else _nabla.clip(_number(x), 0, 6)


def _bounded(x, low, high):
    """Floats kept between low and high. The derivative at both ends is 0, where that of _nabla.clip is 1."""
    below = emit1("select", [emit1("ge", [x, high], {}), high, x], {})
    return emit1("select", [emit1("le", [x, low], {}), low, below], {})


def hard_sigmoid(x):
    """clip(x + 3, 0, 6) / 6. The derivative at -3 and 3 is 0."""
    return emit1("div", [_bounded(emit1("add", [asarray(_floating(x)), 3.0], {}), 0.0, 6.0), 6.0], {})


def hard_swish(x):
    """x times hard_sigmoid(x). The derivative at -3 is 0, and at 3 it is 1."""
    x = asarray(_floating(x))
    return emit1("mul", [x, hard_sigmoid(x)], {})


def neg(x):
    """-x; integers wrap. Raises TypeError for bools."""
    x = asarray(x)
    if x.dtype == DType.bool:
        raise TypeError("neg: a bool has no negative; logical_not inverts it")
    return emit1("neg", [x], {})


def abs(x):
    """|x|; the most negative integer stays. The derivative at 0 is 0."""
    x = asarray(x)
    return x if x.dtype == DType.bool else emit1("abs", [x], {})


def sign(x):
    """-1, 0 or 1; NaN stays. The derivative is 0."""
    return emit1("sign", [_number(asarray(x))], {})


def _number(x):
    return astype(x, DType.int32) if x.dtype == DType.bool else x


def square(x):
    """x times x."""
    x = _number(asarray(x))
    return emit1("mul", [x, x], {})


def reciprocal(x):
    """1 / x."""
    return emit1("div", [1.0, asarray(_floating(x))], {})


def positive(x):
    """x."""
    return asarray(x)


def _rounded(name, doc):
    def function(x):
        x = _number(asarray(x))
        return emit1(name, [x], {}) if x.dtype.is_float() else x

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


floor = _rounded("floor", "The largest integer that is not above x. Integers stay. The derivative is 0.")
ceil = _rounded("ceil", "The smallest integer that is not below x. Integers stay. The derivative is 0.")
trunc = _rounded("trunc", "The integer part, towards zero. Integers stay. The derivative is 0.")


def round(x, decimals=0):
    """x rounded to that many decimals, ties to even; below 0 to multiples of 10, 100, .... Integers stay integers, and
    are 0 where they are less than half of a multiple that their dtype does not hold. The derivative is 0."""
    x = _number(asarray(x))
    if not x.dtype.is_float():
        return x if decimals >= 0 else _rounded_integer(x, 10 ** min(-decimals, 30))
    if decimals == 0:
        return emit1("round", [x], {})
    wide = astype(x, DType.float32) if x.dtype.itemsize < 4 else x
    largest, digits = (1.7e308, 53) if wide.dtype == DType.float64 else (3.4e38, 24)
    scale = 10 ** min(builtins.abs(decimals), 400)
    if scale > largest:
        zero = emit1("mul", [emit1("sign", [x], {}), 0.0], {})
        return x if decimals > 0 else emit1("select", [emit1("is_finite", [x], {}), zero, x], {})
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    scaled = emit1(there, [wide, float(scale)], {})
    out = emit1(back, [emit1("round", [scaled], {}), float(scale)], {})
    if decimals > 0:  # beyond that there are no decimals, and infinity where the scaled number is too large
        few = emit1("lt", [emit1("abs", [scaled], {}), 2.0 ** digits], {})
        out = emit1("select", [few, out, wide], {})
    return astype(out, x.dtype)


def _rounded_integer(x, scale):
    try:
        check_fits(scale, x.dtype)
    except OverflowError:
        return emit1("mul", [x, 0], {})
    half, scale = asarray(scale // 2, x.dtype), asarray(scale, x.dtype)
    low = _nabla.floor_divide(x, scale)
    rest = emit1("sub", [x, emit1("mul", [low, scale], {})], {})
    odd = emit1("ne", [emit1("and", [low, 1], {}), 0], {})
    tie = emit1("and", [emit1("eq", [rest, half], {}), odd], {})
    up = emit1("or", [emit1("gt", [rest, half], {}), tie], {})
    return emit1("mul", [emit1("add", [low, astype(up, x.dtype)], {}), scale], {})


def log10(x):
    """Logarithm to the base 10."""
    return emit1("mul", [emit1("log", [asarray(_floating(x))], {}), 0.4342944819032518], {})


def exp10(x):
    """10 to the power x."""
    return emit1("pow", [10.0, asarray(_floating(x))], {})


def logit(x):
    """log(x / (1 - x)): the inverse of sigmoid."""
    x = asarray(_floating(x))
    return emit1("sub", [emit1("log", [x], {}), emit1("log1p", [emit1("neg", [x], {})], {})], {})


def deg2rad(x):
    """Degrees as radians."""
    return emit1("mul", [asarray(_floating(x)), 0.017453292519943295], {})


def rad2deg(x):
    """Radians as degrees."""
    return emit1("mul", [asarray(_floating(x)), 57.29577951308232], {})


def sinc(x):
    """sin(pi x) / (pi x), 1 at 0."""
    x = asarray(_floating(x))
    angle = emit1("mul", [x, 3.141592653589793], {})
    square = emit1("mul", [angle, angle], {})
    # Near 0 Taylor's series, of which all derivatives are exact; those of the quotient cancel there.
    near = emit1("lt", [square, 1.0], {})
    square = emit1("select", [near, square, _nabla.full(x.shape, 0.0, x.dtype)], {})
    series = _nabla.full(x.shape, _SINC[-1], x.dtype)
    for coefficient in _SINC[-2::-1]:
        series = emit1("add", [emit1("mul", [series, square], {}), coefficient], {})
    angle = emit1("select", [near, _nabla.full(x.shape, 1.0, x.dtype), angle], {})
    return emit1("select", [near, series, emit1("div", [emit1("sin", [angle], {}), angle], {})], {})


_SINC = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(10)]  # of the powers of the angle's square


def polygamma(n, x):
    """The derivative of order n + 1 of lgamma, n a Python int from 0 to 12."""
    return emit1("polygamma", [asarray(_floating(x))], {"order": n})


def zeta(x, q=1.0):
    """Hurwitz' zeta function, the sum of (q + k)^-x over k >= 0, for x > 1 and q > 0; Riemann's for q = 1."""
    x, q = inexact(x, q)
    return _nabla.zeta(x, q)


def gelu(x, approximate="none"):
    """x times the normal distribution function of x: "none" by erf, "tanh" by tanh (Hendrycks and Gimpel, 2016).

    True stands for "tanh", False for "none". The derivative is that of the variant.
    """
    if isinstance(approximate, bool):
        approximate = "tanh" if approximate else "none"
    return emit1("gelu", [asarray(_floating(x))], {"approximate": approximate})


def leaky_relu(x, negative_slope=0.01):
    """x, or negative_slope * x below 0."""
    return _nabla.leaky_relu(asarray(_floating(x)), float(negative_slope))


def elu(x, alpha=1.0):
    """x, or alpha (exp(x) - 1) below 0."""
    return _nabla.elu(asarray(_floating(x)), float(alpha))


def celu(x, alpha=1.0):
    """max(x, 0) + min(0, alpha (exp(x / alpha) - 1))."""
    x = asarray(_floating(x))
    positive = emit1("gt", [x, 0], {})
    # The other side must not overflow where x is positive. (minimum would halve the slope at 0.)
    low = emit1("select", [positive, _nabla.full(x.shape, 0.0, x.dtype), x], {})
    low = emit1("mul", [emit1("expm1", [emit1("div", [low, float(alpha)], {})], {}), float(alpha)], {})
    return emit1("select", [positive, x, low], {})


def hard_tanh(x):
    """x between -1 and 1."""
    return _nabla.clip(asarray(_floating(x)), -1, 1)


def soft_sign(x):
    """x / (1 + |x|)."""
    x = asarray(_floating(x))
    return emit1("div", [x, emit1("add", [emit1("abs", [x], {}), 1], {})], {})


def glu(x, axis=-1):
    """The first half along an axis times sigmoid of the second half."""
    a, b = _nabla.split(asarray(_floating(x)), 2, axis)
    return emit1("mul", [a, emit1("logistic", [b], {})], {})


def softmax(x, axis=-1):
    """exp(x) divided by its sum along `axis` (several axes: over all of them together), without overflow."""
    return _over_axes("softmax", x, axis)


def logsoftmax(x, axis=-1):
    """x minus the logarithm of the sum of exp(x) along `axis`, without overflow."""
    return _over_axes("log_softmax", x, axis)


def _over_axes(name, x, axis):
    x = asarray(_floating(x))
    if isinstance(axis, int):
        return emit1(name, [x], {"axis": axis_of(axis, x.ndim, name)})
    axes = list(range(x.ndim)) if axis is None else [axis_of(a, x.ndim, name) for a in axis]
    order = [d for d in range(x.ndim) if d not in axes] + axes
    moved = emit1("transpose", [x], {"permutation": order})
    flat = _nabla.flatten(moved, x.ndim - len(axes), -1)
    out = emit1("reshape", [emit1(name, [flat], {"axis": flat.ndim - 1})], {"shape": list(moved.shape)})
    return emit1("transpose", [out], {"permutation": [order.index(d) for d in range(x.ndim)]})


def clip(x, min=None, max=None):
    """x kept between min and max; None is no bound. Where min > max the result is max."""
    from .binary import maximum, minimum
    if min is not None:
        x = maximum(x, min)
    if max is not None:
        x = minimum(x, max)
    return asarray(x)


def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    """x with numbers in place of NaN and infinities (by default the largest finite ones)."""
    x = asarray(x)
    if not x.dtype.is_float():
        return x
    largest = {DType.float16: 65504.0, DType.bfloat16: 3.3895313892515355e38, DType.float32: 3.4028234663852886e38,
               DType.float64: 1.7976931348623157e308}[x.dtype]

    def put(out, where, value):
        return emit1("select", [where, _nabla.full(x.shape, float(value), x.dtype), out], {})

    out = put(x, emit1("is_nan", [x], {}), nan)
    infinite = emit1("is_inf", [x], {})
    above = emit1("and", [infinite, emit1("gt", [x, 0], {})], {})
    below = emit1("and", [infinite, emit1("lt", [x, 0], {})], {})
    return put(put(out, above, largest if posinf is None else posinf), below, -largest if neginf is None else neginf)


def _tested(name, doc, otherwise):
    def function(x):
        x = asarray(x)
        if x.dtype.is_float():
            return emit1(name, [x], {})
        return _nabla.full(x.shape, float(otherwise), DType.bool)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


is_nan = _tested("is_nan", "Where x is NaN: bool.", False)
is_inf = _tested("is_inf", "Where x is infinite: bool.", False)
is_finite = _tested("is_finite", "Where x is neither infinite nor NaN: bool.", True)


def signbit(x):
    """Where the sign bit is set: below 0, and -0."""
    x = asarray(x)
    if not x.dtype.is_float():
        return emit1("lt", [_number(x), 0], {})
    bits = {2: DType.int16, 4: DType.int32, 8: DType.int64}[x.dtype.itemsize]
    return emit1("lt", [emit1("bitcast", [x], {"dtype": bits}), 0], {})


def bitwise_not(x):
    """The other bits; of bools: where x is false. Raises TypeError for floats."""
    x = asarray(x)
    if x.dtype.is_float():
        raise TypeError(f"bitwise_not: operands are integers or bools, got {x.type_str()}")
    return emit1("not", [x], {})


def population_count(x):
    """How many bits of an integer are set."""
    return emit1("popcount", [asarray(x)], {})


def clz(x):
    """How many bits above the highest set one are zero."""
    return emit1("clz", [asarray(x)], {})


def bitcast(x, dtype):
    """The bits of x read as another dtype of the same size."""
    return emit1("bitcast", [asarray(x)], {"dtype": dtype_of(dtype)})


def cast(x, dtype):
    """x in another dtype: to narrower floats rounded to nearest even, floats to integers towards zero, saturating."""
    return astype(x, dtype)


negative = neg
absolute = fabs = abs
logistic = sigmoid
swish = silu
log_softmax = logsoftmax
rint = round
fix = trunc
arcsin, arccos, arctan = asin, acos, atan
arcsinh, arccosh, arctanh = asinh, acosh, atanh
isnan, isinf, isfinite = is_nan, is_inf, is_finite
invert = bitwise_not
radians, degrees = deg2rad, rad2deg
hard_silu = hard_swish

around = round

__all__ = [
    "abs", "absolute", "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh",
    "around", "atan", "atanh", "bitcast", "bitwise_not", "cast", "cbrt", "ceil", "celu", "clip", "clz", "cos", "cosh",
    "deg2rad",
    "degrees", "digamma", "elu", "erf", "erfc", "erfinv", "exp", "exp10", "exp2", "expm1", "fabs", "fix", "floor",
    "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "i0", "i0e", "i1", "i1e", "invert",
    "is_finite", "is_inf", "is_nan", "isfinite", "isinf", "isnan", "leaky_relu", "lgamma", "log", "log10", "log1p",
    "log2", "log_sigmoid", "log_softmax", "logistic", "logit", "logsoftmax", "mish", "nan_to_num", "neg", "negative",
    "polygamma", "population_count", "positive", "rad2deg", "radians", "reciprocal", "relu", "relu6", "rint", "round",
    "rsqrt", "selu", "sigmoid", "sign", "signbit", "silu", "sin", "sinc", "sinh", "soft_sign", "softmax", "softplus",
    "sqrt", "square", "swish", "tan", "tanh", "trunc", "zeta",
]
