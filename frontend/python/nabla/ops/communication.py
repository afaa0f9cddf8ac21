"""Layouts over meshes of ranks, and what ranks exchange.

Tensors are whole: a layout says which part each rank has, and changes no element. Inside of a `shard_map` whose body is
written for one rank, a collective works on that rank's values; elsewhere it works on the parts of a tensor that is laid
out over a mesh, each of which is one rank's. Where it gets a tree, it works on each of its tensors.
"""

import contextlib
import contextvars
import functools
import inspect
import math
import operator

from .. import _nabla
from .._core import DType, asarray
from .._mesh import (
    _LAYOUT, DeviceMesh, DimSpec, P, PartitionSpec, ShardingSpec, compute_local_shape, get_num_shards,
    is_mesh_and_layout, laid_out, message_of, names_of, need_mesh, needs_reshard, refuse, spec_for, spec_of,
    wanting_multiples)
from ..devices import accelerator, cpu, gpu, to_device, transfer_to
from ..tree import is_array, tree_flatten, tree_map
from ._common import axis_of
from .comparison import equal
from .creation import zeros_like
from .reduction import prod
from .unary import cast
from .view import moveaxis, unsqueeze

_region = contextvars.ContextVar("nabla_region", default=None)  # (mesh, axes) of the body that is traced


@contextlib.contextmanager
def _inside(mesh, axes):
    token = _region.set((mesh, axes))
    try:
        yield
    finally:
        _region.reset(token)


def shard(x, mesh, dim_specs, replicated_axes=None):
    """x, or every tensor of a tree, laid out over a mesh: `dim_specs` has a DimSpec, the name of an axis, several of
    them or None for each dimension; a PartitionSpec may be shorter.

    Its derivative is laid out so too. Axes need not divide a size: the last parts are shorter then, and padded where
    the program is compiled for ranks. Raises Error (E0210) for layouts that do not fit the mesh or the number of
    dimensions, and for tensors of another mesh in one computation. A tensor of another mesh is computed and
    laid out over this one, outside of traced functions; no gradient goes that way.
    """
    need_mesh(mesh, "shard")
    return _sharded("shard of ", x, mesh, dim_specs, replicated_axes)


def _sharded(what, x, mesh, dim_specs, replicated_axes=None, name=""):
    """As shard. Errors begin with `what` and the place of the tensor in the tree, which is called `name`."""
    leaves, form = tree_flatten(x)
    for i, (path, leaf) in enumerate(zip(form.leaf_paths(name), leaves)):
        t = asarray(leaf)
        spec = spec_for(mesh, dim_specs, t.ndim, what + (f"{path}, " if path else "") + t.type_str(), replicated_axes)
        leaves[i] = laid_out(t, spec)
    return form.unflatten(leaves)


def with_sharding_constraint(x, sharding, dim_specs=None, replicated_axes=None):
    """x, or every tensor of a tree, laid out as a ShardingSpec or a pair such as (mesh, P("dp")) says, or as a mesh and
    what shard takes beside it."""
    return _laid_out_as("with_sharding_constraint", x, sharding, dim_specs, replicated_axes)


def _laid_out_as(what, x, sharding, dim_specs=None, replicated_axes=None):
    """As with_sharding_constraint, for the function `what`."""
    if dim_specs is None and isinstance(sharding, ShardingSpec):
        sharding = (sharding.mesh, sharding)
    if dim_specs is None and is_mesh_and_layout(sharding):
        sharding, dim_specs = sharding
    if not isinstance(sharding, DeviceMesh) or dim_specs is None:
        given = repr(sharding) if dim_specs is None else f"{sharding!r} and {dim_specs!r}"
        raise TypeError(f"{what} takes a ShardingSpec, which names its mesh, or a mesh and a PartitionSpec, got "
                        f"{given}")
    return _sharded(f"{what} of ", x, sharding, dim_specs, replicated_axes)


def shard_by_rule(values, operands, rule):
    """The values, a tensor or several, laid out as a rule says by the layouts of the operands, one or several, of which
    they were computed, whatever the ops between find: a text such as "m k, k n -> m n", or an OpShardingRule
    (nabla.core.sharding.propagation). Axes go on from operands to values and back.

    Raises Error (E0204) for a rule of another number of values, for a text that is none, and for names whose sizes
    differ."""
    return _by_rule("shard_by_rule", values, operands, rule)


