"""Places of elements: indices of parts of arrays, and elements at such places put in, taken out or moved."""

import functools
import operator

from .. import _nabla
from .._core import DType, Tensor, asarray, astype
from ._common import (
    all_static, axis_of, count_of, cut, decided, emit1, index_dtype, places_in, require_at_least, require_decided_equal,
    require_size, same_size, sizes_of, smaller_size, static_size, tensors, wide_index)
from .binary import broadcast_arrays
from .indexing import Place, taken
from .multi_output import split, unbind


def _iota(shape, axis):
    return emit1("iota", [], {"shape": list(shape), "axis": axis, "dtype": DType.int32})


def _triangle(n, m, keep, what):
    n, m = [None if size is None else static_size(size, what, "the number of results follows from it")
            for size in (n, m)]
    rows = [(i, j) for i in range(n) for j in range(n if m is None else m) if keep(i, j)]
    return tuple(asarray([r[d] for r in rows] or [0], DType.int32)[:len(rows)] for d in (0, 1))


def tril_indices(n, k=0, m=None):
    """`(rows, columns)` of the elements up to diagonal k of an [n, m] matrix (m: n)."""
    return _triangle(n, m, lambda i, j: j - i <= k, "tril_indices")


def triu_indices(n, k=0, m=None):
    """`(rows, columns)` of the elements from diagonal k on of an [n, m] matrix (m: n)."""
    return _triangle(n, m, lambda i, j: j - i >= k, "triu_indices")


def tril_indices_from(x, k=0):
    """tril_indices of a matrix."""
    return tril_indices(x.shape[-2], k, x.shape[-1])


def triu_indices_from(x, k=0):
    """triu_indices of a matrix."""
    return triu_indices(x.shape[-2], k, x.shape[-1])


def mask_indices(n, mask_func, k=0):
    """`(rows, columns)` where mask_func(ones([n, n]), k), such as nabla.triu, is not 0."""
    n = static_size(n, "mask_indices", "the number of results follows from it")
    mask = mask_func(_nabla.full([n, n], 1.0, DType.float32), k).tolist()
    return _triangle(n, n, lambda i, j: bool(mask[i][j]), "mask_indices")


def diag_indices(n, ndim=2):
    """The places of the diagonal of an array of `ndim` dimensions of size n."""
    return tuple(_iota([n], 0) for _ in range(ndim))


def diag_indices_from(x):
    """diag_indices of an array whose dimensions are equal."""
    same = [same_size(n, x.shape[0]) for n in x.shape]
    if False in same or x.ndim < 2:
        _nabla.fail(204, f"diag_indices_from: the dimensions of {x.type_str()} are not equal, two or more")
    decided(None not in same or None, "diag_indices_from", f"the dimensions of {x.type_str()} are equal")
    return diag_indices(x.shape[0], x.ndim)


def indices(dimensions, sparse=False):
    """The positions of all elements of an array: int32 [rank, *dimensions]; with `sparse` a tuple that broadcasts."""
    shape = sizes_of(dimensions, "indices")
    if sparse:
        return tuple(_iota([n if i == d else 1 for i in range(len(shape))], d) for d, n in enumerate(shape))
    return _nabla.stack([_iota(shape, d) for d in range(len(shape))], 0)


def ix_(*sequences):
    """Vectors as indices of all their combinations: x[ix_(rows, columns)]. Bools stand for where they hold."""
    out = []
    for d, s in enumerate(sequences):
        s = asarray(s)
        if s.ndim != 1:
            _nabla.fail(204, f"ix_: {s.type_str()} is no vector")
        if s.dtype == DType.bool:
            require_size(s, None, "ix_")
            s = flatnonzero(s)
        out.append(emit1("reshape", [s], {"shape": [s.shape[0] if i == d else 1 for i in range(len(sequences))]}))
    return tuple(out)


def unravel_index(places, shape):
    """Positions, one tensor per dimension, of places in row-major order. Places outside are moved to the nearest."""
    shape = sizes_of(shape, "unravel_index")
    whole = count_of(shape)
    places = wide_index(places, whole)
    places = emit1("select", [emit1("lt", [places, 0], {}), emit1("add", [places, whole], {}), places], {})
    places = emit1("minimum", [emit1("maximum", [places, 0], {}), whole - 1], {})
    out = []
    for n in reversed(shape):
        out.append(_nabla.mod(places, asarray(n, places.dtype)))
        places = _nabla.floor_divide(places, asarray(n, places.dtype))
    return tuple(reversed(out))


