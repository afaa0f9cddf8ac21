"""Sets of elements: what is in both, in one, in either. Their size follows from the elements: inside of traced
functions it is given, as `size`, and what is missing to it is `fill_value` (the smallest element of the result)."""

from .. import _nabla
from .._core import DType, asarray, astype, result_type, weak_floats
from . import sorting as _s
from ._common import count_of, emit1, require_at_least, require_size
from .gathering import scatter
from .indexing import Place
from .reduction import cumsum


def _flat(x):
    x = asarray(x)
    return emit1("reshape", [x], {"shape": [count_of(x.shape)]})


def _both(x, y):
    x, y = weak_floats(x), weak_floats(y)
    dtype = result_type(x, y)
    return _flat(astype(x, dtype)), _flat(astype(y, dtype))


def isin(x, values, invert=False):
    """Where an element of x is one of `values`: bools of x's shape. A sort and a binary search for each."""
    shape = asarray(x).shape
    x, values = _both(x, values)
    n = values.shape[0]
    if isinstance(n, int) and n == 0:
        found = _nabla.full(x.shape, 0.0, DType.bool)
    else:
        require_at_least(n, 1, "isin")
        order = _nabla.sort(values, 0, False)
        place = emit1("minimum", [_s.searchsorted(order, x, "left"), n - 1], {})
        found = emit1("eq", [_nabla.take(order, place, 0), x], {})
    found = emit1("not", [found], {}) if invert else found
    return emit1("reshape", [found], {"shape": list(shape)})


def _of(what, x, keep, size, fill_value):
    require_size(x, size, what)
    order, new = _s.sorted_runs(x)
    mask = emit1("and", [new, keep(order)], {})
    if fill_value is None and size is not None:
        fill_value = _s.masked_select(order, mask, size, 0)
    return _s.chosen(order, mask, size, fill_value)


def union1d(x, y, size=None, fill_value=None):
    """The different elements of both, in order."""
    x, y = _both(x, y)
    both = emit1("concatenate", [x, y], {"axis": 0})
    return _of("union1d", both, lambda order: _nabla.full(order.shape, 1.0, DType.bool), size, fill_value)


def intersect1d(x, y, size=None, fill_value=None):
    """The different elements that are in both, in order."""
    x, y = _both(x, y)
    return _of("intersect1d", x, lambda order: isin(order, y), size, fill_value)


def setdiff1d(x, y, size=None, fill_value=None):
    """The different elements of x that are not in y, in order."""
    x, y = _both(x, y)
    return _of("setdiff1d", x, lambda order: isin(order, y, True), size, fill_value)


def setxor1d(x, y, size=None, fill_value=None):
    """The different elements that are in one of the two alone, in order. NaN equals no element: it is in the result if
    it is in one of them or in both, once."""
    x, y = _both(x, y)
    both = emit1("concatenate", [x, y], {"axis": 0})

    def alone(order):
        out = emit1("ne", [isin(order, x), isin(order, y)], {})
        return emit1("or", [out, emit1("is_nan", [order], {})], {}) if order.dtype.is_float() else out

    return _of("setxor1d", both, alone, size, fill_value)


def unique_values(x, size=None, fill_value=None):
    """The different elements in order, as `unique`."""
    return _s.unique(x, size, fill_value)


def unique_inverse(x, size=None, fill_value=None):
    """`(values, inverse)`: the different elements in order, and the place of every element among them, in x's shape."""
    values = _s.unique(x, size, fill_value)
    flat = _flat(x)
    _, new = _s.sorted_runs(flat)
    order = _s.argsort(flat)
    ranks = emit1("sub", [cumsum(astype(new, DType.int32), 0), 1], {})
    inverse = scatter(_nabla.full(ranks.shape, 0.0, DType.int32), order, ranks)
    return values, emit1("reshape", [inverse], {"shape": list(asarray(x).shape)})


def unique_counts(x, size=None, fill_value=None):
    """`(values, counts)`: the different elements in order, and how often each is there; 0 times beyond them."""
    values, inverse = unique_inverse(x, size, fill_value)
    return values, _s.bincount(_flat(inverse), length=values.shape[0])


def unique_all(x, size=None, fill_value=None):
    """`(values, indices, inverse, counts)`: as unique_counts and unique_inverse, and where each value is first."""
    values, inverse = unique_inverse(x, size, fill_value)
    flat = _flat(inverse)
    n, count = values.shape[0], flat.shape[0]
    places = emit1("iota", [], {"shape": [count], "axis": 0, "dtype": DType.int32})
    first = Place(_nabla.broadcast_to(asarray(count, DType.int32), [n]), (flat,)).min(places)
    last = max(count - 1, 0) if isinstance(count, int) else count - 1
    return values, emit1("minimum", [first, last], {}), inverse, _s.bincount(flat, length=n)


def trim_zeros(x, trim="fb"):
    """A vector without zeros at its front ("f") and back ("b"). For values outside of traces: Error there."""
    x = _flat(x)
    if x.is_traced:
        _nabla.fail(204, f"trim_zeros of the traced {x.type_str()}: how many zeros there are is known only at run time")
    places = [i for i, v in enumerate(x.tolist()) if v != 0]
    if not places:
        return x[:0]
    first, last = places[0] if "f" in trim.lower() else 0, places[-1] + 1 if "b" in trim.lower() else x.shape[0]
    return x[first:last]


__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "trim_zeros", "union1d", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]
