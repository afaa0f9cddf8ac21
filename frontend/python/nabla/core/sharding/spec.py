"""As nabla.core.sharding."""

from ..._mesh import (
    DeviceMesh, DimSpec, P, PartitionSpec, ShardingSpec, compute_local_shape, get_num_shards, needs_reshard)

__all__ = ["DeviceMesh", "DimSpec", "P", "PartitionSpec", "ShardingSpec", "compute_local_shape", "get_num_shards",
           "needs_reshard"]
