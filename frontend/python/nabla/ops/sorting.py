"""Order and selection. NaN counts as the largest number; orders are stable."""

from .. import _nabla
from .._core import DType, asarray, astype, dtype_of
from ._common import all_static, axis_of, bounds_of, count_of, cut, emit1, require_size, static_size, tensors
from .reduction import NARROW


def _row(x, axis, what):
    x = asarray(x)
    if axis is None:
        return emit1("reshape", [x], {"shape": [count_of(x.shape)]}), 0
    return x, axis_of(axis, x.ndim, what)


def sort(x, axis=-1, descending=False):
    """The elements along an axis in order; None: all of them."""
    x, d = _row(x, axis, "sort")
    return x if 0 in x.shape else _nabla.sort(x, d, descending)


def argsort(x, axis=-1, descending=False, dtype="int32"):
    """Which element comes first, second, ...: positions along an axis."""
    x, d = _row(x, axis, "argsort")
    return emit1("argsort", [x], {"axis": d, "descending": descending, "dtype": dtype_of(dtype)})


def lexsort(keys, axis=-1):
    """Positions in the order of several keys, the last one first, as numpy.lexsort."""
    keys = [asarray(k) for k in keys][::-1]
    return emit1("argsort", keys, {"axis": axis_of(axis, keys[0].ndim, "lexsort")})


def top_k(x, k, axis=-1, largest=True):
    """(values, positions) of the k largest elements along an axis, largest first; or of the smallest."""
    x, k = asarray(x), static_size(k, "top_k", "k is a part of the program")
    out = _nabla.emit("top_k", [x], {"k": k, "axis": axis_of(axis, x.ndim, "top_k"), "largest": largest})
    return out[0], out[1]


def searchsorted(sorted_sequence, values, side="left"):
    """Where values [..., m] go into sorted rows [..., n]: before equal elements ("left") or after them: int32."""
    if side not in ("left", "right"):
        _nabla.fail(204, f"searchsorted: side is {side!r}, not left or right")
    rows, values = tensors(sorted_sequence, values)
    scalar = rows.ndim == 1 and values.ndim != 1
    flat = emit1("reshape", [values], {"shape": [count_of(values.shape)]}) if scalar else values
    known = isinstance(rows.shape[-1], int) if rows.ndim else True
    out = (_nabla.searchsorted if known else _searched)(rows, flat, side == "right")
    return emit1("reshape", [out], {"shape": list(values.shape)}) if scalar else out


def _searched(rows, values, right):
    """searchsorted in rows whose number of elements is known only at run time: steps for the largest number."""
    from ..transforms import fori_loop
    n = rows.shape[-1]
    low = _nabla.full(values.shape, 0.0, DType.int32)
    high = _nabla.broadcast_to(asarray(n, DType.int32), list(values.shape))
    if bounds_of(n)[0] < 1:  # an element that is never counted, so that there is one to read
        end = _nabla.full([*rows.shape[:-1], 1], 0.0, rows.dtype)
        rows = emit1("concatenate", [rows, end], {"axis": rows.ndim - 1})

    def halve(_, bounds):
        low, high = bounds
        middle = _nabla.floor_divide(low + high, asarray(2, DType.int32))
        there = _nabla.take_along_axis(rows, middle, rows.ndim - 1)
        beyond = _not_before(values, there) if right else emit1("not", [_not_before(there, values)], {})
        beyond = emit1("and", [beyond, emit1("lt", [low, high], {})], {})
        return emit1("select", [beyond, middle + 1, low], {}), emit1("select", [beyond, high, middle], {})

    return fori_loop(0, bounds_of(n)[1].bit_length(), halve, (low, high))[0]


def _not_before(x, y):
    """Where x >= y in the order of sort, in which NaN is the largest number."""
    if not x.dtype.is_float():
        return emit1("ge", [asarray(v, DType.int32) if v.dtype == DType.bool else v for v in (x, y)], {})
    return emit1("or", [emit1("is_nan", [x], {}), emit1("ge", [x, y], {})], {})


