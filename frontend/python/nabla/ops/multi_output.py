"""Functions of several results."""

from .. import _nabla
from .._core import asarray
from ._common import axis_of, cut, larger_size, same_size, sizes_of, smaller_size, static_size
from .reduction import minmax


def split(x, num_splits, axis=0):
    """Parts of equal size along an axis: an int says how many, a sequence the places between them, as in NumPy.

    Raises Error if the size is not a multiple of that number; `chunk` allows sizes that differ.
    """
    x = asarray(x)
    d = axis_of(axis, x.ndim, "split")
    n = x.shape[d]
    if isinstance(num_splits, int):
        if num_splits < 1 or (isinstance(n, int) and n % num_splits):
            _nabla.fail(204, f"split: {num_splits} equal parts of axis {d} of {x.type_str()}: {n} does not divide; "
                             "chunk allows sizes that differ")
        if isinstance(n, int):
            return list(_nabla.split(x, num_splits, d))
        if same_size(n % num_splits, 0) is not True:
            _nabla.fail(207, f"split: {num_splits} equal parts of axis {d} of {x.type_str()}: {n} may not be a "
                             f"multiple of {num_splits}", "array_split and chunk allow sizes that differ")
        part = n // num_splits
        return [cut(x, d, part * i, part * (i + 1)) for i in range(num_splits)]
    return _at_places(x, list(num_splits), d, "split")


def _at_places(x, places, d, what):
    n = x.shape[d]
    what = f"{what} of {x.type_str()} along axis {d}"
    places = [larger_size(p + n, 0, what) if p < 0 else p for p in sizes_of(places, what)]
    places = [0] + [smaller_size(p, n, what) for p in places] + [n]
    return [cut(x, d, a, larger_size(a, b, what)) for a, b in zip(places, places[1:])]


def array_split(x, num_splits, axis=0):
    """Parts along an axis whose sizes differ by one at most, longer ones first."""
    x = asarray(x)
    if not isinstance(num_splits, int):
        return split(x, num_splits, axis)
    d = axis_of(axis, x.ndim, "array_split")
    if num_splits < 1:
        _nabla.fail(204, f"array_split: {num_splits} parts, at least 1 is needed")
    n, start, parts = x.shape[d], 0, []
    for i in range(num_splits):
        size = (n + num_splits - 1 - i) // num_splits
        parts.append(cut(x, d, start, start + size) if isinstance(n, int) else _window(x, d, start, size))
        start = start + size
    return parts


def _window(x, d, start, size):
    """`size` slices of x from `start` on, which are within x though the bounds of the sizes may not show it."""
    starts = [asarray(start if i == d else 0) for i in range(x.ndim)]
    window = [size if i == d else n for i, n in enumerate(x.shape)]
    return _nabla.emit("dynamic_slice", [x, *starts], {"sizes": [-1] * x.ndim, "window": window})[0]


def split_sizes(x, sizes, axis=0):
    """Parts of these sizes along an axis, which together fill it."""
    x = asarray(x)
    d = axis_of(axis, x.ndim, "split_sizes")
    sizes = sizes_of(sizes, "split_sizes")
    fills = same_size(sum(sizes), x.shape[d])
    if not fills:
        _nabla.fail(204 if fills is False else 207, f"split_sizes: {tuple(sizes)} "
                    f"{'do' if fills is False else 'may'} not fill axis {d} of {x.type_str()}")
    places = []
    for size in sizes[:-1]:
        places.append((places[-1] if places else 0) + size)
    return _at_places(x, places, d, "split_sizes")


def chunk(x, chunks, axis=0):
    """`chunks` parts along an axis whose sizes differ by one at most, longer ones first: 10 in 3 are 4, 3, 3.

    PyTorch's chunk gives 4, 4, 2.
    """
    if chunks < 1:
        _nabla.fail(204, f"chunk: chunks is {chunks}, at least 1 is needed")
    return array_split(x, chunks, axis)


def unbind(x, axis=0):
    """The slices along an axis, without it."""
    x = asarray(x)
    d = axis_of(axis, x.ndim, "unbind")
    static_size(x.shape[d], f"unbind of {x.type_str()} along axis {d}", "it is the number of results")
    return list(_nabla.unbind(x, d))


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
