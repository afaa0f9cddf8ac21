"""Types of nabla.core.sharding, which //tests/python:types_test holds to the module."""

from . import spec as spec
from ..._mesh import DeviceMesh as DeviceMesh
from ..._mesh import DimSpec as DimSpec
from ..._mesh import P as P
from ..._mesh import PartitionSpec as PartitionSpec
from ..._mesh import ShardingSpec as ShardingSpec
from ..._mesh import compute_local_shape as compute_local_shape
from ..._mesh import get_num_shards as get_num_shards
from ..._mesh import needs_reshard as needs_reshard
