"""Types of nabla.ops.communication, which //tests/python:types_test holds to the module."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from .._mesh import DeviceMesh as DeviceMesh
from .._mesh import DimSpec as DimSpec
from .._mesh import P as P
from .._mesh import PartitionSpec as PartitionSpec
from .._mesh import ShardingSpec as ShardingSpec
from .._mesh import compute_local_shape as compute_local_shape
from .._mesh import get_num_shards as get_num_shards
from .._mesh import needs_reshard as needs_reshard
from .._mesh import _Raw
from .._nabla import Tensor
from ..core.sharding.propagation import OpShardingRule
from ..devices import accelerator as accelerator
from ..devices import cpu as cpu
from ..devices import gpu as gpu
from ..devices import to_device as to_device
from ..devices import transfer_to as transfer_to
from ..typing import ArrayLike

_T = TypeVar("_T")
_Axes = str | Sequence[str] | None
_Pair = tuple[DeviceMesh, Iterable[_Raw] | ShardingSpec]

def shard(
    x: _T, mesh: DeviceMesh, dim_specs: Iterable[_Raw] | ShardingSpec, replicated_axes: Iterable[str] | None = None
) -> _T: ...
def with_sharding_constraint(
    x: _T, sharding: ShardingSpec | _Pair | DeviceMesh, dim_specs: Iterable[_Raw] | ShardingSpec | None = None,
    replicated_axes: Iterable[str] | None = None
) -> _T: ...
def shard_by_rule(values: _T, operands: ArrayLike | Iterable[ArrayLike], rule: str | OpShardingRule) -> _T: ...
def reshard(
    x: _T, mesh: DeviceMesh, dim_specs: Iterable[_Raw] | ShardingSpec, replicated_axes: Iterable[str] | None = None
) -> _T: ...
def all_gather(sharded_tensor: _T, axis: int | None = None, axis_name: _Axes = None) -> _T: ...
def gather_all_axes(sharded_tensor: _T) -> _T: ...
def all_reduce(sharded_tensor: _T, reduce_op: str = "sum", reduce_axes: _Axes = None) -> _T: ...
def psum(x: _T, axis_name: _Axes = None) -> _T: ...
def pmean(sharded_tensor: _T, axis_name: _Axes = None) -> _T: ...
def pmax(x: _T, axis_name: _Axes = None) -> _T: ...
def pmin(x: _T, axis_name: _Axes = None) -> _T: ...
def reduce_scatter(
    sharded_tensor: _T, axis: int = 0, reduce_op: str = "sum", axis_name: _Axes = None
) -> _T: ...
def all_to_all(
    sharded_tensor: _T, split_axis: int, concat_axis: int, tiled: bool = True, axis_name: _Axes = None
) -> _T: ...
def ppermute(
    sharded_tensor: _T, permutation: Iterable[tuple[int, int]], axis_name: _Axes = None
) -> _T: ...
def axis_index(mesh: DeviceMesh | str | Sequence[str], axis_name: str | None = None) -> Tensor: ...
def distributed_broadcast(x: _T, mesh: DeviceMesh | None = None, root: int | None = None) -> _T: ...
broadcast = distributed_broadcast
