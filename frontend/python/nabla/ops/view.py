"""Other shapes, orders and parts of the same elements. All have derivatives; sizes may be symbolic where it says so."""

import operator

from .. import _nabla
from .._core import DType, Tensor, asarray, astype, operand, rebind
from ._common import (
    all_static, axes_of, axis_of, bounds_of, count_of, cut, emit1, is_one, listed, places_in, require_at_least,
    sizes_of, static_size)
from ._common import tensors as of_one_dtype


def reshape(x, *shape):
    """The same elements in row-major order under another shape; one size may be -1. Raises Error where none
    fits."""
    x = asarray(x)
    if len(shape) == 1:
        shape = shape[0]
    wanted = sizes_of(shape, "reshape")
    return emit1("reshape", [x], {"shape": _filled(wanted, x)})


view = reshape


def _filled(wanted, x):
    places = [i for i, s in enumerate(wanted) if isinstance(s, int) and s == -1]
    if not places:
        return wanted
    if len(places) > 1:
        _nabla.fail(204, f"reshape: more than one -1 in {tuple(wanted)}")
    have, need = count_of(x.shape), count_of([s for i, s in enumerate(wanted) if i != places[0]])
    if (isinstance(need, int) and need == 0) or have % need != 0:
        _nabla.fail(204, f"reshape: no size in place of -1 makes {x.type_str()} a tensor of shape {tuple(wanted)}")
    return [have // need if i == places[0] else s for i, s in enumerate(wanted)]


def flatten(x, start_dim=0, end_dim=-1):
    """The dimensions from start_dim to end_dim, which counts, as one."""
    x = asarray(x)
    if x.ndim == 0:
        return reshape(x, 1)
    return _nabla.flatten(x, axis_of(start_dim, x.ndim, "flatten"), axis_of(end_dim, x.ndim, "flatten"))


def ravel(x):
    """All elements in one dimension."""
    return flatten(x)


def unsqueeze(x, axis=0):
    """A new dimension of size 1 at `axis` of the result; several for several axes."""
    x = asarray(x)
    axes = listed(axis)
    rank = x.ndim + len(axes)
    axes = axes_of(axes, rank, "unsqueeze")
    sizes = iter(x.shape)
    return emit1("reshape", [x], {"shape": [1 if d in axes else next(sizes) for d in range(rank)]})


def squeeze(x, axis=0):
    """Without dimensions of size 1: those at `axis` (an int or several), or all for None. Raises Error for others.

    The first dimension by default, as in nabla-ml; NumPy's default is axis=None.
    """
    x = asarray(x)
    shape = list(x.shape)
    if axis is None:
        axes = [d for d, s in enumerate(shape) if is_one(s, f"squeeze of {x.type_str()} without an axis")]
    else:
        axes = axes_of(axis, x.ndim, "squeeze")
        for d in axes:
            if not (isinstance(shape[d], int) and shape[d] == 1):
                _nabla.fail(204, f"squeeze: axis {d} of {x.type_str()} has the size {shape[d]}, not 1")
    return emit1("reshape", [x], {"shape": [s for d, s in enumerate(shape) if d not in axes]})


def swap_axes(x, axis1=-2, axis2=-1):
    """Two dimensions exchanged."""
    x = asarray(x)
    a, b = axis_of(axis1, x.ndim, "swap_axes"), axis_of(axis2, x.ndim, "swap_axes")
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return emit1("transpose", [x], {"permutation": order})


def permute(x, *order):
    """The dimensions in another order: dimension i of the result is dimension order[i] of x."""
    x = asarray(x)
    if len(order) == 1 and isinstance(order[0], (tuple, list)):
        order = order[0]
    order = [axis_of(d, x.ndim, "permute") for d in order]
    if sorted(order) != list(range(x.ndim)):
        _nabla.fail(204, f"permute: {tuple(order)} does not name every dimension of {x.type_str()} once")
    return emit1("transpose", [x], {"permutation": order})


def transpose(x, *axes):
    """transpose(x): all dimensions turned round, as NumPy; transpose(x, a, b): a and b exchanged; transpose(x, (2, 0,
    1)): permute."""
    x = asarray(x)
    if not axes or axes == (None,):
        return emit1("transpose", [x], {"permutation": list(range(x.ndim))[::-1]})
    if len(axes) == 1 and isinstance(axes[0], (tuple, list)):
        return permute(x, axes[0])
    return swap_axes(x, *axes) if len(axes) == 2 else permute(x, axes)


def matrix_transpose(x):
    """The last two dimensions exchanged."""
    return swap_axes(x, -2, -1)


def moveaxis(x, source, destination):
    """Dimensions moved to other places; the others keep their order."""
    x = asarray(x)
    source = [axis_of(a, x.ndim, "moveaxis") for a in listed(source)]
    destination = [axis_of(a, x.ndim, "moveaxis") for a in listed(destination)]
    if len(source) != len(destination):
        _nabla.fail(204, f"moveaxis: {len(source)} dimensions for {len(destination)} places")
    order = [d for d in range(x.ndim) if d not in source]
    for to, d in sorted(zip(destination, source)):
        order.insert(to, d)
    return permute(x, order)


def flip(x, axis=None):
    """The elements in opposite order along `axis`, an int, several, or None for all."""
    x = asarray(x)
    return emit1("reverse", [x], {"axes": axes_of(axis, x.ndim, "flip")})


def flipud(x):
    """The elements in opposite order along the first dimension."""
    return flip(x, 0)


def fliplr(x):
    """The elements in opposite order along the second dimension."""
    return flip(x, 1)


def rot90(x, k=1, axes=(0, 1)):
    """x turned k times by 90 degrees in the plane of two axes, from the first to the second."""
    x = asarray(x)
    a, b = axes
    k %= 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, (a, b))
    return swap_axes(flip(x, b), a, b) if k == 1 else flip(swap_axes(x, a, b), b)