def _by_rule(what, values, operands, rule):
    """As shard_by_rule, for what errors call `what`."""
    from ..core.sharding.propagation import OpShardingRule
    text = (rule if isinstance(rule, OpShardingRule) else OpShardingRule(rule)).equation
    several = isinstance(values, (list, tuple))
    outs = [asarray(v) for v in (values if several else [values])]
    ins = [asarray(x) for x in ([operands] if is_array(operands) else operands)]
    left, arrow, right = text.partition("->")
    results = right.split(",")
    if arrow and len(results) != len(outs):
        _nabla.fail(_ATTRIBUTE, f"{what}: rule \"{text}\" says {len(results)} results, there are {len(outs)}: "
                    f"{', '.join(y.type_str() for y in outs)}",
                    "after the arrow stand the words of each result, between commas")
    rules = [f"{left.strip()} -> {r.strip()}" for r in results] if arrow else [text] * len(outs)
    wrong = None
    try:
        outs = [_nabla.emit("shard_by_rule", [y, *ins], {"rule": r})[0] for y, r in zip(outs, rules)]
    except _nabla.Error as e:
        if e.code != f"E0{_ATTRIBUTE}":
            raise
        wrong = message_of(e)
    if wrong:
        _nabla.fail(_ATTRIBUTE, wrong.replace("shard_by_rule", what, 1),
                    "a word per dimension of each operand, and of the result, such as \"m k, k n -> m n\": a name, "
                    "1 for one element, (h d) for a product, or ...")
    return type(values)(outs) if several else outs[0]


def reshard(x, mesh, dim_specs, replicated_axes=None):
    """As shard, which lays out anew whatever x's layout is."""
    return shard(x, mesh, dim_specs, replicated_axes)


_ATTRIBUTE = 204  # the code of errors about arguments


def _need_spec(x, what):
    spec = spec_of(x)
    if spec is None:
        _nabla.fail(_LAYOUT, f"{what} of {x.type_str()}, which is laid out over no mesh", "nabla.shard lays it out" +
                    (", in the function that is traced" if x.is_traced else ""))
    return spec


def _on_parts(what, x, spec, out, body):
    """`body` on every rank's part of x, which is laid out as `spec`; the results' parts make a tensor laid out as
    `out`."""
    for a in [a for s in (spec, out) for d in s.dim_specs for a in d.axes]:
        if a not in spec.mesh.axis_names:
            _nabla.fail(_LAYOUT, f"{what}: {x.type_str()} is laid out as {spec}, along a part of an axis, {a}: parts "
                        "of axes have no collectives of their own", "lay it out along whole axes first")
    for n, d in zip(x.shape, spec.dim_specs):
        parts = d.get_total_shards(spec.mesh)
        if isinstance(n, int) and n % parts:
            _nabla.fail(_LAYOUT, f"{what}: {x.type_str()} is laid out as {spec}, whose {parts} parts of a dimension of "
                        f"{n} elements are not of one size", "pad it, or cut another dimension")
    with _inside(spec.mesh, spec.mesh.axis_names):
        region = _nabla.Region(spec.mesh._native, [spec._layout()], list(spec.mesh.axis_names), [x], what)
        return _traced(what, region, 1, lambda part: [body(part)], lambda results: [out._layout()])[0]


def _traced(name, region, operands, body, layouts):
    """The results of a region: `body` maps its parts to results, `layouts` these to how they are laid out."""
    t = _nabla.Trace(name)
    try:
        region.enter()
        results = body(*[t.param("", *region.part(i), None) for i in range(operands)])
        return region.call(t.finish(results), layouts(results))
    finally:
        t.cancel()


def _axes_of(mesh, axes, what):
    axes = names_of(axes, what)
    for a in axes:
        wrong = None
        try:
            mesh.get_axis_size(a)
        except _nabla.Error as e:
            wrong = e
        if wrong:
            refuse(f"{what}: {message_of(wrong)}", wrong._help)
    return axes


