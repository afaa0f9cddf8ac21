"""Reading and writing at computed places, by name. Elements of indices below 0 count from the end."""

from .. import _nabla
from .._core import DType, asarray, astype
from ._common import axis_of, emit1
from .binary import broadcast_shapes
from .indexing import Place, from_front, getitem


def gather(x, indices=None, axis=0):
    """The slices of x at `indices` (integers of any shape) along `axis`: [..., *indices, ...].

    Without indices: a tensor that is laid out over a mesh, whole on every rank; another one itself.
    """
    x = asarray(x)
    if indices is None:
        from .communication import gather_all_axes
        return gather_all_axes(x)
    d = axis_of(axis, x.ndim, "gather")
    return getitem(x, (slice(None),) * d + (_integers(indices, "gather"),))


def take(x, indices, axis=0, mode="clip", fill_value=None):
    """As gather; axis None takes from all elements in row-major order, which is NumPy's default."""
    x, indices = asarray(x), _integers(indices, "take")
    if axis is None:
        x, axis = _nabla.flatten(x, 0, -1) if x.ndim else emit1("reshape", [x], {"shape": [1]}), 0
    d = axis_of(axis, x.ndim, "take")
    return Place(x, (slice(None),) * d + (indices,)).get(mode, fill_value)


def _integers(indices, what):
    out = asarray(indices)
    if not out.dtype.is_integer():
        raise TypeError(f"{what}: indices are integers, got {out.type_str()}")
    return out


def take_along_axis(x, indices, axis=-1):
    """result[.., i, ..] = x[.., indices[.., i, ..], ..]; other dimensions broadcast."""
    x, indices = asarray(x), _integers(indices, "take_along_axis")
    d = axis_of(axis, x.ndim, "take_along_axis")
    x, indices = _aligned(x, indices, d, "take_along_axis")
    if 0 in indices.shape:  # x may have no elements
        return _nabla.full(indices.shape, 0.0, x.dtype)
    return _nabla.take_along_axis(x, from_front(indices, x.shape[d]), d)


def _aligned(x, indices, d, what):
    if x.ndim != indices.ndim:
        _nabla.fail(204, f"{what}: {x.type_str()} and {indices.type_str()} differ in rank")
    rest = [1 if i == d else s for i, s in enumerate(x.shape)]
    other = [1 if i == d else s for i, s in enumerate(indices.shape)]
    common = list(broadcast_shapes(rest, other))
    return [_nabla.broadcast_to(t, common[:d] + [t.shape[d]] + common[d + 1:]) for t in (x, indices)]


def put_along_axis(x, indices, values, axis=-1):
    """x with x[.., indices[.., i, ..], ..] = values[.., i, ..]."""
    return _along(x, indices, values, axis, "scatter_set")


def add_along_axis(x, indices, values, axis=-1):
    """x with values[.., i, ..] added at x[.., indices[.., i, ..], ..]; repeated places accumulate."""
    return _along(x, indices, values, axis, "scatter_add")


def _along(x, indices, values, axis, name):
    x, indices = asarray(x), _integers(indices, name)
    d = axis_of(axis, x.ndim, name)
    indices = from_front(indices, x.shape[d])
    values = _nabla.broadcast_to(astype(values, x.dtype), list(indices.shape))
    if 0 in indices.shape:
        return x
    others = [i for i in range(x.ndim) if i != d]
    return emit1(name, [x, indices, values], {
        "update_window_dims": [], "inserted_window_dims": [d], "scatter_dims_to_operand_dims": [d],
        "index_vector_dim": x.ndim, "operand_batching_dims": others, "scatter_indices_batching_dims": others})


def scatter(x, indices, updates, axis=0):
    """x whose slices at `indices` along `axis` are replaced by those of `updates`; of repeated ones the last counts."""
    return Place(*_along_one(x, indices, axis, "scatter")).set(updates)


def scatter_add(x, indices, updates, axis=0):
    """x with slices of `updates` added to those at `indices` along `axis`; repeated ones accumulate."""
    return Place(*_along_one(x, indices, axis, "scatter_add")).add(updates)


def scatter_mul(x, indices, updates, axis=0):
    """x with the slices at `indices` multiplied by those of `updates`; repeated ones accumulate."""
    return Place(*_along_one(x, indices, axis, "scatter_mul")).multiply(updates)


def scatter_min(x, indices, updates, axis=0):
    """x with the smaller ones of its slices at `indices` and of `updates`."""
    return Place(*_along_one(x, indices, axis, "scatter_min")).min(updates)


def scatter_max(x, indices, updates, axis=0):
    """x with the larger ones of its slices at `indices` and of `updates`."""
    return Place(*_along_one(x, indices, axis, "scatter_max")).max(updates)


def _along_one(x, indices, axis, what):
    x = asarray(x)
    return x, (slice(None),) * axis_of(axis, x.ndim, what) + (_integers(indices, what),)


def gather_nd(x, indices):
    """x at index vectors: indices [..., k] choose in x's first k dimensions -> [..., rest of x]."""
    x, indices = asarray(x), _integers(indices, "gather_nd")
    return getitem(x, tuple(_nabla.unbind(indices, indices.ndim - 1)))


def scatter_nd(x, indices, updates):
    """x with `updates` [..., rest of x] at the places that gather_nd reads; of repeated places the last one counts."""
    x, indices = asarray(x), _integers(indices, "scatter_nd")
    return Place(x, tuple(_nabla.unbind(indices, indices.ndim - 1))).set(updates)


def scatter_nd_add(x, indices, updates):
    """x with `updates` added at the places that gather_nd reads; repeated places accumulate."""
    x, indices = asarray(x), _integers(indices, "scatter_nd_add")
    return Place(x, tuple(_nabla.unbind(indices, indices.ndim - 1))).add(updates)


def segment_sum(x, segment_ids, num_segments):
    """Sums of the slices of x along dimension 0 that have one id: [num_segments, ...]. Slices whose id is below 0, or
    num_segments and more, are left out, as in JAX."""
    return summed_by(_integers(segment_ids, "segment_sum"), asarray(x), num_segments)


def summed_by(labels, x, count):
    """[count, ...]: for each of 0 ... count - 1 the sum of the slices of x (or of x, a scalar, itself) with that label.
    Other labels are left out. 16-bit floats are summed in float32."""
    zeros = _nabla.full([count] + list(x.shape[1:]), 0.0, x.dtype)
    if 0 in (count, *labels.shape):
        return zeros
    wide = astype(labels, DType.int32) if labels.dtype.itemsize < 4 else labels
    inside = emit1("lt", [wide, count], {})
    if wide.dtype not in (DType.uint32, DType.uint64):
        inside = emit1("and", [inside, emit1("ge", [wide, 0], {})], {})
    beyond = _nabla.broadcast_to(asarray(count, wide.dtype), list(wide.shape)) if isinstance(count, _nabla.Dim) \
        else _nabla.full(wide.shape, float(count), wide.dtype)
    places = emit1("select", [inside, wide, beyond], {})
    half = x.dtype.is_float() and x.dtype.itemsize < 4
    out = Place(astype(zeros, DType.float32) if half else zeros, (places,)).add(astype(x, DType.float32) if half else x)
    return astype(out, x.dtype)


__all__ = [
    "add_along_axis", "gather", "gather_nd", "put_along_axis", "scatter", "scatter_add", "scatter_max", "scatter_min",
    "scatter_mul", "scatter_nd", "scatter_nd_add", "segment_sum", "take", "take_along_axis",
]