def roll(x, shift, axis=None):
    """Elements moved by `shift` places along `axis`; what leaves at the end enters at the front. None: of all
    elements."""
    x = asarray(x)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    shifts = listed(shift)
    axes = listed(axis)
    for s, a in zip(shifts * (len(axes) if len(shifts) == 1 else 1), axes):
        d, s = axis_of(a, x.ndim, "roll"), s if isinstance(s, _nabla.Dim) else operator.index(s)
        n = x.shape[d]
        if all_static([n, s]):
            place = -s % n if n else 0
        elif bounds_of(s)[1] <= 0 and bounds_of(n + s)[0] >= 0:
            place = -s
        elif bounds_of(s)[0] >= 0 and bounds_of(n - s)[0] >= 0:
            place = n - s
        else:
            x = _nabla.take(x, _nabla.mod(emit1("sub", [places_in(n), s], {}), asarray(n, DType.int32)), d)
            continue
        if not isinstance(place, int) or place:
            x = concatenate([cut(x, d, place, n), cut(x, d, 0, place)], d)
    return x


def broadcast_to(x, shape):
    """x repeated to a shape, as in NumPy. Raises Error (E0203) when it does not broadcast to it."""
    x, shape = asarray(x), sizes_of(shape, "broadcast_to")
    known = all_static(list(x.shape) + shape)
    if known and (x.ndim > len(shape) or any(a not in (1, b) for a, b in zip(x.shape[::-1], shape[::-1]))):
        _nabla.fail(203, f"broadcast_to: {x.type_str()} does not broadcast to the shape {tuple(shape)}",
                    "sizes must be equal, or 1, counted from the last dimension")
    return _nabla.broadcast_to(x, shape)


def expand(x, *shape):
    """broadcast_to, where -1 keeps the size."""
    x = asarray(x)
    if len(shape) == 1:
        shape = shape[0]
    sizes = sizes_of(shape, "expand")
    missing = len(sizes) - x.ndim
    return broadcast_to(x, [x.shape[i - missing] if isinstance(s, int) and s == -1 and i >= missing else s
                            for i, s in enumerate(sizes)])


def tile(x, reps):
    """The whole of x as often as `reps` says per dimension (aligned at the last)."""
    x = asarray(x)
    reps = listed(reps)
    if len(reps) > x.ndim:
        x = reshape(x, [1] * (len(reps) - x.ndim) + list(x.shape))
    reps = [1] * (x.ndim - len(reps)) + sizes_of(reps, "tile")
    if all_static(reps):
        return _nabla.tile(x, reps)
    pairs = list(zip(reps, x.shape))
    one = reshape(x, [size for _, n in pairs for size in (1, n)])
    return reshape(_nabla.broadcast_to(one, [size for pair in pairs for size in pair]), [r * n for r, n in pairs])