def _cleared(spec, dims, axes=None):
    """The layout without the axes, or without any, in these dimensions."""
    def kept(i, a):
        return i not in dims or (axes is not None and a not in axes)

    return ShardingSpec(spec.mesh, [DimSpec([a for a in d.axes if kept(i, a)]) for i, d in enumerate(spec.dim_specs)])


def _of_trees(collective):
    """The collective, for each tensor of a tree."""
    first = next(iter(inspect.signature(collective).parameters))

    @functools.wraps(collective)
    def of_tree(*args, **kwargs):
        if not args and first not in kwargs:
            return collective(**kwargs)  # says what is missing
        x, *args = args if args else [kwargs.pop(first)]
        return tree_map(lambda t: collective(t, *args, **kwargs), x)

    return of_tree


def _dim_of(axis, x, what):
    """A dimension of x, counted from the front."""
    if not hasattr(axis, "__index__"):
        hint = f"; axes of the mesh are given by name: axis_name={axis!r}" if isinstance(axis, str) else ""
        raise TypeError(f"{what} of {x.type_str()}: a dimension is given by its number, got {axis!r}{hint}")
    return axis_of(axis, x.ndim, what)


@_of_trees
def all_gather(sharded_tensor, axis=None, axis_name=None):
    """The tensor with dimension `axis` whole on every rank; None: all dimensions. `axis_name`: along these axes alone.
    Inside of a region the ranks' values joined along dimension `axis` (0), over the region's axes or `axis_name`."""
    x = asarray(sharded_tensor)
    if _region.get():
        return _nabla.all_gather(x, _axes_here(axis_name), 0 if axis is None else _dim_of(axis, x, "all_gather"))
    spec = spec_of(x)
    if spec is None:
        return x
    dims = range(x.ndim) if axis is None else [_dim_of(axis, x, "all_gather")]
    axes = None if axis_name is None else _axes_of(spec.mesh, axis_name, "all_gather")
    return laid_out(x, _cleared(spec, dims, axes))


def gather_all_axes(sharded_tensor):
    """The tensor, whole on every rank."""
    return all_gather(sharded_tensor)


def _axes_here(axis_name):
    return list(_region.get()[1]) if axis_name is None else names_of(axis_name, "axis_name")


def _joined_apart(x, axes):
    """The values of the ranks along the axes, one after the other along a new first dimension."""
    return _nabla.all_gather(unsqueeze(x, 0), axes, 0)


def _product(x, axes):
    # A product has no derivative as one collective: the ranks' values are gathered.
    return prod(_joined_apart(x, axes), axis=0)


_REDUCERS = {"sum": _nabla.psum, "max": _nabla.pmax, "min": _nabla.pmin, "mean": _nabla.pmean, "prod": _product}


def _reduced(what, x, reduce_op, axes):
    x = asarray(x)
    if not isinstance(reduce_op, str) or reduce_op not in _REDUCERS:
        _nabla.fail(_ATTRIBUTE, f"{what}: reduce_op is one of {', '.join(_REDUCERS)}, got {reduce_op!r}")
    if _region.get():
        return _REDUCERS[reduce_op](x, _axes_here(axes))
    spec = _need_spec(x, what)
    if axes is None:
        axes = [a for d in spec.dim_specs for a in d.axes]
    axes = _axes_of(spec.mesh, axes, what)
    if not axes:
        return x
    out = ShardingSpec(spec.mesh, [DimSpec([a for a in d.axes if a not in axes]) for d in spec.dim_specs])
    return _on_parts(what, x, spec, out, lambda part: _REDUCERS[reduce_op](part, axes))


@_of_trees
def all_reduce(sharded_tensor, reduce_op="sum", reduce_axes=None):
    """The ranks' parts combined element by element ("sum", "max", "min", "mean", "prod"), the same on all ranks along
    `reduce_axes`; None: along the axes that cut the tensor. A dimension that they cut becomes as short as a part; a
    tensor that they do not cut is combined with itself.

    In a compiled program nobody calls this to complete a sum: what is summed over a dimension that ranks share is
    complete. Raises Error (E0210) for a tensor that is laid out over no mesh.
    """
    return _reduced("all_reduce", sharded_tensor, reduce_op, reduce_axes)


