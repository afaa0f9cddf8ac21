"""Meshes of ranks, and how tensors are laid out over them."""

import contextlib
import contextvars
import functools
import math
import re

from . import _nabla
from ._core import whole

_PART = re.compile(r"([^:]+):\((\d+)\)(\d+)$")
# Pairs of a dimension's name and axes: nabla.logical_axis_rules.
logical_rules = contextvars.ContextVar("nabla_logical_axis_rules", default=())
# Whether an entry of a program is traced, which may be compiled for other numbers of ranks than its mesh has now.
exporting = contextvars.ContextVar("nabla_exporting", default=False)


def names_of(axes, what):
    """The names of one axis or several, as a list. Raises TypeError for anything else."""
    out = [axes] if isinstance(axes, str) else list(axes) if isinstance(axes, (list, tuple, set, frozenset)) else [axes]
    for a in out:
        if not isinstance(a, str) or not a:
            raise TypeError(f"{what}: an axis of a mesh is named by a text, got {a!r}")
    return out


_LAYOUT = 210  # the code of errors about layouts


def refuse(message, help):
    """Raises Error (E0210) at the user's line."""
    _nabla.fail(_LAYOUT, message, help)


def message_of(e):
    """What an error says, without its code and place."""
    return getattr(e, "_message", str(e))


def need_mesh(mesh, what):
    """Raises TypeError for what is no mesh."""
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"{what}: the mesh is a DeviceMesh, got mesh={mesh!r}"[:300])


def native_mesh(name, axes, sizes):
    """A mesh of the compiler, which says what one is: Error (E0210)."""
    return _nabla.Mesh(name, [(a, min(n, 1 << 62)) for a, n in zip(axes, sizes)])


