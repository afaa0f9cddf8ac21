"""What the layers compute with: ops by their records, operands promoted by the package's rules. Internal."""

from .. import _nabla
from .._core import DType, Tensor, asarray, astype, default_float, dtype_of, inexact, operand, promoted
from ..ops._common import wide_dtype, widened  # noqa: F401

emit = _nabla.emit


def op(name, *operands, **attributes):
    """The only, or the first, result of an op."""
    return emit(name, [operand(x) for x in operands], attributes)[0]


def add(a, b):
    return op("add", *promoted(a, b))


def sub(a, b):
    return op("sub", *promoted(a, b))


def mul(a, b):
    return op("mul", *promoted(a, b))


def div(a, b):
    return op("div", *inexact(a, b))


def power(a, b):
    return op("pow", *inexact(a, b))


def maximum(a, b):
    return op("maximum", *promoted(a, b))


def minimum(a, b):
    return op("minimum", *promoted(a, b))


def matmul(a, b):
    return _nabla.matmul(*promoted(asarray(a), asarray(b)))


def unary(name, x, **attributes):
    """A floating function of one tensor."""
    return op(name, asarray(inexact(x)[0]), **attributes)


def neg(x):
    return op("neg", asarray(x))


def square(x):
    x = asarray(x)
    return op("mul", x, x)


def sqrt(x):
    return unary("sqrt", x)


def rsqrt(x):
    return unary("rsqrt", x)


def tanh(x):
    return unary("tanh", x)


def sigmoid(x):
    return unary("logistic", x)


def where(condition, a, b):
    a, b = promoted(a, b)
    dtype = a.dtype if isinstance(a, Tensor) else b.dtype
    return op("select", condition, asarray(a, dtype), asarray(b, dtype))


def axes_of(axis, ndim):
    """None, an int or several as a list of dimensions; an empty list stands for all."""
    if axis is None:
        return list(range(ndim))
    axes = [axis] if isinstance(axis, int) else list(axis)
    for a in axes:
        if not -ndim <= a < ndim:
            raise ValueError(f"axis {a} of a tensor of {ndim} dimensions")
    return sorted(a % ndim for a in axes)


def total(x, axis=None, keepdims=False):
    x = asarray(x)
    return _nabla.sum(x, axes_of(axis, x.ndim), keepdims) if x.ndim else x


def mean(x, axis=None, keepdims=False):
    x = asarray(inexact(x)[0])
    return astype(_nabla.mean(widened(x), axes_of(axis, x.ndim), keepdims), x.dtype) if x.ndim else x


def reshape(x, *shape):
    """With one extent of -1 where all other sizes are static."""
    x = asarray(x)
    shape = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
    unknown = [i for i, s in enumerate(shape) if isinstance(s, int) and s == -1]
    if unknown:
        count, known = 1, 1
        for s in x.shape:
            count *= int(s)
        for i, s in enumerate(shape):
            known *= 1 if i in unknown else int(s)
        shape[unknown[0]] = count // known if known else 0
    return op("reshape", x, shape=shape)


def transpose(x, *permutation):
    return op("transpose", asarray(x), permutation=list(permutation))


def swapped(x, a, b):
    """Two dimensions exchanged."""
    x = asarray(x)
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return op("transpose", x, permutation=order)


def concatenate(xs, axis):
    xs = promoted(*[asarray(x) for x in xs])
    return op("concatenate", *xs, axis=axis % xs[0].ndim)


def stack(xs, axis=0):
    return _nabla.stack(promoted(*[asarray(x) for x in xs]), axis)


def part(x, axis, start, stop):
    """x[start:stop] along one axis."""
    return _nabla.slice_axis(x, axis, start, stop)


def iota(count, dtype=DType.int32):
    return emit("iota", [], {"shape": [count], "axis": 0, "dtype": dtype})[0]


def size(n):
    """A size, which may be known only at run time, as an int32 scalar."""
    return asarray(n, DType.int32) if isinstance(n, int) else emit("element_count", [], {
        "shape": [n], "dtype": DType.int32})[0]


def positions(start, count):
    """start, start + 1, ...: int32 [count]."""
    return add(iota(count), cast(asarray(start), DType.int32))


def lower_mask(rows, columns, k=0):
    """bool [rows, columns]: whether column - row <= k, a number or an int32 scalar."""
    row, column = (emit("iota", [], {"shape": [rows, columns], "axis": i, "dtype": DType.int32})[0] for i in (0, 1))
    return op("le", *promoted(sub(column, row), k))


def full(shape, value, dtype=None):
    return _nabla.full(list(shape), float(value), default_float() if dtype is None else dtype_of(dtype))


def zeros(shape, dtype=None):
    return full(shape, 0.0, dtype)


def ones(shape, dtype=None):
    return full(shape, 1.0, dtype)


def zeros_like(x):
    return _nabla.full(list(x.shape), 0.0, x.dtype)


def scalar(x, dtype):
    """A number or a scalar tensor in this dtype."""
    return asarray(x, dtype)


def cast(x, dtype):
    return astype(x, dtype)


def is_number(x):
    return isinstance(x, (bool, int, float)) and not isinstance(x, Tensor)