@_of_trees
def psum(x, axis_name=None):
    """The sum of the ranks' values over the axes, of each tensor of a tree: see all_reduce."""
    return _reduced("psum", x, "sum", axis_name)


@_of_trees
def pmean(sharded_tensor, axis_name=None):
    """The mean of the ranks' values over the axes, of each tensor of a tree: see all_reduce."""
    return _reduced("pmean", sharded_tensor, "mean", axis_name)


@_of_trees
def pmax(x, axis_name=None):
    """The largest of the ranks' values over the axes: see all_reduce."""
    return _reduced("pmax", x, "max", axis_name)


@_of_trees
def pmin(x, axis_name=None):
    """The smallest of the ranks' values over the axes: see all_reduce."""
    return _reduced("pmin", x, "min", axis_name)


@_of_trees
def reduce_scatter(sharded_tensor, axis=0, reduce_op="sum", axis_name=None):
    """The sum of the ranks' parts, of which each rank keeps its part along dimension `axis`.

    Over the axes that cut this dimension, all of the mesh where none does, or `axis_name`. Raises Error (E0204) for
    another reduce_op, E0210 for a tensor that is laid out over no mesh.
    """
    x = asarray(sharded_tensor)
    if reduce_op != "sum":
        _nabla.fail(_ATTRIBUTE, f"reduce_scatter: reduce_op is \"sum\", got {reduce_op!r}")
    dim = _dim_of(axis, x, "reduce_scatter")
    if _region.get():
        return _scattered(x, _axes_here(axis_name), dim)
    spec = _need_spec(x, "reduce_scatter")
    if axis_name is not None:
        axes = _axes_of(spec.mesh, axis_name, "reduce_scatter")
    else:
        axes = spec.dim_specs[dim].axes or list(spec.mesh.axis_names)
    dims = [[a for a in d.axes if a not in axes] for d in spec.dim_specs]
    dims[dim] += axes
    return _on_parts("reduce_scatter", x, spec, ShardingSpec(spec.mesh, [DimSpec(d) for d in dims]),
                     lambda part: _scattered(part, axes, dim))


def _scattered(x, axes, dim):
    with wanting_multiples([(x.shape[dim], _nabla.axis_size(axes, "reduce_scatter"))]):
        return _nabla.psum_scatter(x, axes, dim)


def _exchanged(x, axes, split, join):
    with wanting_multiples([(x.shape[split], _nabla.axis_size(axes, "all_to_all"))]):
        return _nabla.all_to_all(x, axes, split, join)


@_of_trees
def all_to_all(sharded_tensor, split_axis, concat_axis, tiled=True, axis_name=None):
    """Part k of every rank's value along `split_axis` goes to the k-th rank; what comes is joined along `concat_axis`.

    Over the axes that cut `concat_axis`, or `axis_name`, the last of them: the same tensor, cut along `split_axis`
    instead. Raises Error (E0210) where no such axis cuts it.

    tiled=False, inside of a region: `split_axis` has an element for each rank and is gone from the result, where what
    comes lies along a new dimension `concat_axis`. A tensor that is laid out has no dimension of ranks: E0204.
    """
    x = asarray(sharded_tensor)
    split, join = _dim_of(split_axis, x, "all_to_all"), _dim_of(concat_axis, x, "all_to_all")
    if _region.get():
        axes = _axes_here(axis_name)
        return _exchanged(x, axes, split, join) if tiled else _untiled(x, axes, split, join)
    if not tiled:
        _nabla.fail(_ATTRIBUTE, "all_to_all: tiled=False is for functions of one rank (nabla.shard_map), where a "
                    "dimension may have an element for each rank", "of a tensor that is laid out, leave it out")
    spec = _need_spec(x, "all_to_all")
    dims = [list(d.axes) for d in spec.dim_specs]
    axes = dims[join] if axis_name is None else _axes_of(spec.mesh, axis_name, "all_to_all")
    if not axes or dims[join][-len(axes):] != axes:
        what = f"{', '.join(axes)} are not the last axes that cut" if axes else "no axis cuts"
        _nabla.fail(_LAYOUT, f"all_to_all: {what} dimension {join} of {x.type_str()}, which is laid out as {spec}",
                    "concat_axis is the dimension that ranks share; axis_name the axes that cut it, or the last ones")
    dims[join] = dims[join][:-len(axes)]
    dims[split] += axes
    return laid_out(x, ShardingSpec(spec.mesh, [DimSpec(d) for d in dims]))


