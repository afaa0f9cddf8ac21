"""Reductions and running reductions. `axis`: an int, several, or None for all; axes below 0 count from the end."""

import builtins

from .. import _nabla
from .._core import DType, asarray, astype, default_float, dtype_of, inexact
from ._common import all_static, axes_of, axis_of, count_of, cut, emit1, require_at_least, widened

NARROW = {DType.bool: DType.int32, DType.int8: DType.int32, DType.int16: DType.int32, DType.uint8: DType.uint32,
           DType.uint16: DType.uint32}


def _operand(x, axis, what):
    x = asarray(x)
    return x, axes_of(axis, x.ndim, what)


def _reduced(name, x, axes, keepdims):
    out = emit1(name, [x], {"axes": axes})
    if not keepdims:
        return out
    return emit1("reshape", [out], {"shape": [1 if d in axes else s for d, s in enumerate(x.shape)]})


def sum(x, axis=None, keepdims=False, dtype=None):
    """Sums. bool and integers below 32 bits are summed in int32 or uint32, as in JAX."""
    x, axes = _operand(x, axis, "sum")
    return _reduced("reduce_sum", _accumulated(x, dtype), axes, keepdims)


def _accumulated(x, dtype):
    return astype(x, dtype_of(dtype) if dtype is not None else NARROW.get(x.dtype, x.dtype))


def prod(x, axis=None, keepdims=False, dtype=None):
    """Products, dtypes as in sum. The derivative is exact where elements are zero."""
    x, axes = _operand(x, axis, "prod")
    return _reduced("reduce_prod", _accumulated(x, dtype), axes, keepdims)


def mean(x, axis=None, keepdims=False):
    """Means; integers become the default floating dtype. Of no elements NaN."""
    x, axes = _operand(x, axis, "mean")
    x = _floats(x)
    return astype(_nabla.mean(widened(x), axes, keepdims), x.dtype) if axes else x


def _floats(x):
    return x if x.dtype.is_float() else astype(x, default_float())


def max(x, axis=None, keepdims=False):
    """The largest elements; NaN wins. Elements that tie share the derivative."""
    return _extreme("reduce_max", "reduce_or", x, axis, keepdims)


def min(x, axis=None, keepdims=False):
    """The smallest elements; NaN wins. Elements that tie share the derivative."""
    return _extreme("reduce_min", "reduce_and", x, axis, keepdims)


def _extreme(name, of_bools, x, axis, keepdims):
    x, axes = _operand(x, axis, name)
    for d in axes:
        if isinstance(x.shape[d], int) and x.shape[d] == 0:
            _nabla.fail(204, f"{name}: axis {d} of {x.type_str()} has no elements, and no elements have no extreme")
    return _reduced(of_bools if x.dtype == DType.bool else name, x, axes, keepdims)


def var(x, axis=None, keepdims=False, ddof=0, correction=None):
    """Variances: mean squared distance from the mean, divided by the number of elements minus `ddof` (`correction`)."""
    x, axes = _operand(x, axis, "var")
    ddof = ddof if correction is None else correction
    x = _floats(x)
    if not axes:
        return emit1("sub", [x, x], {})
    sizes = [x.shape[d] for d in axes]
    if all_static(sizes):
        return astype(_nabla.var(widened(x), axes, keepdims, ddof), x.dtype)
    wide = widened(x)
    apart = emit1("sub", [wide, _nabla.mean(wide, axes, True)], {})
    count = emit1("element_count", [], {"shape": sizes, "dtype": DType.int64})
    count = astype(emit1("sub", [count, ddof], {}) if ddof else count, wide.dtype)
    out = emit1("div", [_reduced("reduce_sum", emit1("mul", [apart, apart], {}), axes, keepdims), count], {})
    return astype(out, x.dtype)


def std(x, axis=None, keepdims=False, ddof=0, correction=None):
    """The square root of var. The derivative is 0 if all elements are equal."""
    x = _floats(asarray(x))
    return astype(_length(var(widened(x), axis, keepdims, ddof, correction)), x.dtype)


def all(x, axis=None, keepdims=False):
    """Whether all elements are true, or not 0."""
    x, axes = _operand(x, axis, "all")
    return _reduced("reduce_and", _truth(x), axes, keepdims)


def any(x, axis=None, keepdims=False):
    """Whether an element is true, or not 0."""
    x, axes = _operand(x, axis, "any")
    return _reduced("reduce_or", _truth(x), axes, keepdims)


def _truth(x):
    return x if x.dtype == DType.bool else emit1("ne", [x, 0], {})