def ravel_multi_index(positions, shape, mode="clip"):
    """Places in row-major order of positions, one tensor per dimension. mode: "clip" to the nearest, or "wrap"."""
    if mode not in ("clip", "wrap"):
        _nabla.fail(204, f"ravel_multi_index: mode {mode!r} is none of clip, wrap")
    shape = sizes_of(shape, "ravel_multi_index")
    whole = count_of(shape)
    out = asarray(0, index_dtype(whole))
    for i, n in zip(broadcast_arrays(*positions), shape):
        i = wide_index(i, whole)
        i = _nabla.mod(i, asarray(n, i.dtype)) if mode == "wrap" else emit1(
            "minimum", [emit1("maximum", [i, 0], {}), n - 1], {})
        out = out * n + (astype(i, DType.int64) if i.dtype == DType.uint64 else i)
    return out


def flatnonzero(x, size=None, fill_value=0):
    """Places in row-major order of the elements that are not 0: [size], then `fill_value`. Without `size` it is their
    number, which only values outside of traces have."""
    from .sorting import nonzero
    x = asarray(x)
    require_size(x, size, "flatnonzero")
    out = nonzero(emit1("reshape", [x], {"shape": [count_of(x.shape)]}), size, fill_value)
    return emit1("reshape", [out], {"shape": [out.shape[0]]})


def extract(condition, x, size=None, fill_value=0):
    """The elements of x where the condition, of as many elements, is not 0."""
    from .sorting import masked_select
    x, condition = asarray(x), asarray(condition)
    require_size(condition, size, "extract")
    flat = [emit1("reshape", [t], {"shape": [count_of(t.shape)]}) for t in (x, condition)]
    return masked_select(flat[0], astype(flat[1], DType.bool), size, fill_value)


def choose(a, choices, mode="clip"):
    """Per element the choice that `a` counts: choices[a[i]][i]; all broadcast. mode: "clip" or "wrap"."""
    if mode not in ("clip", "wrap"):
        _nabla.fail(204, f"choose: mode {mode!r} is none of clip, wrap")
    from .view import stack
    a, *choices = broadcast_arrays(a, *tensors(*choices))
    n, a = len(choices), wide_index(a)
    a = _nabla.mod(a, asarray(n, a.dtype)) if mode == "wrap" else emit1(
        "minimum", [emit1("maximum", [a, 0], {}), n - 1], {})
    whole = stack(choices, 0)
    return emit1("reshape", [_nabla.take_along_axis(whole, emit1("reshape", [a], {"shape": [1, *a.shape]}), 0)],
                 {"shape": list(a.shape)})


def put(x, places, values):
    """x with `values`, repeated as needed, at places in row-major order."""
    x, places, values = asarray(x), asarray(places), asarray(values, asarray(x).dtype)
    flat = emit1("reshape", [x], {"shape": [count_of(x.shape)]})
    n, m = count_of(places.shape), count_of(values.shape)
    values = emit1("reshape", [values], {"shape": [m]})
    if same_size(n, m) is not True:
        require_at_least(m, 1, "put")
        values = _nabla.take(values, _nabla.mod(places_in(n), asarray(m, DType.int32)), 0)
    out = Place(flat, (emit1("reshape", [places], {"shape": [n]}),)).set(values)
    return emit1("reshape", [out], {"shape": list(x.shape)})


def place(x, mask, values):
    """x with the first of `values`, repeated as needed, where the mask, of x's shape, holds."""
    from .reduction import cumsum
    x, values = asarray(x), asarray(values, asarray(x).dtype)
    mask = astype(asarray(mask), DType.bool)
    n, m = count_of(x.shape), count_of(values.shape)
    flat = emit1("reshape", [mask], {"shape": [n]})
    rank = cumsum(astype(flat, DType.int32), 0) - 1
    values = _nabla.take(emit1("reshape", [values], {"shape": [m]}), _nabla.mod(rank, asarray(m, DType.int32)), 0)
    return emit1("select", [mask, emit1("reshape", [values], {"shape": list(x.shape)}), x], {})


def fill_diagonal(x, value):
    """x with a value, or a vector of them, on the diagonal of its dimensions."""
    x = asarray(x)
    n = x.shape[0]
    for size in x.shape[1:]:
        n = smaller_size(n, size, f"fill_diagonal of {x.type_str()}")
    return Place(x, diag_indices(n, x.ndim)).set(value)


def diagflat(x, k=0):
    """A matrix with the elements of x on diagonal k."""
    from .creation import diag
    x = asarray(x)
    return diag(emit1("reshape", [x], {"shape": [count_of(x.shape)]}), k)


