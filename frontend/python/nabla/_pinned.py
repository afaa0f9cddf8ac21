"""Layouts that compiled functions give their arguments and results: in_shardings and out_shardings of nabla.jit."""

import functools

from . import _nabla
from ._core import asarray
from ._mesh import _LAYOUT, PartitionSpec, ShardingSpec, is_mesh_and_layout, laid_out, refuse, spec_for, spec_of
from ._trace import name_of, per_leaf
from .tree import is_array, leaves_with_path, tree_flatten


def _is_layout(x):
    return x is None or isinstance(x, (ShardingSpec, PartitionSpec)) or is_mesh_and_layout(x)


def _mesh_of(what, layout):
    """The mesh of a layout in such a tree; None: it is None, which leaves a tensor as it is."""
    if layout is None or isinstance(layout, ShardingSpec):
        return layout and layout.mesh
    if not is_mesh_and_layout(layout):
        why = (f"which names no mesh: (mesh, {layout!r}) does" if isinstance(layout, PartitionSpec) else
               "expected a ShardingSpec, a pair such as (mesh, P(\"dp\")), or None for a tensor that stays as it is")
        raise TypeError(f"jit: {what} has {layout!r}, {why}")
    return layout[0]


def check(in_shardings, out_shardings, option, mesh):
    """Raises TypeError for an invalid layout, and Error (E0210) for layouts over two meshes. `option` is the name of
    the jit option that gave `mesh`."""
    found = [(option, mesh)]
    for what, prefix in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
        found += [(f"{what} at {path}" if path else what, _mesh_of(what, layout))
                  for path, layout in leaves_with_path(prefix, _is_layout)]
    found = [(what, mesh) for what, mesh in found if mesh is not None]
    for what, mesh in found[1:]:
        if mesh != found[0][1]:
            _nabla.fail(_LAYOUT, f"jit: {found[0][0]} is of mesh {found[0][1]}, and {what} of mesh {mesh}",
                        "one function is of one mesh: give all layouts over that one")


def _one(what, layout, x):
    mesh, dims = (layout.mesh, layout) if isinstance(layout, ShardingSpec) else layout
    spec = spec_for(mesh, dims, x.ndim, f"jit: {what}, {x.type_str()}")
    return x if not x.is_traced and spec_of(x) == spec else laid_out(x, spec)


def _layouts(what, fun, prefix, tree):
    whole = "results" if what == "out_shardings" else "arguments"
    return per_leaf(f"jit: {what} of {name_of(fun)}", prefix, tree, _is_layout, _LAYOUT, whole)


def lay_out_arguments(fun, prefix, args, kwargs, static, arguments):
    """Lays out the tensors of `arguments`, those of a call of `fun`, in place. `static`: the positions of arguments
    that are part of the program, for which the prefix has nothing."""
    if kwargs:
        raise TypeError(f"jit: in_shardings lays out arguments by their places, and {name_of(fun)} is called with "
                        f"{next(iter(kwargs))}=...: pass it by its place")
    if not _is_layout(prefix) and isinstance(prefix, (tuple, list)):
        if len(prefix) != len(args) - len(static):
            refuse(f"jit: in_shardings of {name_of(fun)} has {len(prefix)} elements, and the call has "
                   f"{len(args) - len(static)} arguments" + (" that are not static" if static else ""),
                   "give a layout per argument, or one for all; None leaves an argument as it is")
        rest = iter(prefix)
        prefix = tuple(None if i in static else next(rest) for i in range(len(args)))
    layouts = _layouts("in_shardings", fun, prefix, tuple(args))
    names = arguments.names(fun)
    for k, place in enumerate(arguments.places):
        if layouts[place] is not None:
            what = f"in_shardings of {name_of(fun)}, {names[k]}"
            arguments.tensors[k] = _one(what, layouts[place], arguments.tensors[k])


def with_laid_out_results(fun, prefix):
    """`fun`, whose results are laid out."""
    def pinned(*args, **kwargs):
        out = fun(*args, **kwargs)
        leaves, form = tree_flatten(out)
        layouts = _layouts("out_shardings", fun, prefix, out)
        for i, (path, layout) in enumerate(zip(form.leaf_paths(), layouts)):
            if layout is not None and is_array(leaves[i]):
                what = f"out_shardings of {name_of(fun)}, result {path}".rstrip()
                leaves[i] = _one(what, layout, asarray(leaves[i]))
        return form.unflatten(leaves)

    pinned.__name__ = name_of(fun)
    return functools.update_wrapper(pinned, fun, updated=())
