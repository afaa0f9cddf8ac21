"""Comparisons and logic: bool results without a derivative. Shapes broadcast, dtypes meet by JAX's table."""

from .. import _nabla
from .._core import Tensor, asarray, operand, promoted, weak_floats
from ._common import emit1, places_in, require_at_least, same_size, tensors
from .binary import broadcast_arrays


def equal(x, y):
    """Where x == y; NaN equals nothing."""
    return emit1("eq", promoted(x, y), {})


def not_equal(x, y):
    """Where x != y."""
    return emit1("ne", promoted(x, y), {})


def greater(x, y):
    """Where x > y."""
    return emit1("gt", _ordered(x, y), {})


def greater_equal(x, y):
    """Where x >= y."""
    return emit1("ge", _ordered(x, y), {})


def less(x, y):
    """Where x < y."""
    return emit1("lt", _ordered(x, y), {})


def less_equal(x, y):
    """Where x <= y."""
    return emit1("le", _ordered(x, y), {})


def _ordered(x, y):
    x, y = promoted(x, y)
    dtype = x.dtype if isinstance(x, Tensor) else y.dtype
    if dtype == _nabla.DType.bool:
        return [asarray(v, "int32") for v in (x, y)]
    return [x, y]


def _truth(x):
    x = asarray(operand(x))
    return x if x.dtype == _nabla.DType.bool else emit1("ne", [x, 0], {})


def logical_and(x, y):
    """Where both are true; numbers are true unless 0."""
    return emit1("and", [_truth(x), _truth(y)], {})


def logical_or(x, y):
    """Where one is true."""
    return emit1("or", [_truth(x), _truth(y)], {})


def logical_xor(x, y):
    """Where exactly one is true."""
    return emit1("xor", [_truth(x), _truth(y)], {})


def logical_not(x):
    """Where x is false, or 0."""
    return emit1("not", [_truth(x)], {})


def isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Where |x - y| <= atol + rtol |y|; infinities are close to themselves."""
    x, y = broadcast_arrays(*tensors(x, y))
    if not x.dtype.is_float():
        x, y = asarray(x, "float64"), asarray(y, "float64")
    distance = emit1("abs", [emit1("sub", [x, y], {})], {})
    size = emit1("abs", [y], {})
    near = emit1("le", [distance, emit1("add", [emit1("mul", [size, float(rtol)], {}), float(atol)], {})], {})
    finite = emit1("and", [emit1("is_finite", [x], {}), emit1("is_finite", [y], {})], {})
    out = emit1("or", [emit1("and", [near, finite], {}), emit1("eq", [x, y], {})], {})
    if equal_nan:
        out = emit1("or", [out, emit1("and", [emit1("is_nan", [x], {}), emit1("is_nan", [y], {})], {})], {})
    return out


def allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether isclose holds everywhere: a bool scalar."""
    return _nabla.all(isclose(x, y, rtol, atol, equal_nan), [], False)


def array_equal(x, y):
    """Whether shapes and all elements are equal: a bool scalar."""
    x, y = weak_floats(x), weak_floats(y)
    same = [same_size(n, m) for n, m in zip(x.shape, y.shape)]
    if x.ndim != y.ndim or False in same:
        return asarray(False)
    if None in same:
        return equal_if(x, y, "array_equal", lambda n, m: n == m)
    return _nabla.all(equal(x, y), [], False)


def equal_if(x, y, what, condition):
    """Whether all elements of two tensors of one rank are equal, and their sizes n and m fulfil `condition(n, m)`.

    Sizes may be known only at run time: beyond the end of the shorter dimension, its last element is compared. A wrong
    result of these comparisons does not matter, because the condition is false then.
    """
    holds = asarray(True)
    for d, (n, m) in enumerate(zip(x.shape, y.shape)):
        if same_size(n, m):
            continue
        require_at_least(n, 1, what), require_at_least(m, 1, what)
        place = places_in(n + m)
        x, y = [_nabla.take(t, emit1("minimum", [place, asarray(t.shape[d] - 1, place.dtype)], {}), d) for t in (x, y)]
        holds = emit1("and", [holds, condition(asarray(n, "int64"), asarray(m, "int64"))], {})
    return emit1("and", [holds, _nabla.all(equal(x, y), [], False)], {})


eq, ne, gt, ge, lt, le = equal, not_equal, greater, greater_equal, less, less_equal

__all__ = [
    "allclose", "array_equal", "eq", "equal", "ge", "greater", "greater_equal", "gt", "isclose", "le", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "ne", "not_equal",
]
