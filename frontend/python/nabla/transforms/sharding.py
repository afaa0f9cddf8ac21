"""Functions spread over the ranks of a mesh."""

import functools

from .. import _nabla
from .._mesh import (
    _LAYOUT, P, PartitionSpec, ShardingSpec, names_of, need_mesh, parts_of, refuse, spec_for, wanting_multiples)
from .._trace import Arguments, Result, name_of, per_leaf
from .._core import Tensor
from ..compiled import jit, trace
from ..ops.communication import _axes_of, _inside, _sharded, _traced
from ..tree import tree_flatten, tree_leaves


def _is_spec(x):
    return x is None or isinstance(x, (PartitionSpec, ShardingSpec))


def shard_map(func=None, mesh=None, in_specs=None, out_specs=None, auto_sharding=False, debug=False, axis_names=None):
    """`func` on a mesh, in one of two ways.

    in_specs a dict {argument: layout}: `func` is written for whole tensors; arguments are laid out so, and results by
    `out_specs`, a dict {result: layout}, or one layout for all results, or a tree of them that begins as theirs. What
    lies between follows by propagation. None leaves a tensor as it is.

    in_specs a PartitionSpec, or a tuple with one per argument (a prefix of its tree): `func` is written for one rank.
    It gets the rank's parts, and its results are the parts of the results by `out_specs`. A mesh axis that a layout
    does not name means: the same on all ranks along it. What ranks exchange is what `func` calls: psum, ppermute, ... .
    `func` takes positional arguments alone, and its tensors are whole where it closes over them.
    `axis_names` are the axes for whose ranks it is written, by default all; along the others its values are sharded as
    any.

    Raises Error (E0210) for trees and layouts that do not fit, axes that do not divide and, when it is computed, a
    result that may differ along an axis which its layout does not name. `auto_sharding`: with
    in_specs a dict, the compiler chooses what they leave open, and the function is compiled (nabla.jit with
    auto_shard). `debug`: every call outside of traced functions prints the IR of the mapped function first, with
    layouts (nabla.trace).
    """
    if func is None:
        return functools.partial(shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs,
                                 auto_sharding=auto_sharding, debug=debug, axis_names=axis_names)
    if not callable(func):
        raise TypeError(f"shard_map takes a function, got {func!r}")
    need_mesh(mesh, "shard_map")
    if auto_sharding and not isinstance(in_specs, dict):
        refuse(f"shard_map: auto_sharding of {name_of(func)} is for functions of whole tensors, whose in_specs are a "
               f"dict {{argument: layout}}, got {in_specs!r}: a function of one rank says itself what each has",
               "leave auto_sharding out, or give in_specs={0: ...}, with {} for none")
    if not isinstance(in_specs, dict):
        mapped = _of_one_rank(func, mesh, in_specs, out_specs, axis_names)
        return _printing(mapped, mapped) if debug else mapped
    if axis_names is not None:
        refuse(f"shard_map: axis_names={axis_names!r} belong to a function of one rank, whose in_specs are a tuple, "
               f"got {in_specs!r}", "leave axis_names out, or give a layout per argument, in a tuple")
    whole = _whole(func, mesh, in_specs, out_specs)
    mapped = jit(whole, auto_shard=mesh) if auto_sharding else whole
    return _printing(mapped, whole) if debug else mapped


def _printing(mapped, shown):
    """`mapped`, which prints the IR of `shown` before it is called with elements."""
    @functools.wraps(mapped)
    def printing(*args, **kwargs):
        if not any(isinstance(t, Tensor) and t.is_traced for t in tree_leaves((args, kwargs))):
            print(trace(shown, *args, **kwargs))
        return mapped(*args, **kwargs)

    return printing


def _whole(func, mesh, in_specs, out_specs):
    def laid_out(what, name, x, spec):
        return x if spec is None else _sharded(f"shard_map: {what} of {name_of(func)}, ", x, mesh, spec, name=name)

    def results_laid_out(out):
        leaves, treedef = tree_flatten(out)
        if isinstance(out_specs, dict) and all(isinstance(i, int) for i in out_specs):
            specs = [None] * len(leaves)
            for i, spec in out_specs.items():
                if not 0 <= i < len(leaves):
                    refuse(f"shard_map: out_specs lays out result {i}, and {name_of(func)} has {len(leaves)}",
                           "results are numbered from 0, in the order of the tree that the function returns")
                specs[i] = spec
        else:
            specs = _prefix("out_specs", func, out_specs, out)
        return treedef.unflatten([laid_out("out_specs", _result_at(path), x, spec)
                                  for path, x, spec in zip(treedef.leaf_paths(), leaves, specs)])

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        for i in in_specs:
            if not isinstance(i, int):
                raise TypeError(f"shard_map: in_specs lays out arguments of {name_of(func)} by their places, 0, 1, "
                                f"..., got {i!r}")
            if not 0 <= i < len(args):
                refuse(f"shard_map: in_specs lays out argument {i!r}, and {name_of(func)} is called with {len(args)}",
                       "arguments are numbered from 0, and given by position")
        names = Arguments.parameters(func)
        names += [f"argument {i}" for i in range(len(names), len(args))]
        out = func(*[laid_out("in_specs", names[i], a, in_specs.get(i)) for i, a in enumerate(args)], **kwargs)
        return results_laid_out(out)

    return mapped