def count_nonzero(x, axis=None, keepdims=False):
    """How many elements are not 0: int32, or int64 where there are more than 2^31 - 1."""
    x, axes = _operand(x, axis, "count_nonzero")
    sizes = [x.shape[d] for d in axes]
    many = all_static(sizes) and count_of(sizes) > (1 << 31) - 1
    return sum(_truth(x), axis, keepdims, DType.int64 if many else DType.int32)


def logsumexp(x, axis=None, keepdims=False):
    """log(sum(exp(x))) without overflow."""
    x, axes = _operand(x, axis, "logsumexp")
    x = _floats(x)
    if not axes:
        return x
    if len(axes) == 1:
        out = emit1("logsumexp", [x], {"axis": axes[0]})
    else:
        kept = [d for d in range(x.ndim) if d not in axes]
        moved = emit1("transpose", [x], {"permutation": kept + axes})
        flat = _nabla.flatten(moved, len(kept), -1)
        out = emit1("logsumexp", [flat], {"axis": len(kept)})
    return out if not keepdims else emit1(
        "reshape", [out], {"shape": [1 if d in axes else s for d, s in enumerate(x.shape)]})


def average(x, axis=None, weights=None):
    """Means, or means by weights, which are shaped like x or, for one axis, like that axis."""
    if weights is None:
        return mean(x, axis)
    from .binary import div, mul
    x, weights = inexact(x, weights)
    if weights.ndim == 1 and x.ndim > 1:
        shape = [1] * x.ndim
        shape[axis_of(axis, x.ndim, "average")] = -1
        weights = emit1("reshape", [weights], {"shape": [weights.shape[0] if s == -1 else s for s in shape]})
        weights = _nabla.broadcast_to(weights, x.shape)
    out = div(sum(mul(widened(x), widened(weights)), axis), sum(widened(weights), axis))
    return astype(out, inexact(x, weights)[0].dtype)


def norm_of(x, ord=2, axis=None, keepdims=False):
    """Vector norms (sum |x|^ord)^(1/ord); inf and -inf are the largest and smallest magnitude, 0 counts."""
    from .binary import pow
    x, _ = _operand(x, axis, "norm")
    x = _floats(x)
    size = emit1("abs", [x], {})
    if ord == float("inf"):
        return max(size, axis, keepdims)
    if ord == float("-inf"):
        return min(size, axis, keepdims)
    if ord == 0:
        return astype(count_nonzero(x, axis, keepdims), x.dtype)
    if ord == 1:
        return sum(size, axis, keepdims)
    if ord == 2:
        wide = widened(x)
        return astype(_length(sum(emit1("mul", [wide, wide], {}), axis, keepdims)), x.dtype)
    powers = sum(pow(widened(size), float(ord)), axis, keepdims)
    if ord < 1:
        return astype(pow(powers, 1.0 / ord), x.dtype)
    return astype(_smooth_root(powers, lambda p: pow(p, 1.0 / ord)), x.dtype)


def _length(squares):
    return _smooth_root(squares, lambda s: emit1("sqrt", [s], {}))


def _smooth_root(total, root):
    """The root of a sum of powers, as of a norm. Its derivatives at 0 are defined as 0, which is a subgradient of every
    norm there."""
    zero = emit1("eq", [total, 0], {})
    return emit1("select", [zero, 0.0, root(emit1("select", [zero, 1.0, total], {}))], {})


def median(x, axis=None, keepdims=False):
    """The middle element in order, or the mean of the two in the middle."""
    return quantile(x, 0.5, axis, keepdims)


def quantile(x, q, axis=None, keepdims=False):
    """The element at place q (0 to 1, a number or several, which make a first dimension) in order, linear
    between two. NaN where an element is NaN, and where there is none."""
    x, axes = _operand(x, axis, "quantile")
    x = _floats(x)
    q = places_given(q)
    if isinstance(q, list):
        return at_each(lambda place: quantile(x, place, axis, keepdims), q)
    if not 0 <= q <= 1:
        _nabla.fail(204, f"quantile: q is {q}, not between 0 and 1")
    kept = [d for d in range(x.ndim) if d not in axes]
    moved = emit1("transpose", [x], {"permutation": kept + axes})
    flat = _nabla.flatten(moved, len(kept), -1) if axes else _nabla.unsqueeze(moved, -1)
    n = flat.shape[-1]
    shape = [1 if d in axes else s for d, s in enumerate(x.shape)] if keepdims else list(flat.shape[:-1])
    if isinstance(n, int) and n == 0:
        return _nabla.full(shape, float("nan"), x.dtype)
    out = (_at_place if isinstance(n, int) else _at_place_of_size)(_nabla.sort(flat, -1, False), q)
    has_nan = emit1("reduce_or", [emit1("is_nan", [flat], {})], {"axes": [flat.ndim - 1]})
    out = emit1("select", [has_nan, _nabla.full(out.shape, float("nan"), out.dtype), out], {})
    return emit1("reshape", [out], {"shape": shape}) if keepdims else out