class DeviceMesh:
    """Ranks by named coordinates, numbered row-major: the last axis is the fastest.

    name: in printed IR. shape: how many ranks lie along each axis. axis_names: one per axis. `devices` are the ranks'
    numbers, which are always 0, 1, 2, ...; which device runs a rank is said where the program runs, and what links
    carry by the machine (`nablac tune`). Raises Error (E0210) for a mesh that is none: axes are named by letters,
    digits and _, a digit never first.
    """

    def __init__(self, name, shape, axis_names, devices=None):
        listed = isinstance(shape, (list, tuple)) and isinstance(axis_names, (list, tuple))
        if not isinstance(name, str) or not listed:
            raise TypeError("DeviceMesh takes a name, a tuple of sizes and a tuple of names of axes, such as "
                            f"(\"pod\", (2, 4), (\"dp\", \"tp\")), got {(name, shape, axis_names)!r}")
        self.shape, self.axis_names = tuple(map(whole, shape)), tuple(names_of(axis_names, f"DeviceMesh {name}"))
        for n, given in zip(self.shape, shape):
            if n is None or n < 1:
                refuse(f"DeviceMesh {name}: a size of an axis is a number from 1 on, got {given!r} in {tuple(shape)}",
                       "it says how many ranks lie along the axis")
        if not re.fullmatch(r"\w+", name):
            refuse(f"DeviceMesh {name}: {name!r} is no name", "letters, digits and _ make one")
        if len(self.shape) != len(self.axis_names):
            refuse(f"DeviceMesh {name}: {len(self.shape)} sizes, {self.shape}, for {len(self.axis_names)} axes, "
                   f"{self.axis_names}", "give every axis a name and a size")
        self._native = native_mesh(name, self.axis_names, self.shape)
        self.name = name
        self.devices = list(range(math.prod(self.shape)))
        if devices is not None and (not hasattr(devices, "__iter__") or list(devices) != self.devices):
            refuse(f"DeviceMesh {name}: ranks are numbered 0 to {len(self.devices) - 1} in row-major order, got "
                   f"devices={devices!r}",
                   "leave it out: which machine and device a rank gets is said when the program runs")

    is_distributed = property(lambda self: False, doc="Whether each rank has a device of its own: never in this "
                                                      "process, which has all of them.")
    num_devices = property(lambda self: len(self.devices), doc="How many ranks there are.")

    def _axis(self, axis_name):
        names_of(axis_name, f"mesh {self.name}")
        part = _PART.match(axis_name)
        name = part[1] if part else axis_name
        if name not in self.axis_names:
            refuse(f"mesh {self.name} has no axis {name!r}: it has {', '.join(self.axis_names)}",
                   "name one of these, or a part of one, such as \"tp:(2)4\"")
        size = self.shape[self.axis_names.index(name)]
        before, own = (int(part[2]), int(part[3])) if part else (1, size)
        if before * own == 0 or size % (before * own):
            refuse(f"{axis_name} is no part of axis {name}, which has {size} ranks",
                   "of n ranks, \"a:(before)own\" has `own`, after a part of `before`: their product divides n")
        return name, size // (before * own), own

    def get_axis_size(self, axis_name):
        """How many ranks lie along an axis, or along a part of one, "tp:(2)4"."""
        return self._axis(axis_name)[2]

    def get_coordinate(self, device_id, axis_name):
        """Where a rank lies along an axis, or along a part of one."""
        name, after, own = self._axis(axis_name)
        rank = whole(device_id)
        if rank is None:
            raise TypeError(f"mesh {self.name}: a rank is a number, 0 to {len(self.devices) - 1}, got {device_id!r}")
        if not 0 <= rank < len(self.devices):
            refuse(f"mesh {self.name} has ranks 0 to {len(self.devices) - 1}, got {rank}", "ranks count from 0")
        stride = math.prod(self.shape[self.axis_names.index(name) + 1:])
        return rank // (stride * after) % own

    def get_devices_on_axis_slice(self, axis_name, coordinate):
        """The ranks that have this coordinate along the axis."""
        place = whole(coordinate)
        if place is None:
            raise TypeError(f"mesh {self.name}: a coordinate is a number, got coordinate={coordinate!r}")
        if not 0 <= place < self.get_axis_size(axis_name):
            refuse(f"mesh {self.name} has places 0 to {self.get_axis_size(axis_name) - 1} along {axis_name}, got "
                   f"{place}", "places count from 0")
        return [d for d in self.devices if self.get_coordinate(d, axis_name) == place]

    def get_axis_indices(self, device_id):
        """{axis: coordinate} of a rank."""
        return {name: self.get_coordinate(device_id, name) for name in self.axis_names}

    def __reduce__(self):
        return DeviceMesh, (self.name, self.shape, self.axis_names)

    def __deepcopy__(self, memo):
        return self

    def __eq__(self, other):
        return isinstance(other, DeviceMesh) and (self.name, self.shape, self.axis_names) == (
            other.name, other.shape, other.axis_names)

    def __hash__(self):
        return hash((self.name, self.shape, self.axis_names))

    def __repr__(self):
        axes = ", ".join(f'"{a}"={n}' for a, n in zip(self.axis_names, self.shape))
        return f"@{self.name} = <[{axes}]>"


class DimSpec:
    """The layout of one dimension: the axes of the mesh that it is cut along, major first.

    is_open: propagation may add axes. priority: propagation follows those of 0 first.
    """

    def __init__(self, axes=(), is_open=False, priority=0):
        if isinstance(axes, str):
            refuse(f"DimSpec takes a list of axes, got {axes!r}", f"DimSpec([{axes!r}]), or DimSpec.from_raw({axes!r})")
        if not isinstance(priority, int):
            raise TypeError(f"DimSpec: a priority is an integer from 0 on, got {priority!r}")
        self.axes, self.is_open, self.priority = names_of(axes, "DimSpec"), bool(is_open), priority
        for a in self.axes:
            if self.axes.count(a) > 1:
                refuse(f"DimSpec: axis {a} stands twice in {self.axes}", "an axis cuts a dimension once")
        if self.priority < 0:
            refuse(f"DimSpec: a priority is 0 or more, got {priority}", "propagation follows those of 0 first")
        if not self.axes and not self.is_open and self.priority:
            refuse(f"DimSpec: a closed dimension without axes has priority 0, got {priority}",
                   "leave the priority out, or give axes or is_open=True")

    @staticmethod
    def from_raw(raw):
        """A DimSpec from None (whole), the name of an axis, several of them, or a DimSpec."""
        if isinstance(raw, DimSpec):
            return raw
        if raw is None:
            return DimSpec()
        return DimSpec([raw] if isinstance(raw, str) else raw)

    def is_replicated(self):
        """Whether no axis cuts it."""
        return not self.axes

    def get_total_shards(self, mesh):
        """Into how many parts it is cut."""
        return math.prod(mesh.get_axis_size(a) for a in self.axes)

    def clone(self):
        """A copy."""
        return DimSpec(self.axes, self.is_open, self.priority)

    def __eq__(self, other):
        return isinstance(other, DimSpec) and (self.axes, self.is_open, self.priority) == (
            other.axes, other.is_open, other.priority)

    __hash__ = None

    def __repr__(self):
        words = self.axes + (["?"] if self.is_open else [])
        return "{" + ", ".join(words) + "}" + (f"p{self.priority}" if self.priority else "")