def _untiled(x, axes, split, concat):
    ranks = _nabla.axis_size(axes, "all_to_all")
    if x.shape[split] != ranks:
        _nabla.fail(203, f"all_to_all: with tiled=False dimension {split} of {x.type_str()} has an element for each of "
                    f"the {ranks} ranks along {', '.join(axes)}", "reshape it so, or leave tiled=False out")
    return moveaxis(_nabla.all_to_all(x, axes, split, split), split, concat)


@_of_trees
def ppermute(sharded_tensor, permutation, axis_name=None):
    """Every rank's part goes to another rank: `permutation` lists pairs (from, to) of ranks of the mesh, by number.
    Ranks that nobody sends to get zeros. The layout stays. Inside of a region, and with `axis_name`: places along the
    axes.

    Raises Error: E0204 for numbers that are no ranks and a rank that sends or gets twice, E0210 for pairs by which
    ranks that should have the same part would get different ones.
    """
    x = asarray(sharded_tensor)
    pairs = _pairs_of(permutation)
    if _region.get():
        axes = _axes_here(axis_name)
        places = _nabla.axis_size(axes, "ppermute")
        _check_pairs(x, pairs, places, "place", f"along {', '.join(axes)}, where there are")
        return _nabla.ppermute(x, axes, pairs)
    spec = _need_spec(x, "ppermute")
    if axis_name is None:
        axes, pairs = _moves(x, spec, pairs)
    else:
        axes = _axes_of(spec.mesh, axis_name, "ppermute")
        places = math.prod(spec.mesh.get_axis_size(a) for a in axes)
        _check_pairs(x, pairs, places, "place", f"along {', '.join(axes)}, where there are")
    if not axes:
        return x
    return _on_parts("ppermute", x, spec, spec, lambda part: _nabla.ppermute(part, axes, pairs))


def _pairs_of(permutation):
    def is_pair(p):
        return isinstance(p, (list, tuple)) and len(p) == 2 and all(hasattr(r, "__index__") for r in p)

    if isinstance(permutation, (list, tuple)) and all(map(is_pair, permutation)):
        return [(operator.index(a), operator.index(b)) for a, b in permutation]
    raise TypeError(f"ppermute: a permutation is a list of pairs (from, to) of ranks, got {permutation!r}")


def _check_pairs(x, pairs, size, noun, where):
    for k, word in ((0, "sends"), (1, "gets")):
        ranks = [p[k] for p in pairs]
        for r in ranks:
            if not 0 <= r < size:
                _nabla.fail(_ATTRIBUTE, f"ppermute of {x.type_str()}: {r} is no {noun} {where} 0 to {size - 1}, in "
                            f"{pairs}", f"a pair is ({noun} that sends, {noun} that gets)")
            if ranks.count(r) > 1:
                _nabla.fail(_ATTRIBUTE, f"ppermute of {x.type_str()}: {noun} {r} {word} twice, in {pairs}",
                            "each sends and gets at most once: what goes to several is distributed_broadcast")


def _moves(x, spec, pairs):
    """Pairs of ranks of the mesh as places along the axes that cut x."""
    mesh = spec.mesh
    _check_pairs(x, pairs, mesh.num_devices, "rank", f"of mesh {mesh}, which has")
    cut = {a for d in spec.dim_specs for a in d.axes}
    axes = [a for a in mesh.axis_names if a in cut]
    if len(axes) != len(cut):
        axes = list(mesh.axis_names)  # x is cut along parts of axes

    def place(rank):
        out = 0
        for a in axes:
            out = out * mesh.get_axis_size(a) + mesh.get_coordinate(rank, a)
        return out

    def others(rank):
        return tuple(mesh.get_coordinate(rank, a) for a in mesh.axis_names if a not in axes)

    by_copy = {}
    for a, b in pairs:
        by_copy.setdefault(others(b), set()).add((place(a), place(b)))
        if others(a) != others(b):
            by_copy[others(b)].add((a, b, "across"))
    copies = {others(r) for r in mesh.devices}
    moves = by_copy.get(next(iter(copies)), set())
    if any(by_copy.get(c, set()) != moves for c in copies) or any(len(m) == 3 for m in moves):
        same = [a for a in mesh.axis_names if a not in axes]
        _nabla.fail(_LAYOUT, f"ppermute: {x.type_str()} is laid out as {spec}, the same on all ranks along "
                    f"{', '.join(same)}, which {pairs} would end",
                    "list the pairs of every rank along these axes, within each of their coordinates, or name the axes "
                    "of places by axis_name")
    return axes, sorted(moves)


