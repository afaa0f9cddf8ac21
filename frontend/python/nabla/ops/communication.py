"""Sharding and collectives: their names, each of which says that it comes with sharding."""


def _absent(name):
    def function(*args, **kwargs):
        raise NotImplementedError(f"{name}: it comes with sharding, which this version of nabla does not have: every "
                                  "tensor is whole, on one device")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Comes with sharding: raises NotImplementedError."
    return function




class _Absent(type):
    """Classes that are named in annotations, and cannot be made."""

    def __call__(cls, *args, **kwargs):
        return _absent(cls.__name__)()


_CLASSES = ["DeviceMesh", "DimSpec", "PartitionSpec", "ShardingSpec"]
_NAMES = ["all_gather", "all_reduce", "all_to_all", "axis_index", "distributed_broadcast", "gather_all_axes", "pmean",
          "ppermute", "psum", "reduce_scatter", "reshard", "shard", "shard_map", "compute_local_shape",
          "get_num_shards"]
for _name in _NAMES:
    globals()[_name] = _absent(_name)
for _name in _CLASSES:
    globals()[_name] = _Absent(_name, (), {"__doc__": "Comes with sharding: making one raises NotImplementedError."})
broadcast = globals()["distributed_broadcast"]
P = globals()["PartitionSpec"]

__all__ = [*_NAMES, *_CLASSES, "P"]