class PartitionSpec(tuple):
    """A layout as a word per dimension: P("dp", None, ("tp", "pp")). Dimensions after the last are whole.

    Raises TypeError for words that are none, Error (E0210) for an axis that stands twice."""

    def __new__(cls, *dims):
        dims = tuple(tuple(d) if isinstance(d, list) else d for d in dims)
        used = []
        for i, d in enumerate(dims):
            several = d if isinstance(d, tuple) else d.axes if isinstance(d, DimSpec) else () if d is None else (d,)
            if not all(isinstance(a, str) and a for a in several):
                raise TypeError(f"P: dimension {i} has {d!r}, expected the name of an axis of the mesh, such as "
                                "\"dp\", a tuple of names, or None for a whole dimension")
            used += several
        for a in used:
            if used.count(a) > 1:
                refuse(f"P: axis {a} stands twice in {dims}", "an axis cuts one dimension, once")
        return super().__new__(cls, dims)

    def __getnewargs__(self):
        return tuple(self)

    def __add__(self, other):
        return PartitionSpec(*self, *other)

    def __repr__(self):
        return f"P({', '.join(map(repr, self))})"


P = PartitionSpec


class ShardingSpec:
    """The layout of a tensor over a mesh: a DimSpec per dimension, and axes along which it must be the same.

    Axes need not divide an extent n: each of s parts then has ceil(n / s) elements, the last ones fewer.
    """

    def __init__(self, mesh, dim_specs=(), replicated_axes=()):
        need_mesh(mesh, "ShardingSpec")
        self.mesh, self.dim_specs = mesh, [DimSpec.from_raw(d) for d in _listed(dim_specs)]
        self.replicated_axes = set(names_of(replicated_axes or (), "replicated_axes"))
        used = [a for d in self.dim_specs for a in d.axes] + sorted(self.replicated_axes)
        for a in used:
            mesh.get_axis_size(a)
        twice = sorted({a for a in used if used.count(a) > 1})
        if twice:
            refuse(f"ShardingSpec: axis {twice[0]} stands twice in {self.dim_specs}" +
                   (f", replicated {sorted(self.replicated_axes)}" if self.replicated_axes else ""),
                   "an axis cuts one dimension, once, or the tensor is the same along it")

    def get_implicitly_replicated_axes(self):
        """The axes of the mesh that the layout does not name."""
        used = {_PART.sub(r"\1", a) for d in self.dim_specs for a in d.axes} | self.replicated_axes
        return {a for a in self.mesh.axis_names if a not in used}

    def is_fully_replicated(self):
        """Whether every rank has all of it."""
        return all(d.is_replicated() for d in self.dim_specs)

    @property
    def total_shards(self):
        """Into how many different parts it is cut."""
        return math.prod(d.get_total_shards(self.mesh) for d in self.dim_specs)

    def get_max_priority(self):
        """The number of what propagation follows last."""
        return max((d.priority for d in self.dim_specs), default=0)

    def get_min_priority(self):
        """The number of what propagation follows first."""
        return min((d.priority for d in self.dim_specs), default=0)

    def clone(self):
        """A copy."""
        return ShardingSpec(self.mesh, [d.clone() for d in self.dim_specs], self.replicated_axes)

    def _layout(self, shape=None, pads=False):
        """For the compiler; of a tensor of this shape, which parts may be padded to fit. pads: also where they fit
        now."""
        padded = shape is not None and any(isinstance(n, int) and (n % d.get_total_shards(self.mesh) or pads and d.axes)
                                           for n, d in zip(shape, self.dim_specs))
        return _nabla.Layout([(d.axes, d.is_open, d.priority) for d in self.dim_specs], sorted(self.replicated_axes),
                             padded)

    def __eq__(self, other):
        return isinstance(other, ShardingSpec) and (self.mesh, self.dim_specs, self.replicated_axes) == (
            other.mesh, other.dim_specs, other.replicated_axes)

    def __hash__(self):
        return hash((self.mesh, repr(self)))

    def __repr__(self):
        dims = ", ".join(map(repr, self.dim_specs))
        replicated = f", replicated={{{', '.join(sorted(self.replicated_axes))}}}" if self.replicated_axes else ""
        return f"sharding<@{self.mesh.name}, [{dims}]{replicated}>"