def axis_index(mesh, axis_name=None):
    """Every rank's place along an axis, an int32 tensor of one element per place that is cut along the axis. Inside of
    a region: axis_index(axis_name), the rank's own, a scalar."""
    if _region.get():
        return _nabla.axis_index(_axes_here(mesh if axis_name is None else axis_name))
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"axis_index(mesh={mesh!r}): outside of a region it takes a mesh and the name of an axis")
    if not isinstance(axis_name, str):
        raise TypeError(f"axis_index: outside of a region it takes a mesh and the name of one axis, got {axis_name!r}")
    axes = _axes_of(mesh, axis_name, "axis_index")
    return laid_out(asarray(list(range(mesh.get_axis_size(axis_name)))), ShardingSpec(mesh, [DimSpec(axes)]))


@_of_trees
def distributed_broadcast(x, mesh=None, root=None):
    """x, whole on every rank of a mesh; None: of its own.

    `root`: what the rank of this number has, on every rank: of a tensor that is cut, the rank's part. Inside of a
    region: what the rank at this place along the region's axes has (0). Raises Error (E0204) for a number that is no
    rank.
    """
    x = asarray(x)
    if mesh is not None and not isinstance(mesh, DeviceMesh):
        raise TypeError(f"distributed_broadcast: the mesh is a DeviceMesh, got {mesh!r}; the rank that sends is root=")
    if _region.get():
        mesh, axes = _region.get()
        places = math.prod(mesh.get_axis_size(a) for a in axes)
        return _of_place(x, list(axes), _rank_of(0 if root is None else root, places))
    spec = spec_of(x)
    mesh = _need_spec(x, "distributed_broadcast").mesh if mesh is None else mesh
    whole = ShardingSpec(mesh, [DimSpec()] * x.ndim)
    if root is None or spec is None or spec.is_fully_replicated():
        _rank_of(root or 0, mesh.num_devices)
        return laid_out(x, whole)
    if mesh != spec.mesh:
        _nabla.fail(_LAYOUT, f"distributed_broadcast: {x.type_str()} is laid out over mesh {spec.mesh}, got mesh "
                    f"{mesh}")
    place = _rank_of(root, mesh.num_devices)
    return _on_parts("distributed_broadcast", x, spec, whole,
                     lambda part: _of_place(part, list(mesh.axis_names), place))


def _rank_of(root, ranks):
    if not hasattr(root, "__index__") or not 0 <= operator.index(root) < ranks:
        _nabla.fail(_ATTRIBUTE, f"distributed_broadcast: root is a rank, 0 to {ranks - 1}, got {root!r}")
    return operator.index(root)


def _of_place(x, axes, place):
    """The value of the rank at this place along the axes: its share of a sum of which the others have zero."""
    from .control_flow import where
    if x.dtype == DType.bool:
        return cast(_of_place(cast(x, DType.int32), axes, place), DType.bool)
    return _nabla.psum(where(equal(_nabla.axis_index(axes), place), x, zeros_like(x)), axes)


broadcast = distributed_broadcast


__all__ = ["DeviceMesh", "DimSpec", "P", "PartitionSpec", "ShardingSpec", "accelerator", "all_gather", "all_reduce",
           "all_to_all", "axis_index", "broadcast", "compute_local_shape", "cpu", "distributed_broadcast",
           "gather_all_axes", "get_num_shards", "gpu", "needs_reshard", "pmax", "pmean", "pmin", "ppermute", "psum",
           "reduce_scatter", "reshard", "shard", "shard_by_rule", "to_device", "transfer_to",
           "with_sharding_constraint"]
