"""Sharding and collectives: their names, each of which says that it comes with sharding."""


def _absent(name):
    def function(*args, **kwargs):
        raise NotImplementedError(f"{name}: it comes with sharding, which this version of nabla does not have: every "
                                  "tensor is whole, on one device")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Comes with sharding: raises NotImplementedError."
    return function


_NAMES = ["all_gather", "all_reduce", "all_to_all", "axis_index", "distributed_broadcast", "gather_all_axes", "pmean",
          "ppermute", "psum", "reduce_scatter", "reshard", "shard"]
for _name in _NAMES:
    globals()[_name] = _absent(_name)
broadcast = globals()["distributed_broadcast"]

__all__ = list(_NAMES)
