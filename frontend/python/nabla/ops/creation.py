"""New tensors. `dtype` None: bool, int32 or the default floating dtype, by the value; `device` None: the default
one."""

import math
import operator

from .. import _nabla
from .._core import DType, Tensor, asarray, astype, default_float, dtype_of, fits, result_type
from .._mesh import laid_out_like
from ._common import (
    all_static, bounds_of, cut, emit1, places_in, sizes_of, smaller_size, static_size, wide_index, widened)


def _placed(x, device):
    if device is not None:
        from ..devices import to_device
        return to_device(x, device)
    return x


def constant(value, dtype=None, device=None):
    """A tensor of a number, nested lists, an array or a tensor, copied; asarray gives tensors back as they are."""
    out = asarray(value, dtype)
    return _placed(copied(out) if out is value else out, device)


def copied(x):
    """x under a handle of its own: what is written into one, `x[i] = v`, does not show in the other. Derivatives pass.
    """
    x = asarray(x)
    if x.is_traced or (x.has_array and not _nabla.gradient_leaves()):
        return x._copied()
    out = emit1("copy", [x], {})
    if x.has_array:
        _nabla.realize([out])  # another library's memory may change
    return out


array = tensor = constant


def full(shape, value, dtype=None, device=None):
    """A tensor of one value, a number (converted as `asarray` does it) or a scalar tensor."""
    shape = sizes_of(shape, "full")
    if isinstance(value, (bool, int, float)):
        one = asarray(value, dtype)
        wanted, value = one.dtype, one.item()
        if abs(value) <= 1 << 53 or wanted.is_float():
            return _placed(_nabla.full(shape, float(value), wanted), device)
        return _placed(_nabla.broadcast_to(one, shape), device)
    return _placed(_nabla.broadcast_to(asarray(value, dtype), shape), device)


def zeros(shape, dtype=None, device=None):
    """Zeros, of the default floating dtype."""
    return full(shape, 0.0, dtype, device)


def ones(shape, dtype=None, device=None):
    """Ones, of the default floating dtype."""
    return full(shape, 1.0, dtype, device)


def empty(shape, dtype=None, device=None):
    """Zeros: there is no memory without a value."""
    return zeros(shape, dtype, device)


def full_like(x, value, dtype=None):
    """A tensor of one value, shaped like x, and laid out as it is over a mesh."""
    x = asarray(x)
    return laid_out_like(full(x.shape, value, x.dtype if dtype is None else dtype), x)


def zeros_like(x, dtype=None):
    """Zeros, shaped and laid out like x."""
    return full_like(x, 0, dtype)


def ones_like(x, dtype=None):
    """Ones, shaped and laid out like x."""
    return full_like(x, 1, dtype)


def empty_like(x, dtype=None):
    """Zeros, shaped and laid out like x."""
    return full_like(x, 0, dtype)