def _kept(x, obj, axis, what):
    """x flattened for axis None, the axis, and the places there that `obj` means, a list of ints."""
    x = asarray(x)
    if axis is None:
        x, axis = emit1("reshape", [x], {"shape": [count_of(x.shape)]}), 0
    d = axis_of(axis, x.ndim, what)
    n = x.shape[d]
    if isinstance(obj, slice):
        if isinstance(n, _nabla.Dim):
            n = _slice_end(obj, n, f"{what} of {x.type_str()} along axis {d}")
        return x, d, list(range(*obj.indices(n)))
    if isinstance(obj, Tensor) and obj.is_traced:
        _nabla.fail(204, f"{what}: the traced {obj.type_str()} says how many elements there are only at run time")
    obj = asarray(obj)
    flat = obj.tolist() if obj.ndim else [obj.item()]
    if obj.dtype == DType.bool:
        static_size(n, f"{what} of {x.type_str()} along axis {d}", f"there are {len(flat)} bools for its elements")
        return x, d, [i for i, there in enumerate(flat) if there]
    for i in flat:
        if isinstance(n, int) and not -n <= i <= n:
            raise IndexError(f"{what}: index {i} is outside of axis {d} of {x.type_str()}")
    require_at_least(n, max([-i if i < 0 else i + (what == "delete") for i in flat], default=0),
                     f"{what} of {x.type_str()} along axis {d}") if isinstance(n, _nabla.Dim) else None
    return x, d, [i + n if i < 0 else i for i in flat]


def _slice_end(s, n, what):
    """The end of a slice, which counts from the front, of a dimension whose size n is known only at run time."""
    if s.stop is None or min(s.start or 0, s.stop) < 0 or (s.step or 1) < 0:
        static_size(n, what, "the slice counts from its end")
    require_at_least(n, s.stop, what)
    return s.stop


def _in_order(places, what):
    """The numbers of places in ascending order of these. Raises Error (E0207) if sizes among them do not decide it."""
    def compared(i, j):
        if i > j:
            return -compared(j, i)
        a, b = places[i], places[j]
        return 1 if (b < a) is True else -1 if decided(a <= b, what, f"{a} <= {b}") else 1

    return sorted(range(len(places)), key=functools.cmp_to_key(compared))


def delete(x, obj, axis=None):
    """x without the slices along an axis (None: elements in row-major order) at `obj`: an int, ints, a slice, bools."""
    x, d, places = _kept(x, obj, axis, "delete")
    if isinstance(x.shape[d], int):
        rest = [i for i in range(x.shape[d]) if i not in set(places)]
        return taken(x, asarray(rest, DType.int32), d)
    parts, start = [], 0
    for place in [places[i] for i in _in_order(places, "delete")]:
        if same_size(place + 1, start) is True:  # it is there twice
            continue
        decided(start <= place, "delete", f"{start} <= {place}")
        parts.append(cut(x, d, start, place))
        start = place + 1
    return emit1("concatenate", [*parts, cut(x, d, start, x.shape[d])], {"axis": d})


def insert(x, obj, values, axis=None):
    """x with `values` before the slices along an axis (None: elements in row-major order) at `obj`: an int, ints, a
    slice, bools."""
    scalar = hasattr(obj, "__index__") and not isinstance(obj, (bool, Tensor))
    x, d, places = _kept(x, obj, axis, "insert")
    values = asarray(values, x.dtype)
    if scalar and not all_static([x.shape[d], *values.shape]):
        return _inserted_at(x, d, places[0], values)
    if scalar and values.ndim:
        if values.ndim == x.ndim:
            count = values.shape[d]
        elif x.ndim == 1:
            values, count = emit1("reshape", [values], {"shape": [count_of(values.shape)]}), count_of(values.shape)
        else:
            values, count = emit1("reshape", [values], {"shape": [*values.shape[:d], 1, *values.shape[d:]]}), 1
        places = places * count
    shape = [len(places) if i == d else s for i, s in enumerate(x.shape)]
    if values.ndim == x.ndim:
        require_decided_equal(values.shape[d], len(places), f"insert of {values.type_str()} at {len(places)} places")
    values = _nabla.broadcast_to(values, shape)
    n = x.shape[d]
    if not isinstance(n, int):
        return _inserted(x, d, places, values)
    order = sorted([(p, 0, n + i) for i, p in enumerate(places)] + [(i, 1, i) for i in range(n)])
    both = emit1("concatenate", [x, values], {"axis": d})
    return taken(both, asarray([place for _, _, place in order], DType.int32), d)


def _inserted_at(x, d, place, values):
    """insert before slice `place`, where sizes are known only at run time: as many slices as the values have."""
    if values.ndim == x.ndim:
        count = values.shape[d]
    elif x.ndim == 1:
        count = count_of(values.shape)
        values = emit1("reshape", [values], {"shape": [count]})
    else:
        count = 1
        if values.ndim:
            values = emit1("reshape", [values], {"shape": [*values.shape[:d], 1, *values.shape[d:]]})
    values = _nabla.broadcast_to(values, [count if i == d else s for i, s in enumerate(x.shape)])
    return emit1("concatenate", [cut(x, d, 0, place), values, cut(x, d, place, x.shape[d])], {"axis": d})