def _listed(dim_specs):
    if isinstance(dim_specs, (list, tuple)):
        return list(dim_specs)
    raise TypeError("a layout has a word per dimension, such as [\"dp\", None] or P(\"dp\"), "
                    f"got {dim_specs!r}")


def spec_of(x):
    """The ShardingSpec of a tensor; None: it is whole, on one device."""
    return _spec_from(_nabla.placement(x))


def _spec_from(placement):
    if placement is None:
        return None
    mesh, layout = placement
    return ShardingSpec(_mesh_of(mesh.name, tuple(mesh.axes)), [DimSpec(*d) for d in layout.dims], layout.replicated)


def laid_out(x, spec, pads=False):
    """A tensor laid out as a ShardingSpec says: see nabla.shard. pads: parts may be padded where they fit now, too."""
    # To ask a traced value for its layout would settle it.
    now = None if x.is_traced else spec_of(x)
    if now is not None and now.mesh != spec.mesh:
        x = _nabla.unplaced(x)
    _nabla.enter_mesh(spec.mesh._native)
    with wanting_multiples(parts_of([x], [spec])):
        layout = spec._layout(x.shape, pads or exporting.get())
        return _nabla.shard(x, spec.mesh._native, layout, f"shard: {x.type_str()}")


def laid_out_like(x, like, without=()):
    """x with the layout of `like`, or with that of its other dimensions than those of `without`; as it is where `like`
    has none."""
    placement = _nabla.placement_like(like)
    if placement is None:
        return x
    spec = _spec_from(placement)
    dims = [d for i, d in enumerate(spec.dim_specs) if i not in without]
    return laid_out(x, ShardingSpec(spec.mesh, dims, spec.replicated_axes), placement[1].allow_padding)


@functools.lru_cache(maxsize=256)
def _mesh_of(name, axes):
    return DeviceMesh(name, [n for _, n in axes], [a for a, _ in axes])


def is_mesh_and_layout(x):
    """Whether x is a mesh and a layout over it: (mesh, P("dp"))."""
    return isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], DeviceMesh)


def spec_for(mesh, dim_specs, rank, what, replicated_axes=()):
    """A ShardingSpec of a tensor of this rank: from dim_specs, a PartitionSpec (which may be shorter), or a
    ShardingSpec of the mesh. Raises Error (E0210) for a layout that does not fit, of which `what` names the tensor."""
    try:
        if isinstance(dim_specs, ShardingSpec):
            if dim_specs.mesh != mesh:
                raise ValueError(f"the layout is one over mesh {dim_specs.mesh}, got mesh {mesh}")
            if replicated_axes:
                raise ValueError("replicated_axes beside a ShardingSpec, which says them itself")
            dims, replicated_axes = list(dim_specs.dim_specs), dim_specs.replicated_axes
        else:
            dims = _listed(dim_specs)
        if isinstance(dim_specs, PartitionSpec):
            dims += [None] * (rank - len(dims))
        if len(dims) != rank:
            raise ValueError(f"{len(dims)} layouts of dimensions, {dims}, for a tensor of {rank} dimensions")
        return ShardingSpec(mesh, dims, replicated_axes or ())
    except TypeError as e:
        raise TypeError(f"{what}: {e}") from None
    except ValueError as e:
        text = message_of(e)
    refuse(f"{what}: {text}", "a layout names axes of the mesh, in one word per dimension; P may have fewer")


