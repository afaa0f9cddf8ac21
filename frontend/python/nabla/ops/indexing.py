"""x[...], x.at[...] and reading and writing at computed places.

Indices are ints, slices with any step, Ellipsis, None (a new dimension), integer tensors, arrays and lists, which
broadcast against each other as in NumPy, and bool masks. Ints out of range raise IndexError; elements of integer
tensors count from the end below 0, and further outside reads take the nearest element, writes leave it out (as in
JAX). A mask gives a shape that depends on its elements: inside of traced functions that is possible for writing one
value only.
"""

import operator

from .. import _nabla
from .._core import DType, Error, Tensor, asarray, astype
from ._common import cut, emit1, index_dtype, require_at_least, wide_index
from .binary import broadcast_shapes


class _Plan:
    """An index, taken apart: x (with new dimensions of size 1) and what happens to each of its dimensions."""

    __slots__ = ("shape", "items", "batch", "at", "dropped")
    # items: per dimension an int, (start, stop, step), or an index tensor; batch: their common shape; at: where it
    # stands


def _is_mask(i):
    return isinstance(i, bool) or (isinstance(i, Tensor) and i.dtype == DType.bool)


def _is_int(i):
    return not isinstance(i, (bool, Tensor)) and hasattr(i, "__index__") and getattr(i, "ndim", 0) == 0


def _items(index):
    out = []
    for i in index if isinstance(index, tuple) else (index,):
        if isinstance(i, _nabla.Dim):  # x[x.shape[0] - 1]
            out.append(asarray(i, DType.int64))
            continue
        if i is None or i is Ellipsis or isinstance(i, (slice, bool)) or _is_int(i):
            out.append(i)
            continue
        t = asarray(i)
        if isinstance(i, (list, tuple)) and len(i) == 0:
            t = astype(t, DType.int32)
        if t.dtype.is_float():
            raise IndexError(f"an index is {t.type_str()}: indices are ints, slices, None, ..., integer tensors or "
                             f"masks")
        out.append(t)
    return out