def digitize(x, bins, right=False):
    """Into which of the ascending bins each element falls; with `right` bins contain their upper end."""
    return searchsorted(bins, x, "left" if right else "right")


def bincount(x, weights=None, length=None):
    """How often each int from 0 on occurs, or the sum of its weights: [length]. Ints beyond `length` are left out.

    Without `length` it is the largest element plus one, which only values outside of traces have.
    """
    from .gathering import summed_by
    x = asarray(x)
    if not x.dtype.is_integer():
        raise TypeError(f"bincount: {x.type_str()} are no ints")
    if length is None:
        if x.is_traced:
            _nabla.fail(204, f"bincount of the traced {x.type_str()} needs a length", "bincount(x, length=n)")
        length = int(_nabla.amax(x, [], False).item()) + 1 if count_of(x.shape) else 0
    counted = asarray(1, DType.int32) if weights is None else asarray(weights)
    dtype = NARROW.get(counted.dtype, counted.dtype)
    flat = emit1("reshape", [x], {"shape": [count_of(x.shape)]})
    if counted.ndim:
        counted = emit1("reshape", [counted], {"shape": [count_of(counted.shape)]})
    return summed_by(flat, astype(counted, dtype), length)


def nonzero(x, size=None, fill_value=-1):
    """Positions of elements that are not 0, in row-major order: int32 [size, rank]; rows beyond them hold `fill_value`.

    Without `size` it is their number, which only values outside of traces have.
    """
    x = asarray(x)
    fill_value = asarray(fill_value, DType.int32).item()
    size = _count(x, size, "nonzero")
    if size == 0 or 0 in x.shape:
        return _nabla.full([size, x.ndim], float(fill_value), DType.int32)
    if not all_static([size, *x.shape]):
        return _nonzero_of_sizes(x, size, fill_value)
    return _nabla.nonzero(x, size, fill_value)


def _nonzero_of_sizes(x, size, fill_value):
    """nonzero where sizes are known only at run time."""
    mask = emit1("ne", [x, 0], {}) if x.dtype != DType.bool else x
    there = [masked_select(emit1("iota", [], {"shape": list(x.shape), "axis": d, "dtype": DType.int32}), mask, size,
                           fill_value) for d in range(x.ndim)]
    return _nabla.stack(there, 1)


argwhere = nonzero


def _count(mask, size, what):
    if size is not None:
        return size
    require_size(mask, size, what)
    from .indexing import count_true
    return count_true(mask)


def masked_select(x, mask, size=None, fill_value=0):
    """The first `size` elements of x where the mask, of x's shape, holds, in row-major order; then `fill_value`.

    Without `size` it is their number, which only values outside of traces have.
    """
    x, mask = asarray(x), asarray(mask)
    size = _count(mask, size, "masked_select")
    if x.shape == mask.shape and (size == 0 or 0 in x.shape):
        return _nabla.broadcast_to(asarray(fill_value, x.dtype), [size])
    if isinstance(size, int):
        return _nabla.masked_select(x, mask, size, asarray(fill_value, x.dtype))
    from .indexing import Place
    x, mask = [_row(t, None, "masked_select")[0] for t in (x, mask)]
    rank = emit1("cumsum", [astype(mask, DType.int32)], {"axis": 0}) - 1
    place = emit1("select", [mask, rank, _nabla.broadcast_to(asarray(size, DType.int32), list(rank.shape))], {})
    return Place(_nabla.broadcast_to(asarray(fill_value, x.dtype), [size]), (place,)).set(x)


def compress(condition, x, axis=None, size=None, fill_value=0):
    """The slices of x along an axis where a vector of bools holds; None: of all elements."""
    from .indexing import taken
    x, d = _row(x, axis, "compress")
    condition = asarray(condition)
    n = _count(condition, size, "compress")
    places = emit1("reshape", [nonzero(condition, n)], {"shape": [n]})
    out = taken(x, emit1("maximum", [places, 0], {}), d)
    if size is None:
        return out
    shape = [n if i == d else 1 for i in range(x.ndim)]
    there = emit1("reshape", [emit1("ge", [places, 0], {})], {"shape": shape})
    there = _nabla.broadcast_to(there, list(out.shape))
    return emit1("select", [there, out, _nabla.broadcast_to(asarray(fill_value, out.dtype), list(out.shape))], {})