def arange(start, stop=None, step=1, dtype=None, device=None):
    """start, start + step, ... before stop; arange(stop) begins at 0. Ints give int32, floats the default dtype.
    Floating tensors and NumPy's scalars keep their dtype.

    With a dtype the numbers are converted as `astype` does it. Raises ValueError for ints that do not fit into int32
    without one. Sizes that are known only at run time, such as `x.shape[0]`, count as ints.
    """
    if stop is None:
        start, stop = 0, start
    if any(isinstance(v, _nabla.Dim) for v in (start, stop, step)):
        return _placed(_arange_of_sizes(start, stop, step, DType.int32 if dtype is None else dtype_of(dtype)), device)
    floats = _float_dtype(start, stop, step)
    if not all(isinstance(v, (int, float)) for v in (start, stop, step)):
        start, stop, step = [v.item() if hasattr(v, "item") else v if isinstance(v, float) else operator.index(v)
                             for v in (start, stop, step)]
    if step == 0:
        _nabla.fail(204, "arange: the step is 0")
    if dtype is None:
        dtype = floats if any(isinstance(v, float) for v in (start, stop, step)) else DType.int32
        for v in (start, stop - step):
            asarray(v)  # or ValueError
    dtype = dtype_of(dtype)
    whole = all(isinstance(v, int) for v in (start, stop, step))
    count = max(0, -((start - stop) // step) if whole else math.ceil((stop - start) / step))
    ends = (start, start + (count - 1) * step, step)
    wide = DType.int64 if whole else DType.float64
    if whole and dtype.is_integer() and all(fits(end, dtype) for end in ends):
        wide = dtype
    place = emit1("iota", [], {"shape": [count], "axis": 0, "dtype": wide})
    if whole:
        step, start = [v if abs(v) <= 1 << 53 else asarray(v, wide) for v in (step, start)]
    return _placed(astype(_affine(place, step, start), dtype), device)


def _float_dtype(*ends):
    """The dtype of floats between these ends: that of the floating tensors and NumPy's scalars among them."""
    dtype = result_type(*ends)
    return dtype if dtype.is_float() else default_float()


def _arange_of_sizes(start, stop, step, dtype):
    """arange whose number of elements is known only at run time."""
    if isinstance(step, _nabla.Dim) or operator.index(step) == 0:
        _nabla.fail(204, f"arange: the step is {step}", "beside sizes known only at run time it is an int other than 0")
    count = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    if isinstance(count, _nabla.Dim) and count.bounds[0] < 0:
        _nabla.fail(207, f"arange: from {start} to {stop} by {step} are {count} elements, which may be less than 0",
                    "give `dynamic_dims` tighter bounds: (name, min, max)")
    if not isinstance(count, _nabla.Dim):
        count = max(count, 0)
    place = emit1("iota", [], {"shape": [count], "axis": 0, "dtype": dtype})
    return _affine(place, step, asarray(start, dtype) if isinstance(start, _nabla.Dim) else start)


def _affine(x, factor, shift):
    if isinstance(factor, Tensor) or factor != 1:
        x = emit1("mul", [x, factor], {})
    return emit1("add", [x, shift], {}) if isinstance(shift, Tensor) or shift != 0 else x


def iota(shape, axis=0, dtype="int32"):
    """The position along an axis."""
    shape = sizes_of(shape, "iota")
    return emit1("iota", [], {"shape": shape, "axis": axis % len(shape), "dtype": dtype_of(dtype)})


def linspace(start, stop, num=50, endpoint=True, dtype=None):
    """`num` numbers from start to stop in equal steps; with `endpoint` stop is the last. Without `dtype`, floating
    tensors and NumPy's scalars keep theirs."""
    dtype = _float_dtype(start, stop) if dtype is None else dtype_of(dtype)
    steps = num - 1 if endpoint else num
    place = places_in(num, DType.float64)
    start, stop = [astype(v, DType.float64) if isinstance(v, _nabla.Dim) or getattr(v, "is_traced", False) else float(v)
                   for v in (start, stop)]
    if bounds_of(steps)[1] <= 0:
        return astype(_affine(place, 1, start), dtype)
    divisor = steps if isinstance(steps, int) else emit1("maximum", [asarray(steps, DType.float64), 1.0], {})
    out = _affine(place, (stop - start) / divisor, start)
    if endpoint:
        last = emit1("eq", [place, asarray(steps, DType.float64)], {})
        if bounds_of(steps)[0] <= 0:  # the only number is the first one
            last = emit1("and", [last, emit1("gt", [place, 0.0], {})], {})
        stop = _nabla.broadcast_to(asarray(stop, DType.float64), [num])
        out = emit1("select", [last, stop, out], {})
    return astype(out, dtype)


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None):
    """base to the powers of linspace."""
    powers = linspace(start, stop, num, endpoint, DType.float64)
    return astype(emit1("pow", [float(base), powers], {}), _float_dtype(start, stop) if dtype is None else dtype)


def geomspace(start, stop, num=50, endpoint=True, dtype=None):
    """`num` positive numbers from start to stop in equal ratios."""
    dtype = _float_dtype(start, stop) if dtype is None else dtype
    start, stop = [static_size(v, "geomspace", "the ends are Python numbers") if isinstance(v, _nabla.Dim) else v
                   for v in (start, stop)]
    powers = linspace(math.log(start), math.log(stop), num, endpoint, DType.float64)
    return astype(emit1("exp", [powers], {}), dtype)


def eye(n, m=None, k=0, dtype=None):
    """[n, m] (m: n) with ones on diagonal k, counted upwards from the main one."""
    m = n if m is None else m
    dtype = default_float() if dtype is None else dtype_of(dtype)
    row, column = iota([n, m], 0), iota([n, m], 1)
    return astype(emit1("eq", [emit1("sub", [column, row], {}), k], {}), dtype)


def identity(n, dtype=None):
    """[n, n] with ones on the diagonal."""
    return eye(n, dtype=dtype)


def diag(x, k=0):
    """A matrix with a vector on diagonal k, or diagonal k of a matrix."""
    x = asarray(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        _nabla.fail(204, f"diag: {x.type_str()} is no vector and no matrix")
    out = _nabla.diag_embed(x)
    return _nabla.pad(out, asarray(0, x.dtype), [max(-k, 0), max(k, 0)], [max(k, 0), max(-k, 0)])


def diagonal(x, offset=0):
    """Diagonal `offset`, counted upwards from the main one, of the last two dimensions."""
    x = asarray(x)
    if x.ndim < 2:
        _nabla.fail(204, f"diagonal: {x.type_str()} has no two dimensions")
    what = f"diagonal of {x.type_str()}"
    if offset:
        d = x.ndim - (1 if offset > 0 else 2)
        x = cut(x, d, smaller_size(abs(offset), x.shape[d], what), x.shape[d])
    if not all_static(x.shape[-2:]):
        n, rank = smaller_size(*x.shape[-2:], what), x.ndim
        x = cut(cut(x, rank - 2, 0, n), rank - 1, 0, n)
        kept = emit1("eq", [iota(x.shape, rank - 2), iota(x.shape, rank - 1)], {})
        if x.dtype == DType.bool:
            return emit1("reduce_or", [emit1("and", [kept, x], {})], {"axes": [rank - 1]})
        return _nabla.sum(emit1("select", [kept, x, _nabla.full(x.shape, 0.0, x.dtype)], {}), [rank - 1], False)
    if x.dtype == DType.bool:  # it is a sum
        return astype(_nabla.diagonal(astype(x, DType.int32)), DType.bool)
    return _nabla.diagonal(x)


def diag_embed(x):
    """Vectors along the last dimension as diagonals of matrices: [..., n] -> [..., n, n]."""
    return _nabla.diag_embed(asarray(x))


def trace_of(x):
    """The sum of the diagonal of the last two dimensions (numpy.trace; nabla.trace prints programs)."""
    x = asarray(x)
    if x.ndim < 2 or all_static(x.shape[-2:]):
        return _nabla.trace_of(x)
    row, column = iota(x.shape, x.ndim - 2), iota(x.shape, x.ndim - 1)
    kept = emit1("select", [emit1("eq", [row, column], {}), x, _nabla.full(x.shape, 0.0, x.dtype)], {})
    return _nabla.sum(kept, [x.ndim - 2, x.ndim - 1], False)


def triu(x, k=0):
    """x without what lies below diagonal k of its last two dimensions."""
    return _triangle(_nabla.triu, x, k)


def tril(x, k=0):
    """x without what lies above diagonal k of its last two dimensions."""
    return _triangle(_nabla.tril, x, k)


def _triangle(native, x, k):
    x = asarray(x)
    if x.dtype == DType.bool:
        return astype(native(astype(x, DType.uint8), k), DType.bool)
    return native(x, k)


def tri(n, m=None, k=0, dtype=None):
    """[n, m] with ones up to diagonal k. n and m are ints, or sizes that are known at run time."""
    shape = [n, n if m is None else m]
    if not all_static(shape):
        row, column = [emit1("iota", [], {"shape": shape, "axis": d, "dtype": DType.int64}) for d in (0, 1)]
        ones = emit1("le", [column, emit1("add", [row, k], {})], {})
        return astype(ones, default_float() if dtype is None else dtype)
    return astype(_nabla.tril_mask(n, n if m is None else m, k), default_float() if dtype is None else dtype)


def band_part(x, num_lower, num_upper):
    """Elements of the last two dimensions from num_lower diagonals below to num_upper above the main one; -1: all."""
    return _nabla.band_part(asarray(x), num_lower, num_upper)


def vander(x, n=None, increasing=False):
    """Powers of the elements of a vector as rows."""
    x = asarray(x)
    n = x.shape[0] if n is None else n
    powers = arange(n, dtype=x.dtype)
    if not increasing:
        powers = emit1("reverse", [powers], {"axes": [0]})
    column = emit1("reshape", [x], {"shape": [x.shape[0], 1]})
    row = emit1("reshape", [powers], {"shape": [1, n]})
    return emit1("pow", [column, row], {})


def one_hot(labels, num_classes, dtype=None, axis=-1):
    """1 where the new dimension counts the label, else 0; labels out of range give zeros. num_classes is an int, or a
    size that is known at run time."""
    # The classes are counted in the dtype of the labels, which must hold all of them.
    labels, dtype = widened(wide_index(labels)), default_float() if dtype is None else dtype_of(dtype)
    if all_static([num_classes]):
        out = _nabla.one_hot(labels, num_classes, dtype)
    else:
        shape = [*labels.shape, num_classes]
        classes = emit1("iota", [], {"shape": shape, "axis": labels.ndim, "dtype": DType.int64})
        out = astype(emit1("eq", [classes, astype(labels, DType.int64)[..., None]], {}), dtype)
    if axis % out.ndim == out.ndim - 1:
        return out
    return _nabla.moveaxis(out, out.ndim - 1, axis % out.ndim)


def hann_window(window_length, periodic=True, dtype=None, device=None):
    """0.5 - 0.5 cos(2 pi i / n) for i below n = window_length, divided by n - 1 instead unless periodic."""
    n = window_length
    place, period = places_in(n, DType.float64), n if periodic else n - 1
    if isinstance(period, int):
        angle = emit1("mul", [place, 2 * math.pi / max(period, 1)], {})
    else:
        period = emit1("maximum", [asarray(period, DType.float64), 1.0], {})
        angle = emit1("div", [emit1("mul", [place, 2 * math.pi], {}), period], {})
    turn = emit1("cos", [angle], {})
    out = emit1("sub", [0.5, emit1("mul", [turn, 0.5], {})], {})
    return _placed(astype(out, default_float() if dtype is None else dtype), device)


def uniform(shape=(), low=0.0, high=1.0, dtype=None, device=None):
    """Uniform numbers in [low, high), from the global key; nabla.random.uniform takes a key."""
    from ..random import keyless_uniform
    return _placed(keyless_uniform(shape, low, high, dtype), device)


def normal(shape=(), mean=0.0, std=1.0, dtype=None, device=None):
    """Normal numbers, from the global key; nabla.random.normal takes a key."""
    from ..random import keyless_normal
    return _placed(keyless_normal(shape, mean, std, dtype), device)


gaussian = normal

copy = copied

__all__ = [
    "arange", "array", "band_part", "constant", "copy", "diag", "diag_embed", "diagonal", "empty", "empty_like",
    "eye", "full",
    "full_like", "gaussian", "geomspace", "hann_window", "identity", "iota", "linspace", "logspace", "normal",
    "one_hot", "ones", "ones_like", "tensor", "trace_of", "tri", "tril", "triu", "uniform", "vander", "zeros",
    "zeros_like",
]