def _result_at(path):
    return f"result {path}".rstrip()


def _prefix(what, func, specs, tree):
    """The layout of every leaf of the tree: `specs` are a tree that begins as it."""
    whole = "results" if what == "out_specs" else "arguments"
    out = per_leaf(f"shard_map: {what} of {name_of(func)}", specs, tree, _is_spec, _LAYOUT, whole)
    for spec in out:
        if not _is_spec(spec):
            raise TypeError(f"shard_map: {what} of {name_of(func)} has {spec!r}, expected a PartitionSpec such as "
                            "P(\"dp\")")
    return out


def _of_one_rank(func, mesh, in_specs, out_specs, axis_names):
    if in_specs is None or out_specs is None:
        refuse(f"shard_map: {name_of(func)} is written for one rank, which needs in_specs and out_specs, and "
               f"{'in_specs' if in_specs is None else 'out_specs'} is None", "P() is whole on every rank")
    axes = list(mesh.axis_names) if axis_names is None else names_of(axis_names, "shard_map: axis_names")
    _axes_of(mesh, axes, f"shard_map of {name_of(func)}: axis_names")

    def layouts(what, specs, tree, of, names):
        """The layouts of the tensors of an Arguments or a Result, whose names errors say."""
        specs, out = _prefix(what, func, specs, tree), []
        for name, place, t in zip(names, of.places, of.tensors):
            spec = P() if specs[place] is None else specs[place]
            tensor = f"shard_map: {what} of {name_of(func)}, {name}, {t.type_str()}"
            out.append(spec_for(mesh, spec, t.ndim, tensor))
        return out

    if not _is_spec(in_specs) and not isinstance(in_specs, (list, tuple)):
        raise TypeError(f"shard_map: in_specs of {name_of(func)} is {in_specs!r}, expected a PartitionSpec such as "
                        "P(\"dp\"), a tuple with one per argument, or a dict {argument: layout}")

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        if kwargs:
            raise TypeError(f"shard_map: {name_of(func)} takes its arguments by position, as in_specs lays them out, "
                            f"got {', '.join(kwargs)} by name")
        arguments = Arguments(args)
        prefix = in_specs if _is_spec(in_specs) else tuple(in_specs)
        if not _is_spec(prefix) and len(prefix) != len(args):
            refuse(f"shard_map: in_specs has {len(prefix)} elements, {in_specs!r}, and {name_of(func)} is called with "
                   f"{len(args)} arguments",
                   "give a layout per argument, or one for all; P() is whole on every rank")
        _nabla.enter_mesh(mesh._native)
        ins = layouts("in_specs", prefix, tuple(args), arguments, arguments.names(func))
        with wanting_multiples(parts_of(arguments.tensors, ins)):
            region = _nabla.Region(mesh._native, [s._layout() for s in ins], axes, arguments.tensors, "shard_map")
        made = []

        def body(*parts):
            inside, _ = arguments.rebuild(parts)
            try:
                with _inside(mesh, axes):
                    made.append(Result(func(*inside), func))
            except _nabla.Error as e:
                names = arguments.names(func)
                cut = [f"{name} is {part.type_str()}, of {whole.type_str()}"
                       for name, part, whole in zip(names, parts, arguments.tensors) if part.shape != whole.shape]
                if cut:
                    e.add_note(f"{name_of(func)} is written for one rank of {mesh}, which has a part: {'; '.join(cut)}")
                raise
            return made[0].tensors

        def outs(_):
            result = made[0]
            prefix = tuple(out_specs) if isinstance(out_specs, list) else out_specs
            paths = result.treedef.leaf_paths()
            specs = layouts("out_specs", prefix, result.rebuild(result.tensors), result,
                            [_result_at(paths[place]) for place in result.places])
            return [s._layout() for s in specs]

        out = _traced(name_of(func), region, len(arguments.tensors), body, outs)
        return made[0].rebuild(out)

    return mapped


__all__ = ["shard_map"]
