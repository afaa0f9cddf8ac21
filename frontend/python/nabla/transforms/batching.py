"""Functions of one example on a batch of them."""

import functools

from .. import _nabla
from .._mesh import DimSpec, need_mesh, refuse
from .._trace import Arguments, per_leaf, trace
from ..ops.communication import shard
from ..tree import broadcast_prefix


def _is_axis(x):
    return x is None or isinstance(x, int)


def vmap(fun=None, in_axes=0, out_axes=0, axis_size=None, spmd_axis_name=None, mesh=None):
    """`fun` on every example of a batch at once.

    `in_axes` and `out_axes`: an int, None (not mapped), or a prefix of the tree of arguments or results with such at
    its leaves. `axis_size` is needed where nothing is mapped. `spmd_axis_name`: the axis of a mesh that the batch lies
    along, in every `shard` of `fun`; with `mesh` in what is mapped of arguments and results, too. Without `fun` a
    decorator: `@nb.vmap(in_axes=1)`.
    """
    if fun is None:
        return functools.partial(vmap, in_axes=in_axes, out_axes=out_axes, axis_size=axis_size,
                                 spmd_axis_name=spmd_axis_name, mesh=mesh)
    if spmd_axis_name is not None and not isinstance(spmd_axis_name, str):
        raise TypeError(f"vmap: spmd_axis_name is the name of one axis, got {spmd_axis_name!r}")
    if mesh is not None:
        need_mesh(mesh, "vmap")
    if mesh is not None and spmd_axis_name is None:
        refuse(f"vmap: mesh {mesh} without spmd_axis_name, the axis that the batch lies along",
               f"spmd_axis_name=\"{mesh.axis_names[0]}\", or another of its axes")

    @functools.wraps(fun)
    def mapped(*args, **kwargs):
        arguments = Arguments(args, kwargs)
        axes = _axes_of(in_axes, args, kwargs)
        axes = [axes[place] for place in arguments.places]
        spmd = spmd_axis_name or ""
        if mesh is not None:
            _nabla.enter_mesh(mesh._native)
            arguments.tensors = [_along(x, axis, mesh, spmd) for x, axis in zip(arguments.tensors, axes)]
        types = _nabla.vmap_examples(axes, axis_size, "", arguments.tensors)  # `fun` may be the first to name the mesh
        f, result = trace(fun, types, arguments.rebuild, like=arguments.tensors, without=axes, of_batch=True)
        full = result.rebuild(result.tensors)
        prefix = per_leaf("vmap: out_axes", out_axes, full, _is_axis, 204, "results")
        prefix = [prefix[place] for place in result.places]
        native = None if mesh is None else mesh._native
        out = _nabla.vmap_call(f, axes, prefix, axis_size, spmd, native, arguments.tensors)
        if mesh is not None:
            out = [_along(x, axis, mesh, spmd) for x, axis in zip(out, prefix)]
        return result.rebuild(out)

    return mapped


def _along(x, axis, mesh, spmd_axis_name):
    """x with its mapped dimension cut along the axis of the mesh; the others as propagation finds."""
    if axis is None:
        return x
    dims = [DimSpec(is_open=True) for _ in range(x.ndim)]
    dims[axis] = DimSpec([spmd_axis_name])
    return shard(x, mesh, dims)


def _leaves_of(axes, tree):
    return per_leaf("vmap: in_axes", axes, tree, _is_axis, 204, "arguments")


def _axes_of(in_axes, args, kwargs):
    if isinstance(in_axes, (tuple, list)):
        if len(in_axes) != len(args):
            _nabla.fail(204, f"vmap: in_axes has {len(in_axes)} elements for {len(args)} arguments: {in_axes!r}",
                        "give one for each argument, or one for all; None: not mapped")
        out = []
        for axes, a in zip(in_axes, args):
            out += _leaves_of(axes, a)
    else:
        out = _leaves_of(in_axes, tuple(args))
    return out + broadcast_prefix(0, kwargs, _is_axis)


__all__ = [
    "vmap",
]
