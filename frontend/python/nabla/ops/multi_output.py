"""Functions of several results."""

from .. import _nabla
from .._core import asarray
from ._common import axis_of
from .reduction import minmax


def split(x, num_splits, axis=0):
    """Parts of equal size along an axis: an int says how many, a sequence the places between them, as in NumPy.

    Raises Error where the size does not divide; `chunk` allows sizes that differ.
    """
    x = asarray(x)
    d = axis_of(axis, x.ndim, "split")
    n = x.shape[d]
    if isinstance(num_splits, int):
        if num_splits < 1 or (isinstance(n, int) and n % num_splits):
            _nabla.fail(204, f"split: {num_splits} equal parts of axis {d} of {x.type_str()}: {n} does not divide; "
                             "chunk allows sizes that differ")
        return list(_nabla.split(x, num_splits, d))
    return _at_places(x, list(num_splits), d)


def _at_places(x, places, d):
    n = x.shape[d]
    places = [0] + [min(max(p + n if p < 0 else p, 0), n) for p in places] + [n]
    return [_nabla.slice_axis(x, d, a, max(a, b)) for a, b in zip(places, places[1:])]


def array_split(x, num_splits, axis=0):
    """Parts along an axis whose sizes differ by one at most, longer ones first."""
    x = asarray(x)
    if not isinstance(num_splits, int):
        return split(x, num_splits, axis)
    d = axis_of(axis, x.ndim, "array_split")
    short, longer = divmod(x.shape[d], num_splits)
    return split_sizes(x, [short + 1] * longer + [short] * (num_splits - longer), d)


def split_sizes(x, sizes, axis=0):
    """Parts of these sizes along an axis, which together fill it."""
    x = asarray(x)
    d = axis_of(axis, x.ndim, "split_sizes")
    if sum(sizes) != x.shape[d]:
        _nabla.fail(204, f"split_sizes: {tuple(sizes)} do not fill axis {d} of {x.type_str()}")
    places = []
    for size in sizes[:-1]:
        places.append((places[-1] if places else 0) + size)
    return _at_places(x, places, d)


def chunk(x, chunks, axis=0):
    """`chunks` parts along an axis whose sizes differ by one at most, longer ones first: 10 in 3 are 4, 3, 3.

    PyTorch's chunk gives 4, 4, 2. A size that is known only at run time must divide: Error.
    """
    x = asarray(x)
    d = axis_of(axis, x.ndim, "chunk")
    if chunks < 1:
        _nabla.fail(204, f"chunk: chunks is {chunks}, at least 1 is needed")
    return array_split(x, chunks, d) if isinstance(x.shape[d], int) else split(x, chunks, d)


def unbind(x, axis=0):
    """The slices along an axis, without it."""
    x = asarray(x)
    return list(_nabla.unbind(x, axis_of(axis, x.ndim, "unbind")))


def meshgrid(*xs, indexing="xy"):
    """Coordinates of a grid from vectors: "xy": the first runs along the second dimension, "ij": along the first."""
    xs = [asarray(x) for x in xs]
    if indexing not in ("xy", "ij"):
        _nabla.fail(204, f"meshgrid: indexing is {indexing!r}, not xy or ij")
    shape = [x.shape[0] for x in xs]
    out = []
    for i, x in enumerate(xs):
        sizes = [x.shape[0] if d == i else 1 for d in range(len(xs))]
        grid = _nabla.broadcast_to(_nabla.emit("reshape", [x], {"shape": sizes})[0], shape)
        swap = indexing == "xy" and len(xs) > 1
        out.append(_nabla.emit("transpose", [grid], {"permutation": [1, 0] + list(range(2, len(xs)))})[0]
                   if swap else grid)
    return out


__all__ = ["array_split", "chunk", "meshgrid", "minmax", "split", "split_sizes", "unbind"]