def _at_place(order, q):
    """The element at place q of sorted rows, of one element at least: [...]."""
    n = order.shape[-1]
    place = q * (n - 1)
    low = builtins.min(int(place), n - 1)
    high, part = builtins.min(low + 1, n - 1), place - low
    a, b = [emit1("reshape", [_nabla.slice_axis(order, -1, i, i + 1)], {"shape": list(order.shape[:-1])})
            for i in (low, high)]
    return astype(between(widened(a), widened(b), part), order.dtype) if part else a


def _at_place_of_size(order, q):
    """_at_place where the number of elements is known only at run time."""
    last = order.shape[-1] - 1
    require_at_least(last, 0, "quantile")
    place = emit1("mul", [asarray(last, DType.float64), float(q)], {})
    low = emit1("floor", [place], {})
    part = astype(emit1("sub", [place, low], {}), widened(order).dtype)
    high = emit1("minimum", [emit1("add", [low, 1.0], {}), asarray(last, DType.float64)], {})
    a, b = [_nabla.take(order, astype(i, DType.int32), order.ndim - 1) for i in (low, high)]
    out = astype(between(widened(a), widened(b), part), order.dtype)
    return emit1("select", [_nabla.broadcast_to(emit1("eq", [part, 0.0], {}), list(a.shape)), a, out], {})


def places_given(q):
    """One place as a number, several ones as a list of floats. q is a number, a list, an array or a tensor."""
    if getattr(q, "ndim", None) == 0:
        return float(q)
    return [float(each) for each in q] if hasattr(q, "__len__") else q


def at_each(f, q):
    """f of each place, stacked along a first dimension."""
    rows = [f(each) for each in q]
    if rows:
        return _nabla.stack(rows, 0)
    one = f(0.5)
    return _nabla.full([0, *one.shape], 0.0, one.dtype)


def between(a, b, part):
    """a + part (b - a), for a part from 0 to 1. Also where b - a is infinite or NaN: the mean of two equal infinities
    is that infinity, of -3e38 and 3e38 it is 0."""
    step = emit1("sub", [b, a], {})
    near = emit1("add", [a, emit1("mul", [step, part], {})], {})
    rest = 1 - part if isinstance(part, float) else emit1("sub", [1.0, part], {})
    far = emit1("add", [emit1("mul", [a, rest], {}), emit1("mul", [b, part], {})], {})
    return emit1("select", [emit1("is_finite", [step], {}), near, far], {})


def percentile(x, q, axis=None, keepdims=False):
    """quantile of q / 100."""
    q = places_given(q)
    return quantile(x, [each / 100 for each in q] if isinstance(q, list) else q / 100, axis, keepdims)


def ptp(x, axis=None, keepdims=False):
    """The largest element less the smallest one."""
    return emit1("sub", [max(x, axis, keepdims), min(x, axis, keepdims)], {})


# ---- Positions


def argmax(x, axis=-1, keepdims=False, dtype="int64"):
    """Position of the largest element along `axis`, the first of those that tie; None: in row-major order of all."""
    return _position("argmax", x, axis, keepdims, dtype)


def argmin(x, axis=-1, keepdims=False, dtype="int64"):
    """Position of the smallest element along `axis`, the first of those that tie; None: in row-major order of all."""
    return _position("argmin", x, axis, keepdims, dtype)


def _position(name, x, axis, keepdims, dtype):
    x = asarray(x)
    shape = list(x.shape)
    x = astype(x, DType.int32) if x.dtype == DType.bool else x
    if axis is None:
        x, d = emit1("reshape", [x], {"shape": [count_of(shape)]}), 0
    else:
        d = axis_of(axis, x.ndim, name)
    out = emit1(name, [x], {"axis": d, "dtype": dtype_of(dtype)})
    if not keepdims:
        return out
    return emit1("reshape", [out], {"shape": [1] * len(shape) if axis is None else shape[:d] + [1] + shape[d + 1:]})


def minmax(x):
    """{"min": the smallest, "max": the largest element}."""
    return {"min": min(x), "max": max(x)}


# ---- Running


def _running(name, x, axis, exclusive, reverse):
    x = asarray(x)
    x = astype(x, DType.int32) if x.dtype == DType.bool else x
    if axis is None:
        x, axis = emit1("reshape", [x], {"shape": [count_of(x.shape)]}), 0
    return emit1(name, [x], {"axis": axis_of(axis, x.ndim, name), "reverse": reverse, "exclusive": exclusive})


