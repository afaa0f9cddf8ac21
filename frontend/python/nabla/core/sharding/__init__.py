"""Meshes and how tensors lie on them: names that come with sharding, see nabla.ops.communication."""

from ...ops.communication import (
    DeviceMesh, DimSpec, P, PartitionSpec, ShardingSpec, compute_local_shape, get_num_shards)
from . import spec

__all__ = ["DeviceMesh", "DimSpec", "P", "PartitionSpec", "ShardingSpec", "compute_local_shape", "get_num_shards",
           "spec"]
