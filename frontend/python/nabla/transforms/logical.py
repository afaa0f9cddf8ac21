"""Names of dimensions, and rules that say along which axes of a mesh they lie."""

import contextlib
import warnings

from .._core import asarray
from .._mesh import PartitionSpec, ShardingSpec
from .._mesh import logical_rules as _rules
from ..compiled import _forget_known_calls
from ..ops.communication import shard

@contextlib.contextmanager
def logical_axis_rules(rules):
    """Within the context, dimensions of these names lie along these axes: pairs of a name and an axis of a mesh,
    several of them, or None. Contexts nest: the inner rules are looked at first. Compiled
    functions are compiled for the rules that they are called under.

        with nb.logical_axis_rules([("batch", ("dp", "fsdp")), ("mlp", "tp"), ("embed", None)]):
            spec = nb.logical_to_mesh_axes(("embed", "mlp"))     # P(None, "tp")
    """
    token = _rules.set(_checked(rules) + _rules.get())
    _forget_known_calls()
    try:
        yield
    finally:
        _rules.reset(token)
        _forget_known_calls()


def _listed(x):
    if isinstance(x, str) or not hasattr(x, "__iter__"):
        raise TypeError(f"logical axis rules and names of dimensions come in a list, got {x!r}")
    return x


def _checked(rules):
    rules = rules.items() if hasattr(rules, "items") else rules
    if not all(isinstance(rule, (tuple, list)) and len(rule) == 2 for rule in _listed(rules)):
        raise TypeError(f"logical axis rules are pairs of a dimension's name and axes, got {rules!r}")
    out = tuple((name, (axes,) if isinstance(axes, str) else tuple(axes) if isinstance(axes, list) else axes)
                for name, axes in rules)
    for name, axes in out:
        listed = axes is None or isinstance(axes, (tuple, list)) and all(isinstance(a, str) for a in axes)
        if not isinstance(name, str) or not listed:
            raise TypeError(f"logical axis rules: ({name!r}, {axes!r}) is no pair of a dimension's name and axes")
    return out


def logical_to_mesh_axes(names, rules=None, mesh=None):
    """The PartitionSpec of dimensions with these names, None for one without a name, by `rules` or those of the
    context.

    The first rule of a name counts; a name without one is whole. An axis that a dimension before has is left out, and
    so are axes that `mesh` lacks.
    """
    rules = _rules.get() if rules is None else _checked(rules)
    used, out = set(), []
    for name in _listed(names):
        axes = next((axes for n, axes in rules if n == name), None) if name is not None else None
        axes = [a for a in axes or () if a not in used and (mesh is None or a in mesh.axis_names)]
        used.update(axes)
        out.append(None if not axes else axes[0] if len(axes) == 1 else tuple(axes))
    return PartitionSpec(*out)


def with_logical_constraint(x, names, mesh, rules=None, on_indivisible="drop"):
    """x, laid out over the mesh by the names of its dimensions: see logical_to_mesh_axes.

    on_indivisible: what becomes of axes whose ranks do not divide a size: "drop" leaves the last ones out until the
    others do, with a warning; "pad" keeps them, as nabla.shard; "error" raises ValueError. So do names that are not one
    per dimension.
    """
    x = asarray(x)
    if len(names) != x.ndim:
        raise ValueError(f"with_logical_constraint: {len(names)} names, {tuple(names)}, for {x.type_str()}")
    if on_indivisible not in ("drop", "pad", "error"):
        raise ValueError("with_logical_constraint: on_indivisible is \"drop\", \"pad\" or \"error\", got "
                         f"{on_indivisible!r}")
    spec = ShardingSpec(mesh, logical_to_mesh_axes(names, rules, mesh))
    for name, n, d in zip(names, x.shape, spec.dim_specs):
        asked = list(d.axes)
        while on_indivisible != "pad" and isinstance(n, int) and n % d.get_total_shards(mesh):
            d.axes.pop()
        if d.axes == asked:
            continue
        text = (f"dimension {name} of {x.type_str()} has {n} elements, which {spec.mesh.name}'s ranks along "
                f"{', '.join(asked)} do not divide")
        if on_indivisible == "error":
            raise ValueError(f"with_logical_constraint: {text}")
        warnings.warn(f"{text}: it lies along {', '.join(d.axes) or 'no axis'}", stacklevel=2)
    return shard(x, mesh, spec)


__all__ = ["logical_axis_rules", "logical_to_mesh_axes", "with_logical_constraint"]