def repeat(x, repeats, axis=None):
    """Each slice along an axis `repeats` times in a row; None: each element of all. A sequence says it per slice."""
    x = asarray(x)
    if axis is None:
        x, axis = ravel(x), 0
    d = axis_of(axis, x.ndim, "repeat")
    if isinstance(repeats, _nabla.Dim):
        shape = list(x.shape)
        wide = _nabla.broadcast_to(unsqueeze(x, d + 1), [*shape[:d + 1], repeats, *shape[d + 1:]])
        return reshape(wide, [*shape[:d], shape[d] * repeats, *shape[d + 1:]])
    if hasattr(repeats, "__index__") and getattr(repeats, "ndim", 0) == 0:
        return _nabla.repeat(x, operator.index(repeats), d)
    from .indexing import taken
    counts = [int(r) for r in (repeats.tolist() if hasattr(repeats, "tolist") else repeats)]
    if len(counts) != static_size(x.shape[d], "repeat", f"there are {len(counts)} numbers for its slices"):
        _nabla.fail(204, f"repeat: {len(counts)} numbers for axis {d} of {x.type_str()}")
    places = [i for i, count in enumerate(counts) for _ in range(count)]
    return taken(x, asarray(places, "int32"), d)


repeat_interleave = repeat


def concatenate(tensors, axis=0):
    """Tensors one after the other along an axis; dtypes meet by JAX's table. None: all elements in one dimension."""
    xs = of_one_dtype(*tensors)
    if not xs:
        _nabla.fail(204, "concatenate: no tensors")
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    return emit1("concatenate", xs, {"axis": axis_of(axis, xs[0].ndim, "concatenate")})


def stack(tensors, axis=0):
    """Tensors of one shape side by side along a new axis."""
    xs = of_one_dtype(*tensors)
    if not xs:
        _nabla.fail(204, "stack: no tensors")
    return _nabla.stack(xs, axis_of(axis, xs[0].ndim + 1, "stack"))


def hstack(tensors):
    """Along the second dimension; vectors along the first."""
    xs = [reshape(x, 1) if x.ndim == 0 else x for x in of_one_dtype(*tensors)]
    return concatenate(xs, 0 if xs[0].ndim == 1 else 1)


def vstack(tensors):
    """Along the first dimension; vectors are rows."""
    return concatenate([atleast_2d(x) for x in of_one_dtype(*tensors)], 0)


def dstack(tensors):
    """Along the third dimension; matrices get one of size 1."""
    return concatenate([atleast_3d(x) for x in of_one_dtype(*tensors)], 2)


def column_stack(tensors):
    """Vectors as columns, matrices side by side."""
    return concatenate([unsqueeze(x, 1) if x.ndim == 1 else x for x in of_one_dtype(*tensors)], 1)


def append(x, values, axis=None):
    """concatenate of two."""
    return concatenate([x, values], axis)


def atleast_1d(x):
    """A scalar as a vector of one."""
    x = asarray(x)
    return x if x.ndim else reshape(x, 1)


def atleast_2d(x):
    """A vector as a row."""
    x = atleast_1d(x)
    return x if x.ndim > 1 else unsqueeze(x, 0)


def atleast_3d(x):
    """A matrix with a third dimension of 1."""
    x = atleast_2d(x) if asarray(x).ndim != 1 else unsqueeze(asarray(x), 0)
    return x if x.ndim > 2 else unsqueeze(x, -1)


def slice_tensor(x, start, size):
    """x[start[0] : start[0] + size[0], ...], one entry per dimension; sizes may be symbolic, -1 is up to the end."""
    x = asarray(x)
    start, size = listed(start), listed(size)
    if len(start) != x.ndim or len(size) != x.ndim:
        _nabla.fail(204, f"slice_tensor: {len(start)} starts and {len(size)} sizes for {x.type_str()}")
    for what, values in (("start", start), ("size", size)):
        for v in values:
            if isinstance(v, Tensor) and v.is_traced:
                raise TypeError(f"slice_tensor of {x.type_str()}: its {what} has a traced tensor, and must be known; "
                                "nabla.dynamic_slice takes a window of known size at a computed place")
            if not hasattr(v, "__index__"):
                raise TypeError(f"slice_tensor of {x.type_str()}: its {what} has {v!r}, expected ints or symbols")
    start = [s + n if isinstance(s, int) and s < 0 else s for s, n in zip(start, x.shape)]
    stop = [-1 if isinstance(n, int) and n == -1 else s + n for s, n in zip(start, size)]
    return _nabla.slice(x, start, stop)


