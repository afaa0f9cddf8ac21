"""Types of nabla.core.sharding, which //tests/python:types_test holds to the module."""

from . import spec as spec
from ...ops.communication import DeviceMesh as DeviceMesh
from ...ops.communication import DimSpec as DimSpec
from ...ops.communication import PartitionSpec as P
from ...ops.communication import PartitionSpec as PartitionSpec
from ...ops.communication import ShardingSpec as ShardingSpec
from ...ops.communication import compute_local_shape as compute_local_shape
from ...ops.communication import get_num_shards as get_num_shards

