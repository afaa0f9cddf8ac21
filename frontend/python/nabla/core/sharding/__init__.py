"""Meshes and how tensors lie on them: see nabla.ops.communication for what works on them."""

from ..._mesh import (
    DeviceMesh, DimSpec, P, PartitionSpec, ShardingSpec, compute_local_shape, get_num_shards, needs_reshard)
from . import spec

__all__ = ["DeviceMesh", "DimSpec", "P", "PartitionSpec", "ShardingSpec", "compute_local_shape", "get_num_shards",
           "needs_reshard",
           "spec"]
