"""Reductions that leave NaN out. Integers and bools have none: there they are the reductions of the plain names."""

from .. import _nabla
from .._core import DType, asarray, astype
from . import reduction as _r
from ._common import axes_of, count_of, emit1, widened


def _parts(x, value):
    """x with `value` in place of NaN, and where it was."""
    x = asarray(x)
    if not x.dtype.is_float():
        return x, _nabla.full(x.shape, 0.0, DType.bool)
    there = emit1("is_nan", [x], {})
    return emit1("select", [there, _nabla.full(x.shape, value, x.dtype), x], {}), there


def _count(there, dtype, axis, keepdims):
    return astype(_r.sum(astype(emit1("not", [there], {}), DType.int32), axis, keepdims), dtype)


def _unless_empty(out, there, axis, keepdims):
    """NaN where all elements were NaN."""
    nothing = _r.all(there, axis, keepdims)
    return emit1("select", [nothing, _nabla.full(out.shape, float("nan"), out.dtype), out], {})


def nansum(x, axis=None, keepdims=False, dtype=None):
    """The sum of what is not NaN; 0 of nothing."""
    return _r.sum(_parts(x, 0.0)[0], axis, keepdims, dtype)


def nanprod(x, axis=None, keepdims=False, dtype=None):
    """The product of what is not NaN; 1 of nothing."""
    return _r.prod(_parts(x, 1.0)[0], axis, keepdims, dtype)


def nanmean(x, axis=None, keepdims=False):
    """The mean of what is not NaN; NaN of nothing."""
    kept, there = _parts(x, 0.0)
    if not kept.dtype.is_float():
        return _r.mean(kept, axis, keepdims)
    wide = widened(kept)
    out = emit1("div", [_r.sum(wide, axis, keepdims), _count(there, wide.dtype, axis, keepdims)], {})
    return astype(out, kept.dtype)


def nanvar(x, axis=None, keepdims=False, ddof=0):
    """The variance of what is not NaN: squares of distances from the mean over their number less `ddof`."""
    x = asarray(x)
    if not x.dtype.is_float():
        return _r.var(x, axis, keepdims, ddof)
    dtype, x = x.dtype, widened(x)
    kept, there = _parts(x, 0.0)
    distance = emit1("sub", [kept, nanmean(x, axis, True)], {})
    distance = emit1("select", [there, _nabla.full(x.shape, 0.0, x.dtype), distance], {})
    count = emit1("sub", [_count(there, x.dtype, axis, keepdims), float(ddof)], {})
    out = emit1("div", [_r.sum(emit1("mul", [distance, distance], {}), axis, keepdims), count], {})
    few = emit1("le", [count, 0.0], {})
    return astype(emit1("select", [few, _nabla.full(out.shape, float("nan"), out.dtype), out], {}), dtype)


def nanstd(x, axis=None, keepdims=False, ddof=0):
    """The square root of nanvar."""
    x = asarray(x)
    out = emit1("sqrt", [nanvar(widened(x), axis, keepdims, ddof)], {})
    return astype(out, x.dtype) if x.dtype.is_float() else out


def nanmax(x, axis=None, keepdims=False):
    """The largest element that is not NaN; NaN of nothing."""
    kept, there = _parts(x, float("-inf"))
    out = _r.max(kept, axis, keepdims)
    return _unless_empty(out, there, axis, keepdims) if kept.dtype.is_float() else out


def nanmin(x, axis=None, keepdims=False):
    """The smallest element that is not NaN; NaN of nothing."""
    kept, there = _parts(x, float("inf"))
    out = _r.min(kept, axis, keepdims)
    return _unless_empty(out, there, axis, keepdims) if kept.dtype.is_float() else out


def _position(find, x, value, axis, keepdims):
    kept, there = _parts(x, value)
    out = find(kept, axis, keepdims)
    nothing = _r.all(there, axis, keepdims)
    return emit1("select", [nothing, _nabla.full(out.shape, -1.0, out.dtype), out], {})


def nanargmax(x, axis=None, keepdims=False):
    """Position of the largest element that is not NaN, in row-major order of all for axis None; -1 of nothing."""
    return _position(_r.argmax, x, float("-inf"), axis, keepdims)


def nanargmin(x, axis=None, keepdims=False):
    """Position of the smallest element that is not NaN, in row-major order of all for axis None; -1 of nothing."""
    return _position(_r.argmin, x, float("inf"), axis, keepdims)


def _running(run, x, axis, value):
    kept = _parts(x, value)[0]
    if axis is None:
        kept, axis = emit1("reshape", [kept], {"shape": [count_of(kept.shape)]}), 0
    return run(kept, axis)


def nancumsum(x, axis=None):
    """Running sums along an axis (None: of all elements) in which NaN counts as 0."""
    return _running(_r.cumsum, x, axis, 0.0)


def nancumprod(x, axis=None):
    """Running products along an axis (None: of all elements) in which NaN counts as 1."""
    return _running(_r.cumprod, x, axis, 1.0)


def nanquantile(x, q, axis=None, keepdims=False):
    """quantile of what is not NaN: q is a number from 0 to 1, or several; NaN of nothing."""
    x = asarray(x)
    q = _r.places_given(q)
    if isinstance(q, list):
        return _r.at_each(lambda place: nanquantile(x, place, axis, keepdims), q)
    if not 0 <= q <= 1:
        _nabla.fail(204, f"nanquantile: q is {q}, not between 0 and 1")
    axes = axes_of(axis, x.ndim, "nanquantile")
    if not x.dtype.is_float() or count_of(x.shape) == 0 or not axes:
        return _r.quantile(x, q, axis, keepdims)
    kept = [d for d in range(x.ndim) if d not in axes]
    flat = _nabla.flatten(emit1("transpose", [x], {"permutation": kept + axes}), len(kept), -1)
    values, there = _parts(flat, float("inf"))
    order = widened(_nabla.sort(values, -1, False))
    count = _count(there, DType.float64, -1, True)  # float16 counts to 2048, float32 to 2^24
    place = emit1("mul", [emit1("maximum", [emit1("sub", [count, 1.0], {}), 0.0], {}), float(q)], {})
    low = emit1("floor", [place], {})
    part = astype(emit1("sub", [place, low], {}), order.dtype)
    low = astype(low, DType.int32)
    top = astype(emit1("maximum", [emit1("sub", [count, 1.0], {}), 0.0], {}), DType.int32)
    high = emit1("minimum", [emit1("add", [low, 1], {}), top], {})
    a, b = [_nabla.take_along_axis(order, i, order.ndim - 1) for i in (low, high)]
    whole = emit1("eq", [part, 0.0], {})  # 0 times infinity is NaN
    out = emit1("select", [whole, a, _r.between(a, b, part)], {})
    out = astype(_unless_empty(out, there, -1, True), x.dtype)
    shape = [1 if d in axes else s for d, s in enumerate(x.shape)] if keepdims else list(flat.shape[:-1])
    return emit1("reshape", [out], {"shape": shape})


def nanpercentile(x, q, axis=None, keepdims=False):
    """nanquantile of q / 100."""
    q = _r.places_given(q)
    return nanquantile(x, [each / 100 for each in q] if isinstance(q, list) else q / 100, axis, keepdims)


def nanmedian(x, axis=None, keepdims=False):
    """The middle element in order of those that are not NaN, or the mean of the two in the middle."""
    return nanquantile(x, 0.5, axis, keepdims)


__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile",
    "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
]
