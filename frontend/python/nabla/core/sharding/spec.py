"""As nabla.core.sharding."""

from ...ops.communication import (
    DeviceMesh, DimSpec, P, PartitionSpec, ShardingSpec, compute_local_shape, get_num_shards)

__all__ = ["DeviceMesh", "DimSpec", "P", "PartitionSpec", "ShardingSpec", "compute_local_shape", "get_num_shards"]