def parts_of(tensors, specs):
    """Pairs of a size and how many parts a layout makes of it."""
    return [(n, d.get_total_shards(spec.mesh)) for x, spec in zip(tensors, specs)
            for n, d in zip(x.shape, spec.dim_specs)]


@contextlib.contextmanager
def wanting_multiples(sizes):
    """Where sizes that are known at run time need to be multiples (E0207) so that they come in parts, the error says of
    which numbers, by the symbols' names: `multiples`. `sizes` are pairs of a size and the number of parts."""
    try:
        yield
    except _nabla.Error as e:
        if e.code == "E0207":
            e.multiples = {}
            for n, parts in sizes:
                for name, multiple in ({} if isinstance(n, int) else _nabla.multiples_for(n, parts)).items():
                    e.multiples[name] = math.lcm(e.multiples.get(name, 1), multiple)
        raise


def _need_spec(sharding, what):
    if not isinstance(sharding, ShardingSpec):
        raise TypeError(f"{what} takes a ShardingSpec, got {sharding!r}")
    return sharding


def place_of(rank, dim, mesh):
    """The number of the shard that a rank has of a dimension, which the axes of a DimSpec cut: the first is major."""
    place = 0
    for axis in dim.axes:
        place = place * mesh.get_axis_size(axis) + mesh.get_coordinate(rank, axis)
    return place


def range_of(n, dim, mesh, rank):
    """The elements [begin, end) of a dimension of n that a rank has."""
    length = -(-n // dim.get_total_shards(mesh))
    place = place_of(rank, dim, mesh)
    return min(n, place * length), min(n, (place + 1) * length)


def _size_of_part(n, spec, mesh, device_id):
    parts = spec.get_total_shards(mesh)
    if isinstance(n, _nabla.Dim):  # known at run time, a multiple of the parts
        return n if parts == 1 else n // parts
    begin, end = range_of(n, spec, mesh, device_id)
    return end - begin


def compute_local_shape(global_shape, sharding, device_id):
    """The shape of what a rank has of a tensor: of n elements along s parts ceil(n / s), fewer at the end; n // s of a
    number that is known at run time."""
    _need_spec(sharding, "compute_local_shape")
    if not isinstance(global_shape, (list, tuple)):
        raise TypeError(f"compute_local_shape: a shape is a tuple of sizes, got {global_shape!r}")
    if len(global_shape) != len(sharding.dim_specs):
        refuse(f"compute_local_shape: {sharding} is no layout of the shape {tuple(global_shape)}, of "
               f"{len(global_shape)} dimensions", "a layout has a word per dimension")
    for n in global_shape:
        if isinstance(n, (str, float)) or isinstance(n, int) and n < 0:
            refuse(f"compute_local_shape: a size is a number from 0 on, got {n!r} in {tuple(global_shape)}",
                   "sizes are ints, or Dims of a traced function")
    sharding.mesh.get_axis_indices(device_id)  # says what is no rank
    return tuple(_size_of_part(n, d, sharding.mesh, device_id) for n, d in zip(global_shape, sharding.dim_specs))


def get_num_shards(sharding):
    """Into how many different parts a layout cuts a tensor."""
    return _need_spec(sharding, "get_num_shards").total_shards


def needs_reshard(from_spec, to_spec):
    """Whether two layouts differ, so that a tensor of the one must be laid out anew to have the other."""
    if from_spec is None or to_spec is None:
        return from_spec is not to_spec
    for spec in (from_spec, to_spec):
        _need_spec(spec, "needs_reshard")
    return from_spec.mesh != to_spec.mesh or [d.axes for d in from_spec.dim_specs] != [
        d.axes for d in to_spec.dim_specs]


__all__ = ["DeviceMesh", "DimSpec", "P", "PartitionSpec", "ShardingSpec", "compute_local_shape", "get_num_shards",
           "needs_reshard"]
