"""Sizes of a compiled function's arguments that change from call to call: the option dynamic_dims of nabla.jit."""

import inspect
import math

from . import _nabla, _options
from ._core import whole
from ._mesh import _LAYOUT, spec_of
from ._trace import example_types, name_of, type_text

_SHAPE = 703  # the code of an argument of another shape


class Dynamic:
    """A dimension of a compiled function's argument that may change from call to call, within bounds.

    name: equal names are equal sizes. One compiled function serves every size in [min, max] that is a multiple of
    `multiple`; without `max` it is the next power of two from four times the first size, at least 1024, and a larger
    size compiles again.
    """

    def __init__(self, name, min=1, max=None, multiple=1):
        _options.check_bounds(name, min, min if max is None else max, multiple)
        self.name, self.min, self.max, self.multiple = name, min, max, multiple
        self._grown = 0

    def bound(self, size):
        if self.max is not None:
            return self.max
        if self._grown < size:
            self._grown = 1024
            while self._grown < 4 * size:
                self._grown *= 2
        return self._grown

    def _least(self, multiple):
        """The least size, a multiple too: parts of less than that would have nothing."""
        return -(-self.min // multiple) * multiple

    def _refusal(self, size, multiple):
        """Why a call may not have this size, where layouts and collectives want multiples, and what helps; None: it
        may."""
        alone = "or leave it out of dynamic_dims: each size is compiled then, and layouts may have shorter last parts"
        why = f"multiple of {multiple}"
        why += ", as the parts of layouts and collectives are" if multiple != self.multiple else ""
        if multiple != self.multiple and size % multiple:
            return f"{self.name} is {size}, no {why}", f"pad it to {-(-size // multiple) * multiple}, {alone}"
        low, high = self._least(multiple), self.bound(size)
        if low > high:
            return f"no size of {self.name} in [{self.min}, {high}] is a {why}", f"give it other bounds, {alone}"
        if multiple != self.multiple and not low <= size <= high:
            return f"{self.name} is {size}, not in [{low}, {high}]", "pass a size in these bounds, or give it others"
        return None

    def _violated(self, size):
        """The bounds in words if a size is not within the user's own ones, else None."""
        low, high = self._least(self.multiple), self.bound(size)
        if low <= size <= high and size % self.multiple == 0:
            return None
        return f"a multiple of {self.multiple} in [{low}, {high}]" if self.multiple > 1 else f"in [{low}, {high}]"


def table_of(dynamic_dims):
    """`{argument: {dimension: Dynamic}}` of the option. Raises ValueError for other forms."""
    out, table = {}, dynamic_dims or {}
    if not isinstance(table, dict) or not all(isinstance(rows, dict) for rows in table.values()):
        raise ValueError(f"dynamic_dims is {{argument: {{dimension: name}}}}, got {dynamic_dims!r}")
    for n, rows in table.items():
        for key, what in ((n, "an argument"), *((dim, "a dimension") for dim in rows)):
            if whole(key) is None:
                raise ValueError(f"dynamic_dims: {what} is given by its place, got {key!r}")
        out[n] = {dim: d if isinstance(d, Dynamic) else Dynamic(*_named(d)) for dim, d in rows.items()}
    return out


def names_of(fun, table):
    """The names of parameters with dynamic sizes. Raises ValueError for places that `fun` does not have."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return set()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for n in table:
        if n < 0 or n >= len(names) and not any(p.kind == p.VAR_POSITIONAL for p in parameters):
            raise ValueError(f"dynamic_dims: {name_of(fun)} has {len(names)} parameters, counted from 0, and no {n}")
    return {names[n] for n in table if n < len(names)}


def _named(given):
    row = given if isinstance(given, tuple) else (given,)
    sizes = [s for s in row[1:] if s is not None]
    if not 1 <= len(row) <= 4 or not isinstance(row[0], str) or not all((whole(s) or 0) >= 1 for s in sizes):
        raise ValueError("dynamic_dims: a dimension is a name, or (name, min, max) with sizes from 1 on, "
                         f"got {given!r}")
    return row


def types_of(fun, table, wanted, batch_parts, arguments):
    """The types of the arguments, with symbols where dimensions are dynamic. `wanted`: multiples that layouts inside of
    the function want, by name. `batch_parts`: the number of shards of a batch. Raises Error (E0210, E0703) for sizes
    that these, the bounds of `table` or equal names forbid."""
    types = example_types(arguments.tensors)
    owner, first = {}, 0
    for n, form in enumerate(arguments.treedef.children[0].children):
        for i in range(form.num_leaves):
            owner[first + i] = n
        first += form.num_leaves
    rows_of = [table.get(owner.get(place), {}) for place in arguments.places]
    multiples = {}  # by name: parts of layouts divide the size
    for place, (_, shape), rows, x in zip(arguments.places, types, rows_of, arguments.tensors):
        spec = spec_of(x) if rows else None
        for dim, d in rows.items():
            if not -len(shape) <= dim < len(shape):
                raise ValueError(f"dynamic_dims: argument {owner[place]} has a tensor of shape {tuple(shape)}, "
                                 f"which has no dimension {dim}")
            parts = spec.dim_specs[dim].get_total_shards(spec.mesh) if spec else 1
            if dim in (0, -len(shape)):
                parts = math.lcm(parts, batch_parts)
            known = multiples.get(d.name, wanted.get(d.name, 1))
            multiples[d.name] = math.lcm(known, d.multiple, parts)
    out, sizes_of = [], {}
    for k, ((dtype, shape), rows) in enumerate(zip(types, rows_of)):
        sizes = list(shape)
        for dim, d in rows.items():
            refusal = d._refusal(shape[dim], multiples[d.name])
            if refusal:
                where = f"dimension {dim} of {arguments.names(fun)[k]}, {type_text(dtype, shape)}"
                _nabla.fail(_LAYOUT, f"dynamic_dims: {where}: {refusal[0]}", refusal[1])
            _check_size(fun, arguments, d, (k, dim), shape[dim], sizes_of)
            sizes[dim] = _nabla.symbol(d.name, d._least(multiples[d.name]), d.bound(shape[dim]), multiples[d.name])
        out.append((dtype, tuple(sizes)))
    return out


def _check_size(fun, arguments, d, place, size, known):
    """Raises Error (E0703) for a size out of the user's bounds, and for one that differs from an earlier one of its
    name. `place`: the numbers of the tensor and the dimension. `known`: earlier sizes and their places, by name."""
    def said(at):
        return f"dimension {at[1]} of argument `{arguments.names(fun)[at[0]]}`"

    bounds = d._violated(size)
    if bounds:
        _nabla.fail(_SHAPE, f"jit: {said(place)} is {d.name} = {size}, which is not {bounds}",
                    f"dynamic_dims gives {d.name} these bounds: pass a size within them, or change them")
    other, at = known.setdefault(d.name, (size, place))
    if other != size:
        _nabla.fail(_SHAPE, f"jit: {said(at)} is {d.name} = {other}, and {said(place)} is {d.name} = {size}",
                    f"dynamic_dims names both {d.name}, and sizes of one name are equal: pass equal sizes, or give one "
                    "of them another name")