def _inserted(x, d, places, values):
    """insert along a dimension whose size is known only at run time: slice i of the values is before slice places[i]
    of x."""
    parts, start = [], 0
    for i in _in_order(places, "insert"):
        parts += [cut(x, d, start, places[i]), cut(values, d, i, i + 1)]
        start = places[i]
    return emit1("concatenate", [*parts, cut(x, d, start, x.shape[d])], {"axis": d})


def partition(x, kth, axis=-1):
    """x with element kth along an axis where it is in order, smaller ones before it, larger ones after: here sorted."""
    from .sorting import sort
    axis_of(axis, asarray(x).ndim, "partition")
    operator.index(kth)
    return sort(x, axis)


def argpartition(x, kth, axis=-1):
    """The places that partition takes its elements from."""
    from .sorting import argsort
    operator.index(kth)
    return argsort(x, axis)


class _Grid:
    """mgrid and ogrid: `[start:stop:step, ...]` as arrays of coordinates; a step of `nj` is n points to stop itself."""

    def __init__(self, sparse):
        self._sparse = sparse

    def __getitem__(self, key):
        from .creation import arange, linspace
        slices = key if isinstance(key, tuple) else (key,)
        lines = []
        for s in slices:
            start, step = s.start or 0, 1 if s.step is None else s.step
            lines.append(linspace(start, s.stop, int(abs(step))) if isinstance(step, complex)
                         else arange(start, s.stop, step))
        if not isinstance(key, tuple):
            return lines[0]
        n = len(lines)
        sparse = [emit1("reshape", [v], {"shape": [v.shape[0] if i == d else 1 for i in range(n)]})
                  for d, v in enumerate(lines)]
        if self._sparse:
            return tuple(sparse)
        return _nabla.stack(broadcast_arrays(*_alike(sparse)), 0)


def _alike(xs):
    from .._core import result_type
    dtype = result_type(*xs)
    return [astype(x, dtype) for x in xs]


class _Joined:
    """r_ and c_: `[a, start:stop:step, 1.0]` side by side, along the first or the last dimension."""

    def __init__(self, columns):
        self._columns = columns

    def __getitem__(self, key):
        from .view import column_stack, concatenate
        parts = []
        for part in key if isinstance(key, tuple) else (key,):
            parts.append(mgrid[part] if isinstance(part, slice) else part)
        parts = [p if p.ndim else emit1("reshape", [p], {"shape": [1]}) for p in tensors(*parts)]
        return column_stack(parts) if self._columns else concatenate(parts, 0)


class _IndexExpression:
    """The index that stands in the brackets: x[s_[1:3, ..., None]]."""

    def __getitem__(self, key):
        return key


mgrid, ogrid = _Grid(False), _Grid(True)
r_, c_ = _Joined(False), _Joined(True)
s_ = index_exp = _IndexExpression()


def hsplit(x, sections):
    """Parts along the second dimension, of vectors along the first: as split."""
    return split(x, sections, 1 if asarray(x).ndim > 1 else 0)


def vsplit(x, sections):
    """Parts along the first dimension: as split."""
    return split(x, sections, 0)


def dsplit(x, sections):
    """Parts along the third dimension: as split."""
    return split(x, sections, 2)


def unstack(x, axis=0):
    """The slices along an axis, without it, as a tuple."""
    return tuple(unbind(x, axis))


def rollaxis(x, axis, start=0):
    """x with a dimension moved before the one at `start`."""
    from .view import moveaxis
    x = asarray(x)
    d = axis_of(axis, x.ndim, "rollaxis")
    start = start + x.ndim if start < 0 else start
    return moveaxis(x, d, start - 1 if d < start else start)


def ediff1d(x, to_end=None, to_begin=None):
    """Differences of neighbours in row-major order, after `to_begin` and before `to_end`."""
    from .reduction import diff
    x = asarray(x)
    n = count_of(x.shape)
    flat = emit1("reshape", [x], {"shape": [n]})
    parts = [diff(flat)]
    for other, at in ((to_begin, 0), (to_end, len(parts) + 1)):
        if other is not None:
            other = asarray(other, x.dtype)
            parts.insert(at, emit1("reshape", [other], {"shape": [count_of(other.shape)]}))
    return emit1("concatenate", parts, {"axis": 0})


__all__ = [
    "argpartition", "c_", "choose", "delete", "diag_indices", "diag_indices_from", "diagflat", "dsplit", "ediff1d",
    "extract", "fill_diagonal", "flatnonzero", "hsplit", "index_exp", "indices", "insert", "ix_", "mask_indices",
    "mgrid", "ogrid", "partition", "place", "put", "r_", "ravel_multi_index", "rollaxis", "s_", "tril_indices",
    "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index", "unstack", "vsplit",
]