def _expanded(items, ndim, x):
    used = sum(i.ndim if _is_mask(i) and isinstance(i, Tensor) else 1
               for i in items if i is not None and i is not Ellipsis and not isinstance(i, bool))
    dots = [n for n, i in enumerate(items) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index has more than one ...")
    if used > ndim:
        raise IndexError(f"{used} indices for {x.type_str()}, which has {ndim} dimensions")
    fill = [slice(None)] * (ndim - used)
    return items[:dots[0]] + fill + items[dots[0] + 1:] if dots else items + fill


def _places_of(mask, what):
    """The index tensors that a mask stands for."""
    if mask.is_traced:
        raise Error(f"{what} by a traced mask, {mask.type_str()}: how many elements it has is known only at run time. "
                    "nabla.where(mask, a, b) keeps the shape; nabla.masked_select(x, mask, size) and "
                    "nabla.nonzero(mask, size) take a size")
    if _nabla.is_tracing():  # a mask with elements: its places are known, and no op of the traced function
        places = []
        _collect(mask.tolist(), (), places)
        return [asarray([p[d] for p in places], DType.int32) for d in range(mask.ndim)]
    count = count_true(mask)
    places = _nabla.nonzero(mask, count, 0)
    return [_nabla.emit("reshape", [_nabla.slice_axis(places, 1, d, d + 1)], {"shape": [count]})[0]
            for d in range(mask.ndim)]


def _collect(elements, at, places):
    if isinstance(elements, list):
        for i, e in enumerate(elements):
            _collect(e, at + (i,), places)
    elif elements:
        places.append(at)


def count_true(mask):
    """How many elements of a tensor outside of traces are not 0: an int."""
    if not _nabla.is_tracing():
        there = mask if mask.dtype == DType.bool else emit1("ne", [mask, 0], {})
        return int(_nabla.sum(astype(there, DType.int32), [], False).item())
    places = []
    _collect(mask.tolist(), (), places)
    return len(places)


def _slice_of(s, n, x):
    step = 1 if s.step is None else operator.index(s.step)
    if step == 0:
        _nabla.fail(204, "a slice has the step 0")
    ends = [e if e is None or isinstance(e, _nabla.Dim) else _end(e) for e in (s.start, s.stop)]
    if isinstance(n, int) and not any(isinstance(e, _nabla.Dim) for e in ends):
        return slice(ends[0], ends[1], step).indices(n)
    if step != 1:
        if ends == [None, None] and step == -1:
            return (-1, None, -1)
        _nabla.fail(204, f"a slice with step {step} along a dimension of {x.type_str()} whose size {n} is known only "
                    "at run time: only the step 1 is possible there, and -1 for all of it",
                    "x[start + step * nabla.arange(count)] has the same elements")
    start, stop = [e + n if isinstance(e, int) and e < 0 else e for e in ends]
    return (0 if start is None else start, n if stop is None else stop, 1)


def _end(e):
    if isinstance(e, Tensor):
        if e.is_traced:
            raise TypeError("a slice begins or ends at a traced tensor: sizes must be known; nabla.dynamic_slice "
                            "takes a window of known size at a computed place")
        return int(e)
    return operator.index(e)


def _plan(x, index, what):
    items, shape, out = [], list(x.shape), []
    for i in _expanded(_items(index), x.ndim, x):
        if isinstance(i, Tensor) and _is_mask(i):
            d = len([v for v in items if v is not None])
            if tuple(shape[d:d + i.ndim]) != tuple(i.shape):
                raise IndexError(f"a mask {i.type_str()} at dimension {d} of {x.type_str()}: sizes differ")
            items += _places_of(i, what)
        elif isinstance(i, bool):
            raise IndexError("True and False are no indices; x[None] makes a dimension")
        else:
            items.append(i)
    plan, sizes = _Plan(), iter(shape)
    plan.shape, plan.dropped = [], []
    arrays = any(isinstance(i, Tensor) for i in items)
    for i in items:
        n = 1 if i is None else next(sizes)
        plan.shape.append(n)
        if i is None:
            out.append((0, 1, 1))
        elif isinstance(i, slice):
            out.append(_slice_of(i, n, x))
        elif isinstance(i, Tensor):
            out.append(from_front(i, n))
        else:
            place = operator.index(i)
            if isinstance(n, int) and not -n <= place < n:
                raise IndexError(f"index {place} is outside of dimension {len(out)} of {x.type_str()}")
            if isinstance(n, _nabla.Dim):
                require_at_least(n, max(place + 1, -place), f"{what} at index {place} of dimension {len(out)} of "
                                 f"{x.type_str()}")
            place = place + n if place < 0 else place
            out.append(asarray(place, index_dtype(n)) if arrays and isinstance(place, int) else place)
    plan.items = out
    vectors = [d for d, i in enumerate(out) if isinstance(i, Tensor)]
    plan.batch = broadcast_shapes(*[out[d].shape for d in vectors]) if vectors else ()
    together = not vectors or vectors == list(range(vectors[0], vectors[-1] + 1))
    plan.at = vectors[0] if vectors and together else 0
    return plan


def from_front(i, n):
    if i.dtype == DType.uint64:  # ops read indices as int64
        return astype(emit1("minimum", [i, asarray(2**63 - 1, DType.uint64)], {}), DType.int64)
    if i.dtype in (DType.uint8, DType.uint16, DType.uint32):
        return i
    i = wide_index(i, n)
    if isinstance(n, int):
        behind = emit1("add", [i, n], {})
    else:
        behind = emit1("add", [i, emit1("element_count", [], {"shape": [n], "dtype": i.dtype})], {})
    return emit1("select", [emit1("lt", [i, 0], {}), behind, i], {})


def _is_whole(item, n):
    return isinstance(item, tuple) and item[2] == 1 and isinstance(item[0], int) and item[0] == 0 and item[1] == n


# ---- Reading


def getitem(x, index):
    """x[index]."""
    if type(index) is int and x.ndim:  # the common case
        n = x.shape[0]
        if isinstance(n, int):
            if not -n <= index < n:
                raise IndexError(f"index {index} is outside of dimension 0 of {x.type_str()}")
            index %= n
            return emit1("reshape", [_nabla.slice_axis(x, 0, index, index + 1)], {"shape": list(x.shape[1:])})
    return _read(x, _plan(x, index, "reading"), "clamp")


def _read(x, plan, out_of_range):
    if list(x.shape) != plan.shape:
        x = emit1("reshape", [x], {"shape": plan.shape})
    x = _cut(x, plan)
    vectors = [d for d, i in enumerate(plan.items) if isinstance(i, Tensor)]
    if vectors and 0 in plan.batch:  # no element, of a dimension that may have none
        return _nabla.full(_result_dims(plan), 0.0, x.dtype)
    if vectors:
        return _gathered(x, plan, vectors, out_of_range)
    kept = [s for s, i in zip(x.shape, plan.items) if isinstance(i, tuple)]
    return emit1("reshape", [x], {"shape": kept}) if len(kept) != x.ndim else x


def taken(x, places, d):
    """The slices of x along a dimension at places, a vector; none of a dimension that may have none."""
    if places.shape[0] == 0:
        return _nabla.full([0 if i == d else s for i, s in enumerate(x.shape)], 0.0, x.dtype)
    return _nabla.take(x, places, d)


def _cut(x, plan):
    starts, stops, steps, turned, symbolic = [], [], [], [], []
    for d, (item, n) in enumerate(zip(plan.items, plan.shape)):
        if isinstance(item, tuple):
            start, stop, step = item
        elif isinstance(item, Tensor):
            start, stop, step = 0, n, 1
        else:
            start, stop, step = item, item + 1, 1
        if step < 0:
            turned.append(d)
            if stop is None:
                start, stop, step = 0, n, 1
            else:
                count = max(0, -(-(start - stop) // -step))
                first = start + (count - 1) * step
                start, stop, step = (first, start + 1, -step) if count else (0, 0, 1)
        whole = start == 0 and stop == n
        known = all(isinstance(v, int) for v in (start, stop, n))
        if known:
            stop = max(stop, start)
        if not known and not whole:
            symbolic.append((d, start, stop))
            start, whole = 0, True
        starts.append(start), stops.append(-1 if whole else stop), steps.append(step)
    if any(s != 0 or e != -1 for s, e in zip(starts, stops)) or any(s != 1 for s in steps):
        x = emit1("slice", [x], {"starts": starts, "limits": stops, "strides": steps})
    for d, start, stop in symbolic:
        x = cut(x, d, start, stop)
    return emit1("reverse", [x], {"axes": turned}) if turned else x


def _stacked(parts):
    if len(parts) == 1:
        return parts[0], parts[0].ndim
    wide = DType.int64 if any(p.dtype in (DType.int64, DType.uint32, DType.uint64) for p in parts) else DType.int32
    return _nabla.stack([astype(p, wide) for p in parts], parts[0].ndim), parts[0].ndim


def _gathered(x, plan, vectors, out_of_range):
    parts = [_nabla.broadcast_to(plan.items[d], list(plan.batch)) for d in vectors]
    indices, vector_dim = _stacked(parts)
    nb = len(plan.batch)
    window = x.ndim - len(vectors)
    offsets = [d if d < plan.at else d + nb for d in range(window)]
    return emit1("gather", [x, indices], {
        "offset_dims": offsets, "collapsed_slice_dims": vectors, "start_index_map": vectors,
        "index_vector_dim": vector_dim, "slice_sizes": [1 if d in vectors else -1 for d in range(x.ndim)],
        "out_of_range": out_of_range})


# ---- Writing: always a new tensor


class At:
    """x.at: `x.at[index].set(v)` and the like give a new tensor; x stays."""

    __slots__ = ("_x",)

    def __init__(self, x):
        self._x = x

    def __getitem__(self, index):
        return Place(self._x, index)


class Place:
    """x.at[index]."""

    __slots__ = ("_x", "_index")

    def __init__(self, x, index):
        self._x, self._index = x, index

    def get(self, mode="clip", fill_value=None):
        """x[index]. mode "fill": places out of range read as `fill_value` (NaN, the least integer, or the largest
        unsigned one)."""
        if mode in ("clip", "clamp", "promise_in_bounds", None) and fill_value is None:
            return getitem(self._x, self._index)
        if mode not in ("fill", "clip", "clamp", None):
            _nabla.fail(204, f"at[].get: mode {mode!r} is none of clip, fill, promise_in_bounds")
        return _filled_read(self._x, self._index, fill_value)

    def set(self, values, mode="drop"):
        """x with `values` at the index; of repeated places the last one counts."""
        return _write(self._x, self._index, values, "set", mode)

    def add(self, values, mode="drop"):
        """x with `values` added at the index; all updates of a repeated place count."""
        return _write(self._x, self._index, values, "add", mode)

    def subtract(self, values, mode="drop"):
        """x with `values` subtracted at the index."""
        if self._x.dtype == DType.bool:
            return self.add(values, mode)  # its error
        return self.add(emit1("neg", [astype(values, self._x.dtype)], {}), mode)

    def multiply(self, values, mode="drop"):
        """x multiplied by `values` at the index; all updates of a repeated place count."""
        return _write(self._x, self._index, values, "mul", mode)

    mul = multiply

    def divide(self, values, mode="drop"):
        """x divided by `values` at the index."""
        if not self._x.dtype.is_float():
            raise TypeError(f"at[].divide of {self._x.type_str()}: convert it to a floating dtype first")
        factors = _nabla.full(self._x.shape, 1.0, self._x.dtype)
        return emit1("div", [self._x, _write(factors, self._index, values, "mul", mode)], {})

    def min(self, values, mode="drop"):
        """x with the smaller one of itself and `values` at the index."""
        return _write(self._x, self._index, values, "min", mode)

    def max(self, values, mode="drop"):
        """x with the larger one of itself and `values` at the index."""
        return _write(self._x, self._index, values, "max", mode)

    def power(self, values, mode="drop"):
        """x to the power `values` at the index; a repeated place counts once."""
        from .binary import pow
        return self.set(pow(getitem(self._x, self._index), values), mode)

    def apply(self, function, mode="drop"):
        """x with function(x[index]) at the index; a repeated place counts once."""
        return self.set(function(getitem(self._x, self._index)), mode)


def _filled_read(x, index, fill_value):
    if fill_value is None:
        fill_value = float("nan") if x.dtype.is_float() else 0
        if x.dtype.is_integer():
            bits = 8 * x.dtype.itemsize
            signed = x.dtype in (DType.int8, DType.int16, DType.int32, DType.int64)
            fill_value = -(1 << bits - 1) if signed else (1 << bits) - 1
    plan = _plan(x, index, "reading")
    if not any(isinstance(i, Tensor) for i in plan.items):
        return _read(x, plan, "clamp")
    values = _read(x, plan, "clamp")
    inside = astype(_read(_nabla.full(x.shape, 1.0, DType.uint8), plan, "zero"), DType.bool)
    return emit1("select", [inside, values, _nabla.broadcast_to(asarray(fill_value, x.dtype), list(x.shape[:0]) +
                                                                  list(values.shape))], {})


_COMBINED = {name: f"scatter_{name}" for name in ("set", "add", "mul", "min", "max")}
_TWO = {"add": "add", "mul": "mul", "min": "minimum", "max": "maximum"}


def _write(x, index, values, kind, mode):
    if mode not in ("drop", "clip", "clamp", "promise_in_bounds", None):
        _nabla.fail(204, f"at[]: mode {mode!r} is none of drop, clip, promise_in_bounds")
    if isinstance(values, (bool, int, float)):
        values = asarray(values, x.dtype) if not (x.dtype.is_integer() and isinstance(values, float)) \
            else asarray(values, "float64")
    values = astype(asarray(values), x.dtype)
    if x.dtype == DType.bool and kind != "set":
        raise TypeError(f"at[] of {x.type_str()}: bools can only be set")
    masked = _by_mask(x, index, values, kind)
    if masked is not None:
        return masked
    plan = _plan(x, index, "writing")
    sizes = _result_dims(plan)
    values = _broadcast_values(values, sizes, x)
    if any(isinstance(s, int) and s == 0 for s in values.shape):
        return x
    wide = x if list(x.shape) == plan.shape else emit1("reshape", [x], {"shape": plan.shape})
    if any(isinstance(i, Tensor) for i in plan.items) or any(isinstance(i, tuple) and i[2] != 1 for i in plan.items):
        out = _scattered(wide, plan, values, kind, "clamp" if mode in ("clip", "clamp") else "drop")
    else:
        out = _window(wide, plan, values, kind)
    return out if out.shape == x.shape else emit1("reshape", [out], {"shape": list(x.shape)})


def _by_mask(x, index, values, kind):
    """One value where a mask over the first dimensions holds; None for other indices."""
    items = _items(index)
    if len(items) == 2 and items[1] is Ellipsis:
        items = items[:1]
    if len(items) != 1 or not isinstance(items[0], Tensor) or items[0].dtype != DType.bool:
        return None
    mask = items[0]
    if tuple(x.shape[:mask.ndim]) != tuple(mask.shape):
        raise IndexError(f"a mask {mask.type_str()} for {x.type_str()}: sizes differ")
    if values.ndim > x.ndim - mask.ndim:
        if not mask.is_traced:
            return None
        raise Error(f"writing {values.type_str()} by a traced mask: how many places it has is known only at run time; "
                    "write one value, or nabla.where(mask, new, x), nabla.masked_scatter(x, mask, source)")
    mask = _nabla.broadcast_to(emit1("reshape", [mask], {"shape": list(mask.shape) + [1] * (x.ndim - mask.ndim)}),
                               list(x.shape))
    values = _nabla.broadcast_to(values, list(x.shape))
    if kind != "set":
        values = emit1(_TWO[kind], [x, values], {})
    return emit1("select", [mask, values, x], {})


def _result_dims(plan):
    """The sizes of x[index]."""
    sizes = []
    vectors = [d for d, i in enumerate(plan.items) if isinstance(i, Tensor)]
    for d, (item, n) in enumerate(zip(plan.items, plan.shape)):
        if isinstance(item, tuple):
            sizes.append(_length(item, n))
    return sizes[:_window_before(plan)] + list(plan.batch) + sizes[_window_before(plan):] if vectors else sizes


def _window_before(plan):
    return sum(1 for item in plan.items[:plan.at] if isinstance(item, tuple))


def _length(item, n):
    start, stop, step = item
    if stop is None:
        return n
    if isinstance(start, int) and isinstance(stop, int):
        return len(range(start, stop, step))
    return stop - start


def _broadcast_values(values, sizes, x):
    extra = values.ndim - len(sizes)
    if extra > 0 and all(s == 1 for s in values.shape[:extra]):
        values = emit1("reshape", [values], {"shape": list(values.shape[extra:])})
    try:
        fits = list(broadcast_shapes(values.shape, sizes)) == list(sizes)
    except ValueError:
        fits = False
    if not fits:
        _nabla.fail(204, f"writing {values.type_str()} into a part of {x.type_str()} of shape {tuple(sizes)}: sizes "
                         f"differ")
    return _nabla.broadcast_to(values, list(sizes))


def _window(x, plan, values, kind):
    """A part that is cut out by ints and slices of step 1."""
    starts, window = [], []
    for item, n in zip(plan.items, plan.shape):
        starts.append(item[0] if isinstance(item, tuple) else item)
        window.append(_length(item, n) if isinstance(item, tuple) else 1)
    values = emit1("reshape", [values], {"shape": window})
    if kind != "set":
        old = _cut(x, plan)
        values = emit1(_TWO[kind], [old, values], {})
    if window == plan.shape:
        return values
    starts = window_starts(starts, plan.shape)
    if any(isinstance(w, int) and w == 0 for w in window):
        return x
    return emit1("dynamic_update_slice", [x, values] + starts, {})


def window_starts(starts, shape):
    """The starts of a window in a tensor of this shape, as operands. An op reads Python numbers as int32: if a
    dimension is too large for int32, or a start is a size that is known only at run time, all starts become int64."""
    if all(not isinstance(s, _nabla.Dim) and index_dtype(n) == DType.int32 for s, n in zip(starts, shape)):
        return starts
    return [asarray(s, DType.int64) for s in starts]


def _scattered(x, plan, values, kind, out_of_range):
    """Everything else: places that are no whole dimensions become index vectors."""
    vectors = [d for d, i in enumerate(plan.items) if isinstance(i, Tensor)]
    before = _window_before(plan)
    window_dims, batch, chosen = [], [], []  # of the updates; (dimension of x, tensor, its dimensions in the batch)
    kept, nth = [d for d, i in enumerate(plan.items) if isinstance(i, tuple)], 0
    order = kept[:before] + ["batch"] + kept[before:] if vectors else kept
    place = 0
    for d in order:
        if d == "batch":
            for v in vectors:
                chosen.append((v, plan.items[v], (len(batch), len(plan.batch))))
            batch += list(plan.batch)
            place += len(plan.batch)
        elif _is_whole(plan.items[d], plan.shape[d]):
            window_dims.append(place)
            place += 1
        else:
            start, _, step = plan.items[d]
            count = _length(plan.items[d], plan.shape[d])
            count = plan.shape[d] if count is None else count
            if not isinstance(count, int) or not isinstance(start, int):
                raise IndexError("writing into a slice beside index tensors, along a dimension whose size is known "
                                 "only at run time, is not possible: write whole dimensions")
            line = emit1("iota", [], {"shape": [count], "axis": 0, "dtype": index_dtype(plan.shape[d])})
            line = emit1("add", [emit1("mul", [line, step], {}), start], {})
            chosen.append((d, line, (len(batch), 1)))
            batch.append(count)
            place += 1
            nth += 1
    for d, item in enumerate(plan.items):
        if not isinstance(item, (tuple, Tensor)):
            chosen.append((d, asarray(item, index_dtype(plan.shape[d])), (0, 0)))
    chosen.sort(key=lambda c: c[0])
    dims = [c[0] for c in chosen]
    indices, vector_dim = _stacked([_spread(t, at, rank, batch) for _, t, (at, rank) in chosen])
    return emit1(_COMBINED[kind], [x, indices, values], {
        "update_window_dims": window_dims, "inserted_window_dims": dims, "scatter_dims_to_operand_dims": dims,
        "index_vector_dim": vector_dim, "out_of_range": out_of_range})


def _spread(t, at, rank, batch):
    """An index tensor as one over the batch of updates, of which it has `rank` dimensions from `at` on."""
    shape = [1] * at + [1] * (rank - t.ndim) + list(t.shape) + [1] * (len(batch) - at - rank)
    return _nabla.broadcast_to(emit1("reshape", [t], {"shape": shape}), batch)


__all__ = ["At", "Place", "count_true", "getitem"]