def dynamic_slice(x, start_indices, slice_sizes):
    """The window of these sizes at starts that are integer scalars or ints. Starts below 0 count from the end, as in
    JAX; then they are moved so that the window lies inside."""
    x = asarray(x)
    starts = _from_front(x, start_indices)
    sizes = [s if isinstance(s, _nabla.Dim) else operator.index(s) for s in slice_sizes]
    if all_static(sizes):
        return emit1("dynamic_slice", [x] + starts, {"sizes": sizes})
    return emit1("dynamic_slice", [x] + starts, {"sizes": [-1] * len(sizes), "window": sizes})


def dynamic_update_slice(x, update, start_indices):
    """x with the window at `start_indices`, which count as in dynamic_slice, replaced by `update`."""
    x = asarray(x)
    return emit1("dynamic_update_slice", [x, asarray(update, x.dtype)] + _from_front(x, start_indices), {})


def _from_front(x, starts):
    from .indexing import window_starts
    starts = [operand(s) for s in starts]
    if len(starts) != x.ndim:
        _nabla.fail(204, f"dynamic_slice: {len(starts)} starts for {x.type_str()}")
    return window_starts([_start(s, n) for s, n in zip(starts, x.shape)], x.shape)


def _start(s, n):
    """A start counted from the front. A Python int is limited to the size n, beyond which all starts are equal."""
    from .indexing import from_front
    if isinstance(s, Tensor):
        return from_front(s, n)
    if isinstance(s, int):
        most = bounds_of(n)[1]
        s = max(min(s, most), -most)
    return s + n if s < 0 else s


def slice_update(x, update, start, size=None):
    """x with x[start[0] : start[0] + size[0], ...] replaced by `update`, which broadcasts to `size` (its own shape)."""
    x, update = asarray(x), asarray(update, asarray(x).dtype)
    start = [s + n if isinstance(s, int) and s < 0 else s for s, n in zip(listed(start), x.shape)]
    if size is not None:
        update = broadcast_to(update, size)
    if len(start) != x.ndim or update.ndim != x.ndim:
        _nabla.fail(204, f"slice_update: {len(start)} starts and an update {update.type_str()} for {x.type_str()}")
    for s, k, n in zip(start, update.shape, x.shape):
        if all(isinstance(v, int) for v in (s, k, n)) and s + k > n:
            _nabla.fail(204, f"slice_update: {update.type_str()} at {tuple(start)} reaches beyond {x.type_str()}")
    return dynamic_update_slice(x, update, start)


def slice_update_inplace(x, update, start, size=None):
    """slice_update, after which x itself is the result. For values outside of traced functions; returns x."""
    rebind(x, slice_update(x, update, start, size))
    return x


def pad(x, paddings, mode="constant", value=0):
    """More elements around x: `paddings` is an int, a pair (before, after), or a pair per dimension.

    mode: "constant" (`value`), "edge", "reflect" (without the edge), "symmetric" (with it) or "wrap". Negative
    numbers cut off, with "constant" only.
    """
    x = asarray(x)
    pairs = _pairs(paddings, x)
    if mode == "constant":
        return _nabla.pad(x, asarray(value, x.dtype), [a for a, _ in pairs], [b for _, b in pairs])
    for d, (low, high) in enumerate(pairs):
        if all_static([x.shape[d], low, high]):
            if low or high:
                x = _nabla.take(x, asarray(_padded_places(x, d, low, high, mode), "int32"), d)
        else:
            x = _nabla.take(x, _places_of_sizes(x, d, low, high, mode), d)
    return x


def _pairs(paddings, x):
    if not isinstance(paddings, (tuple, list)):
        return [(paddings, paddings)] * x.ndim
    if len(paddings) == 2 and not isinstance(paddings[0], (tuple, list)):
        return [tuple(paddings)] * x.ndim
    pairs = [tuple(p) if isinstance(p, (tuple, list)) else (p, p) for p in paddings]
    pairs = pairs * x.ndim if len(pairs) == 1 else pairs
    if len(pairs) != x.ndim or any(len(p) != 2 for p in pairs):
        _nabla.fail(204, f"pad: {paddings} is no pair per dimension of {x.type_str()}")
    return pairs


