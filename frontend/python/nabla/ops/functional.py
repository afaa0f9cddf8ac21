"""Functions over parts of arrays, arrays from functions, products along dimensions that are named by place."""

from .. import _nabla
from .._core import DType, asarray, astype, is_number, weak_floats
from ._common import axis_of, axes_of, emit1, sizes_of, tensors
from .binary import broadcast_arrays, einsum
from .control_flow import where


def apply_along_axis(function, axis, x, *args, **kwargs):
    """function(row, *args) for every row of x along an axis; its result takes the axis' place."""
    from ..transforms import vmap
    x = asarray(x)
    d = axis_of(axis, x.ndim, "apply_along_axis")
    rest = x.ndim - 1
    f = lambda row: function(row, *args, **kwargs)  # noqa: E731
    for _ in range(rest):
        f = vmap(f)
    out = f(_nabla.moveaxis(x, d, rest))
    from .view import moveaxis
    places = list(range(rest, out.ndim))
    return moveaxis(out, places, [d + i for i in range(len(places))]) if places else out


def apply_over_axes(function, x, axes):
    """function(x, axis) for one axis after the other; where it drops the dimension, it stays with size 1."""
    x = asarray(x)
    for a in axes_of(axes, x.ndim, "apply_over_axes"):
        out = asarray(function(x, a))
        if out.ndim == x.ndim - 1:
            out = emit1("reshape", [out], {"shape": [*out.shape[:a], 1, *out.shape[a:]]})
        x = out
    return x


def piecewise(x, conditions, functions, *args, **kwargs):
    """functions[i](x, *args), or the number functions[i], where conditions[i] holds; a last function is for the rest,
    else 0. The last condition that holds counts."""
    x = asarray(x)
    conditions = list(conditions) if isinstance(conditions, (list, tuple)) else [conditions]
    functions = list(functions)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        _nabla.fail(204, f"piecewise: {len(functions)} functions for {len(conditions)} conditions")
    value = lambda f: f(x, *args, **kwargs) if callable(f) else f  # noqa: E731
    out = _nabla.full(x.shape, 0.0, x.dtype)
    if len(functions) > len(conditions):
        out = out + astype(value(functions.pop()), x.dtype)
    for c, f in zip(conditions, functions):
        out = where(c, astype(value(f), x.dtype), out)
    return out


class vectorize:
    """A function of scalars as one of arrays that broadcast: numpy.vectorize, by vmap. `excluded` names positions of
    arguments that are handed on whole. Also a decorator."""

    def __init__(self, function, *, excluded=()):
        self._function, self._excluded = function, set(excluded)
        self.__doc__ = function.__doc__

    def __call__(self, *args):
        from ..transforms import vmap
        mapped = [i for i in range(len(args)) if i not in self._excluded and not is_number(args[i])]
        arrays = broadcast_arrays(*[args[i] for i in mapped])
        whole = [a if i in self._excluded or not is_number(a) else weak_floats(a) for i, a in enumerate(args)]

        def f(*values):
            inside = list(whole)
            for i, v in zip(mapped, values):
                inside[i] = v
            return self._function(*inside)

        for _ in range(arrays[0].ndim if arrays else 0):
            f = vmap(f)
        return f(*arrays)


def fromfunction(function, shape, dtype=None):
    """function(i, j, ...) of the positions of all elements, as tensors of the whole shape."""
    shape = sizes_of(shape, "fromfunction")
    dtype = DType.int32 if dtype is None else dtype
    at = [astype(emit1("iota", [], {"shape": shape, "axis": d, "dtype": DType.int32}), dtype)
          for d in range(len(shape))]
    out = asarray(function(*at))
    return out if list(out.shape) == shape else _nabla.broadcast_to(out, shape)


def block(parts):
    """An array of blocks, nested lists of tensors: the innermost lists side by side along the last dimension."""
    def depth_of(p):
        return 1 + max(depth_of(q) for q in p) if isinstance(p, list) else 0

    from .view import concatenate
    depth = depth_of(parts)

    def leaves_of(p):
        return [leaf for q in p for leaf in leaves_of(q)] if isinstance(p, list) else [p]

    leaves = iter(tensors(*leaves_of(parts)))

    def of_one_dtype(p):
        return [of_one_dtype(q) for q in p] if isinstance(p, list) else next(leaves)

    parts = of_one_dtype(parts)

    def rank_of(p):
        return max(rank_of(q) for q in p) if isinstance(p, list) else p.ndim

    rank = max(rank_of(parts), depth)

    def joined(p, level):
        if isinstance(p, list):
            return concatenate([joined(q, level + 1) for q in p], rank - depth + level)
        return emit1("reshape", [p], {"shape": [1] * (rank - p.ndim) + list(p.shape)})

    return joined(parts, 0)


def vecdot(x, y, axis=-1):
    """Sums of products along an axis; the others broadcast."""
    from .view import moveaxis
    x, y = asarray(x), asarray(y)
    return einsum("...i,...i->...", moveaxis(x, axis, -1), moveaxis(y, axis, -1))


def matvec(x, y):
    """Matrices times vectors: [..., m, n] and [..., n] -> [..., m]."""
    return einsum("...mn,...n->...m", asarray(x), asarray(y))


def vecmat(x, y):
    """Vectors times matrices: [..., m] and [..., m, n] -> [..., n]."""
    return einsum("...m,...mn->...n", asarray(x), asarray(y))


__all__ = [
    "apply_along_axis", "apply_over_axes", "block", "fromfunction", "matvec", "piecewise", "vecdot", "vecmat",
    "vectorize",
]