def cumsum(x, axis=-1, exclusive=False, reverse=False):
    """Running sums. `exclusive`: without the element itself, from 0; `reverse`: from the end. None: of all elements."""
    return _running("cumsum", x, axis, exclusive, reverse)


def cumprod(x, axis=-1, exclusive=False, reverse=False):
    """Running products; arguments as of cumsum."""
    x = asarray(x)
    n = count_of(x.shape) if axis is None else x.shape[axis_of(axis, x.ndim, "cumprod")]
    return (_running if isinstance(n, int) else _running_of_size)("cumprod", x, axis, exclusive, reverse)


def _running_of_size(name, x, axis, exclusive, reverse):
    """cumprod along an axis whose size is known only at run time, for which there is no op."""
    from ..transforms import associative_scan
    from .binary import mul
    x = astype(x, DType.int32) if x.dtype == DType.bool else x
    if axis is None:
        x, axis = emit1("reshape", [x], {"shape": [count_of(x.shape)]}), 0
    d = axis_of(axis, x.ndim, name)
    out, n = associative_scan(mul, x, reverse=reverse, axis=d), x.shape[d]
    if not exclusive:
        return out
    one = _nabla.full([1 if i == d else s for i, s in enumerate(x.shape)], 1.0, x.dtype)
    out = emit1("concatenate", [out, one] if reverse else [one, out], {"axis": d})
    return cut(out, d, 1, n + 1) if reverse else cut(out, d, 0, n)


def cummax(x, axis=-1, exclusive=False, reverse=False):
    """The largest element so far; exclusive begins with -infinity or the least integer."""
    return _running("cummax", x, axis, exclusive, reverse)


def cummin(x, axis=-1, exclusive=False, reverse=False):
    """The smallest element so far; exclusive begins with infinity or the largest integer."""
    return _running("cummin", x, axis, exclusive, reverse)


def cumlogsumexp(x, axis=-1, reverse=False):
    """log of the running sum of exp(x), without overflow."""
    from ..transforms import associative_scan
    from .binary import logaddexp
    x = _floats(asarray(x))
    return associative_scan(logaddexp, x, reverse=reverse, axis=axis_of(axis, x.ndim, "cumlogsumexp"))


def diff(x, n=1, axis=-1):
    """Differences of neighbours along an axis, n times."""
    x = asarray(x)
    d = axis_of(axis, x.ndim, "diff")
    if not isinstance(x.shape[d], int):
        require_at_least(x.shape[d], n, f"diff of {x.type_str()} along axis {d}")
    for _ in range(n):
        size = x.shape[d]
        if isinstance(size, int) and size < 2:
            dtype = DType.bool if x.dtype == DType.bool else x.dtype
            return _nabla.full([0 if i == d else s for i, s in enumerate(x.shape)], 0.0, dtype)
        a, b = cut(x, d, 1, size), cut(x, d, 0, size - 1)
        x = emit1("ne" if x.dtype == DType.bool else "sub", [a, b], {})
    return x


reduce_sum, reduce_max, reduce_min = sum, max, min
amax, amin = max, min

# Tensors have no hidden batch dimensions here: inside vmap a function sees one example, so physical axes are axes.
reduce_sum_physical, mean_physical, reduce_max_physical, reduce_min_physical = sum, mean, max, min

def cumulative_sum(x, axis=-1, include_initial=False):
    """Running sums along an axis, with a 0 before them on request (the array API standard)."""
    return _with_initial(cumsum(x, axis), axis, include_initial, 0.0)


def cumulative_prod(x, axis=-1, include_initial=False):
    """Running products along an axis, with a 1 before them on request (the array API standard)."""
    return _with_initial(cumprod(x, axis), axis, include_initial, 1.0)


def _with_initial(x, axis, wanted, value):
    if not wanted:
        return x
    d = axis_of(axis, x.ndim, "cumulative_sum")
    first = _nabla.full([1 if i == d else s for i, s in enumerate(x.shape)], value, x.dtype)
    return emit1("concatenate", [first, x], {"axis": d})


__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "cumlogsumexp", "cummax", "cummin",
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff", "logsumexp", "max", "mean", "mean_physical",
    "median", "min", "minmax", "norm_of",
    "percentile", "prod", "ptp", "quantile", "reduce_max", "reduce_max_physical", "reduce_min", "reduce_min_physical",
    "reduce_sum",
    "reduce_sum_physical", "std", "sum", "var",
]