def _padded_places(x, d, low, high, mode):
    n = x.shape[d]
    if low < 0 or high < 0:
        _nabla.fail(204, f"pad: {low} and {high} cut elements off, which is for mode constant")
    if n == 0:
        _nabla.fail(204, f"pad: mode {mode} needs elements along axis {d} of {x.type_str()}")
    rule = {"edge": lambda i: min(max(i, 0), n - 1), "wrap": lambda i: i % n,
            "symmetric": lambda i: min(i % (2 * n), 2 * n - 1 - i % (2 * n)),
            "reflect": lambda i: 0 if n == 1 else min(i % (2 * n - 2), 2 * n - 2 - i % (2 * n - 2))}.get(mode)
    if rule is None:
        _unknown_mode(mode)
    return [rule(i) for i in range(-low, n + high)]


def _unknown_mode(mode):
    _nabla.fail(204, f"pad: mode {mode!r} is none of constant, edge, reflect, symmetric, wrap")


def _places_of_sizes(x, d, low, high, mode):
    """_padded_places where the size or the numbers are known only at run time: int32 [low + n + high]."""
    n = x.shape[d]
    require_at_least(n, 1, f"pad with mode {mode} along axis {d} of {x.type_str()}")
    for count in (low, high):
        require_at_least(count, 0, f"pad with mode {mode}")
    place, n = emit1("sub", [places_in(n + low + high), low], {}), asarray(n, DType.int32)
    if mode == "edge":
        return emit1("minimum", [emit1("maximum", [place, 0], {}), n - 1], {})
    if mode == "wrap":
        return _nabla.mod(place, n)
    if mode not in ("symmetric", "reflect"):
        _unknown_mode(mode)
    period = n * 2 if mode == "symmetric" else emit1("maximum", [n * 2 - 2, 1], {})
    there = _nabla.mod(place, period)
    return emit1("minimum", [there, (n * 2 - 1 if mode == "symmetric" else n * 2 - 2) - there], {})


def rebind(x, shape):
    """x, of which `shape` is claimed. Raises Error where it has another; sizes may be symbolic, None fits any."""
    x = asarray(x)
    shape = listed(shape)
    if len(shape) != x.ndim or any(s is not None and s != have for s, have in zip(shape, x.shape)):
        _nabla.fail(204, f"rebind: {x.type_str()} has not the shape {tuple(shape)}")
    return x


def as_interleaved_complex(x):
    """Pairs along the last dimension of size 2 n as (real, imaginary): [..., 2 n] -> [..., n, 2]."""
    x = asarray(x)
    if x.ndim == 0 or not isinstance(x.shape[-1], int) or x.shape[-1] % 2:
        _nabla.fail(204, f"as_interleaved_complex: the last dimension of {x.type_str()} does not consist of pairs")
    return reshape(x, list(x.shape[:-1]) + [x.shape[-1] // 2, 2])


def view_as_real_interleaved(x):
    """The inverse of as_interleaved_complex: [..., n, 2] -> [..., 2 n]."""
    x = asarray(x)
    if x.ndim < 2 or x.shape[-1] != 2:
        _nabla.fail(204, f"view_as_real_interleaved: the last dimension of {x.type_str()} is no pair")
    return flatten(x, -2, -1)


def astype_like(x, other):
    """x in the dtype of another tensor."""
    return astype(x, asarray(other).dtype)


def shape_of(x):
    """The shape, a tuple of ints and Dims."""
    return x.shape if isinstance(x, Tensor) else asarray(x).shape


swapaxes = swap_axes
expand_dims = unsqueeze
concat = concatenate
permute_dims = permute
# Tensors have no hidden batch dimensions here: inside vmap a function sees one example, so physical axes are axes.
unsqueeze_physical, squeeze_physical = unsqueeze, squeeze
broadcast_to_physical, moveaxis_physical = broadcast_to, moveaxis

__all__ = [
    "append", "as_interleaved_complex", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to",
    "broadcast_to_physical", "column_stack", "concat", "concatenate", "dstack", "dynamic_slice",
    "dynamic_update_slice", "expand", "expand_dims", "flatten", "flip", "fliplr", "flipud", "hstack",
    "matrix_transpose", "moveaxis", "moveaxis_physical", "pad", "permute", "permute_dims", "ravel", "rebind", "repeat",
    "repeat_interleave", "reshape", "roll", "rot90", "slice_tensor", "slice_update", "slice_update_inplace", "squeeze",
    "squeeze_physical", "stack", "swap_axes", "swapaxes", "tile", "transpose", "unsqueeze", "unsqueeze_physical",
    "view_as_real_interleaved", "vstack",
]