def masked_scatter(x, mask, source):
    """x whose elements where the mask holds are replaced by the first ones of `source`, both in row-major order."""
    x = asarray(x)
    return _nabla.masked_scatter(x, asarray(mask), asarray(source, x.dtype))


def unique(x, size=None, fill_value=None):
    """The different elements in order: [size]. Beyond them `fill_value` (the smallest element).

    Without `size` it is their number, which only values outside of traces have.
    """
    require_size(asarray(x), size, "unique")
    order, new = sorted_runs(_row(x, None, "unique")[0])
    return chosen(order, new, size, order if fill_value is None else fill_value)


def sorted_runs(x):
    """The elements of a vector in order, and where one differs from the one before it. NaN do not differ."""
    n = x.shape[0]
    if n == 0:
        return x, _nabla.full([0], 0.0, DType.bool)
    order = _nabla.sort(x, 0, False)
    part = _nabla.slice_axis if isinstance(n, int) else cut
    before, after = part(order, 0, 0, n - 1), part(order, 0, 1, n)
    new = emit1("ne", [after, before], {})
    if x.dtype.is_float():
        new = emit1("and", [new, emit1("not", [emit1("is_nan", [before], {})], {})], {})
    return order, emit1("concatenate", [_nabla.full([1], 1.0, DType.bool), new], {"axis": 0})


def chosen(x, mask, size, fill):
    """The elements of a vector where the mask holds; with a size so many, then the `fill`, a number, or the first
    element of a vector (0 of none)."""
    out = masked_select(x, mask, size, 0)
    if size is None:
        return out
    count = _nabla.sum(astype(mask, DType.int32), [], False)
    there = emit1("lt", [emit1("iota", [], {"shape": [size], "axis": 0, "dtype": DType.int32}), count], {})
    fill = asarray(fill, x.dtype)
    if fill.ndim:
        fill = cut(fill, 0, 0, 1) if fill.shape[0] != 0 else asarray(0, x.dtype)
    return emit1("select", [there, out, _nabla.broadcast_to(fill, [size])], {})


def histogram(x, bins=10, range=None):
    """(counts, edges) of elements in `bins` bins of equal width, or between given edges; the last bin has its upper
    end.

    `range`, a pair of Python numbers, is needed inside of traces.
    """
    from .creation import linspace
    x, _ = _row(x, None, "histogram")
    x = x if x.dtype.is_float() else astype(x, "float32")
    if isinstance(bins, int):
        if x.is_traced and range is None:
            _nabla.fail(204, f"histogram of the traced {x.type_str()} needs a range, or edges in place of a number of "
                             "bins", "histogram(x, bins, range=(low, high))")
        low, high = range or (0.0, 1.0)
        if range is None and x.shape[0] != 0:
            low, high = _nabla.amin(x, [], False).item(), _nabla.amax(x, [], False).item()
        edges = linspace(low, high if high != low else low + 1, bins + 1, dtype=x.dtype)
    else:
        edges = asarray(bins, x.dtype)
    count = edges.shape[0] - 1
    if count < 1:
        return _nabla.full([0], 0.0, DType.int32), edges
    place = emit1("sub", [searchsorted(edges, x, "right"), 1], {})
    last = emit1("eq", [x, _nabla.slice_axis(edges, 0, count, count + 1)], {})
    place = emit1("select", [last, _nabla.full(place.shape, count - 1.0, DType.int32), place], {})
    return bincount(place, length=count), edges


__all__ = [
    "argsort", "argwhere", "bincount", "compress", "digitize", "histogram", "lexsort", "masked_scatter",
    "masked_select", "nonzero", "searchsorted", "sort", "top_k", "unique",
]
