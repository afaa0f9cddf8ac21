"""Meshes of ranks, and how tensors are laid out over them."""

import math
import re

from . import _nabla

_PART = re.compile(r"([^:]+):\((\d+)\)(\d+)$")


class DeviceMesh:
    """Ranks by named coordinates, numbered row-major: the last axis is the fastest.

    name: in printed IR. shape: how many ranks lie along each axis. axis_names: one per axis. `devices` are the ranks'
    numbers, which are always 0, 1, 2, ...; what runs a rank is said where the program runs, so that `device_refs` and a
    `bandwidth` other than 1 raise. Raises ValueError for names and sizes that do not fit, Error (E0210) for a mesh that
    is none.
    """

    def __init__(self, name, shape, axis_names, devices=None, device_refs=None, bandwidth=1.0):
        self.shape, self.axis_names = tuple(shape), tuple(axis_names)
        if len(self.shape) != len(self.axis_names):
            raise ValueError(f"DeviceMesh {name}: {len(self.shape)} sizes, {self.shape}, for {len(self.axis_names)} "
                             f"axes, {self.axis_names}")
        self._native = _nabla.Mesh(name, list(zip(self.axis_names, self.shape)))
        self.name = name
        self.devices = list(range(math.prod(self.shape)))
        if devices is not None and list(devices) != self.devices:
            raise ValueError(f"DeviceMesh {name}: ranks are numbered 0 to {len(self.devices) - 1} in row-major order, "
                             f"got devices={list(devices)}; which machine and device a rank gets is said when the "
                             "program runs")
        if device_refs is not None or bandwidth != 1.0:
            raise ValueError(f"DeviceMesh {name}: a mesh says nothing of devices and links: leave device_refs and "
                             "bandwidth out")

    is_distributed = property(lambda self: False, doc="Whether each rank has a device of its own: never in this "
                                                      "process, which has all of them.")
    num_devices = property(lambda self: len(self.devices), doc="How many ranks there are.")

    def _axis(self, axis_name):
        part = _PART.match(axis_name)
        name = part[1] if part else axis_name
        if name not in self.axis_names:
            raise ValueError(f"mesh {self.name} has no axis {name!r}: it has {', '.join(self.axis_names)}")
        size = self.shape[self.axis_names.index(name)]
        before, own = (int(part[2]), int(part[3])) if part else (1, size)
        if size % (before * own):
            raise ValueError(f"{axis_name} is no part of axis {name}, which has {size} ranks")
        return name, size // (before * own), own

    def get_axis_size(self, axis_name):
        """How many ranks lie along an axis, or along a part of one, "tp:(2)4"."""
        return self._axis(axis_name)[2]

    def get_coordinate(self, device_id, axis_name):
        """Where a rank lies along an axis, or along a part of one."""
        name, after, own = self._axis(axis_name)
        if not 0 <= device_id < len(self.devices):
            raise ValueError(f"mesh {self.name} has ranks 0 to {len(self.devices) - 1}, got {device_id}")
        stride = math.prod(self.shape[self.axis_names.index(name) + 1:])
        return device_id // (stride * after) % own

    def get_devices_on_axis_slice(self, axis_name, coordinate):
        """The ranks that have this coordinate along the axis."""
        return [d for d in self.devices if self.get_coordinate(d, axis_name) == coordinate]

    def get_axis_indices(self, device_id):
        """{axis: coordinate} of a rank."""
        return {name: self.get_coordinate(device_id, name) for name in self.axis_names}

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

    is_open: propagation may add axes. priority: propagation follows those of 0 first. `partial` raises ValueError where
    it is set: the elements of a tensor are those of the whole, and sums over ranks that are still to be taken stand in
    compiled programs alone.
    """

    def __init__(self, axes=(), is_open=False, priority=0, partial=False):
        self.axes, self.is_open, self.priority, self.partial = list(axes), bool(is_open), int(priority), False
        if isinstance(axes, str):
            raise ValueError(f"DimSpec takes a list of axes, got {axes!r}: DimSpec.from_raw takes one")
        if partial:
            raise ValueError("DimSpec: partial is no layout of a tensor, whose elements are those of the whole")
        if self.priority < 0:
            raise ValueError(f"DimSpec: a priority is 0 or more, got {priority}")
        if not self.axes and not self.is_open and self.priority:
            raise ValueError("DimSpec: a closed dimension without axes has priority 0")

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
    """A layout as a word per dimension: P("dp", None, ("tp", "pp")). Dimensions after the last are whole."""

    def __new__(cls, *dims):
        return super().__new__(cls, dims)

    def __repr__(self):
        return f"P({', '.join(map(repr, self))})"


P = PartitionSpec


class ShardingSpec:
    """The layout of a tensor over a mesh: a DimSpec per dimension, and axes along which it must be the same.

    Axes need not divide an extent n: each of s parts then has ceil(n / s) elements, the last ones fewer.
    `partial_sum_axes` raises ValueError where there are any, as DimSpec's `partial`.
    """

    def __init__(self, mesh, dim_specs=(), replicated_axes=(), partial_sum_axes=()):
        if not isinstance(mesh, DeviceMesh):
            raise TypeError(f"ShardingSpec: the mesh is a DeviceMesh, got {type(mesh).__name__}")
        self.mesh, self.dim_specs = mesh, [DimSpec.from_raw(d) for d in dim_specs]
        self.replicated_axes, self.partial_sum_axes = set(replicated_axes), set()
        if partial_sum_axes:
            raise ValueError(f"ShardingSpec: sums over {sorted(partial_sum_axes)} that are still to be taken are no "
                             "layout of a tensor, whose elements are those of the whole")
        used = [a for d in self.dim_specs for a in d.axes] + sorted(self.replicated_axes)
        for a in used:
            mesh.get_axis_size(a)
        twice = sorted({a for a in used if used.count(a) > 1})
        if twice:
            raise ValueError(f"ShardingSpec: axis {twice[0]} stands twice in {self.dim_specs}" +
                             (f", replicated {sorted(self.replicated_axes)}" if self.replicated_axes else ""))

    def all_partial_axes(self):
        """Axes over which a sum is still to be taken: none, ever."""
        return set()

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

    def _layout(self, shape=None):
        """For the compiler; of a tensor of this shape, which parts may be padded to fit."""
        padded = shape is not None and any(isinstance(n, int) and n % d.get_total_shards(self.mesh)
                                           for n, d in zip(shape, self.dim_specs))
        return _nabla.Layout([(d.axes, d.is_open, d.priority) for d in self.dim_specs], sorted(self.replicated_axes),
                             padded)

    def __eq__(self, other):
        return isinstance(other, ShardingSpec) and (self.mesh, self.dim_specs, self.replicated_axes) == (
            other.mesh, other.dim_specs, other.replicated_axes)

    __hash__ = None

    def __repr__(self):
        dims = ", ".join(map(repr, self.dim_specs))
        replicated = f", replicated={{{', '.join(sorted(self.replicated_axes))}}}" if self.replicated_axes else ""
        return f"sharding<@{self.mesh.name}, [{dims}]{replicated}>"


def spec_of(x):
    """The ShardingSpec of a tensor; None: it is whole, on one device."""
    placement = _nabla.placement(x)
    if placement is None:
        return None
    mesh, layout = placement
    axes = mesh.axes
    return ShardingSpec(DeviceMesh(mesh.name, [n for _, n in axes], [a for a, _ in axes]),
                        [DimSpec(*d) for d in layout.dims], layout.replicated)


def spec_for(mesh, dim_specs, rank, replicated_axes=(), what="shard"):
    """A ShardingSpec of a tensor of this rank: from dim_specs, a PartitionSpec (which may be shorter), or a
    ShardingSpec of the mesh."""
    if isinstance(dim_specs, ShardingSpec):
        if dim_specs.mesh != mesh:
            raise ValueError(f"{what}: the layout is one over mesh {dim_specs.mesh}, got mesh {mesh}")
        return dim_specs
    dims = list(dim_specs)
    if isinstance(dim_specs, PartitionSpec):
        dims += [None] * (rank - len(dims))
    if len(dims) != rank:
        raise ValueError(f"{what}: {len(dims)} layouts of dimensions, {dims}, for a tensor of {rank}")
    return ShardingSpec(mesh, dims, replicated_axes or ())


def _bounds(n, spec, mesh, device_id):
    coordinate = 0
    for a in spec.axes:
        coordinate = coordinate * mesh.get_axis_size(a) + mesh.get_coordinate(device_id, a)
    chunk = -(-n // spec.get_total_shards(mesh))
    return min(n, coordinate * chunk), min(n, (coordinate + 1) * chunk)


def compute_local_shape(global_shape, sharding, device_id):
    """The shape of what a rank has of a tensor: of n elements along s parts ceil(n / s), fewer at the end."""
    bounds = [_bounds(n, d, sharding.mesh, device_id) for n, d in zip(global_shape, sharding.dim_specs)]
    return tuple(stop - start for start, stop in bounds)


def local_slices(global_shape, sharding, device_id):
    """Where in the tensor a rank's part lies, as a tuple of slices."""
    return tuple(slice(*_bounds(n, d, sharding.mesh, device_id)) for n, d in zip(global_shape, sharding.dim_specs))


def get_num_shards(sharding):
    """Into how many different parts a layout cuts a tensor."""
    return sharding.total_shards


def needs_reshard(from_spec, to_spec):
    """Whether two layouts differ, so that a tensor of the one must be laid out anew to have the other."""
    if from_spec is None or to_spec is None:
        return from_spec is not to_spec
    return from_spec.mesh != to_spec.mesh or [d.axes for d in from_spec.dim_specs] != [
        d.axes for d in to_spec.dim_specs]


__all__ = ["DeviceMesh", "DimSpec", "P", "PartitionSpec", "ShardingSpec", "compute_local_shape", "get_num_shards",
           "needs_reshard"]
