"""Processes that a launcher started (mpirun), as ranks: they exchange host arrays, and run bundles of as many ranks
together (`nabla.load_bundle`). Without a launcher there is one rank, and every collective returns its argument's
values. No gradient flows through a collective here; those of `nabla.ops` are for ranks of one program."""

import atexit
import contextlib
import os
import sys
import threading
import traceback

from . import _nabla
from ._core import Tensor, asarray
from ._mesh import is_mesh_and_layout, laid_out, place_of, range_of, refuse, ShardingSpec, spec_for, spec_of

__all__ = ["all_gather", "all_reduce", "barrier", "broadcast", "finalize", "from_local", "init", "is_initialized",
           "is_main_process", "local_part", "local_rank", "rank", "reduce_scatter", "world_size"]

_MISUSE = 707
_FORKED = ("nabla.distributed is used in a process that a rank has forked: ranks are the processes that the launcher "
           "has started")
# By their numbers in the runtime.
_KINDS = {"all_reduce": 0, "all_gather": 1, "reduce_scatter": 2, "broadcast": 5}
_REDUCTIONS = {None: 0, "sum": 1, "mean": 1, "prod": 2, "max": 3, "min": 4}

_lock = threading.RLock()  # one exchange after the other
_finished = _forked = False
_processes = None  # None: not begun, or over
_ENGINES = _nabla.engines()  # by name: is every rank a process?
_MOST_SECONDS = 1e9


def _in_child():
    """A process that a rank forks is no rank: what the rank has joined stays the parent's."""
    global _forked, _lock, _processes
    _lock = threading.RLock()
    if _processes and _ENGINES[_processes.engine]:
        _processes.leave_to_parent()
        _processes, _forked = None, True


os.register_at_fork(after_in_child=_in_child)


def init(engine=None, timeout=300.0, heartbeat=1.0):
    """Joins the ranks. `engine` is "mpi", "nccl", "local" (one rank, alone), or None: mpi under mpirun, else local.
    With "nccl" mpirun starts the ranks as well, which run bundles for GPUs, one for every rank: their values go from
    GPU to GPU, and host arrays by MPI.
    `timeout`: seconds that a rank waits for the others in one exchange (and one more for every MiB); then E0611.
    `heartbeat`: every so many seconds a rank tells rank 0 that it lives, over a connection, from a thread of its own;
    after five of them without a word all others get E0610. 0: nobody watches. A second call changes nothing. Raises
    Error: E0602 without the plug-in or Open MPI, E0612 where rank 0 is not reached, E0707 after `finalize` and in a
    process that a rank has forked. Where MPI itself does not connect all processes within `timeout`, this one ends
    with E0611.
    """
    global _processes
    _means_processes("init", engine)
    if not 0 < timeout <= _MOST_SECONDS:
        raise ValueError(f"init: timeout must be more than 0 seconds, and at most {_MOST_SECONDS:g}, got {timeout!r}")
    if heartbeat != 0 and not 0.01 <= heartbeat <= _MOST_SECONDS:
        raise ValueError("init: heartbeat is in seconds, from 0.01 on, or 0 for none, "
                         f"and at most {_MOST_SECONDS:g}, got {heartbeat!r}")
    with _lock:
        if _processes:
            return
        if engine is None:
            engine = "mpi" if "OMPI_COMM_WORLD_SIZE" in os.environ else "local"
        if _ENGINES[engine] and _forked:
            _nabla.fail(_MISUSE, _FORKED)
        if _ENGINES[engine] and _finished:
            _nabla.fail(_MISUSE, "init: the ranks have been left by finalize(), and MPI starts once per process")
        _processes = _nabla.Processes(engine, float(timeout), float(heartbeat))
        atexit.register(_at_exit)


def _means_processes(caller, engine):
    """Whether a caller's engine is a way between the processes that `init` has joined."""
    if engine is not None and (not isinstance(engine, str) or engine not in _ENGINES):
        names = ", ".join(f'"{name}"' for name in _ENGINES)
        raise ValueError(f"{caller}: engine {engine!r}; there are {names} and None")
    return engine is not None and _ENGINES[engine]


def _joined(caller, engine):
    """The processes, for a caller whose engine is "mpi" or "nccl"."""
    if not _processes:
        raise ValueError(f"{caller}: engine=\"{engine}\" is for processes that nabla.distributed.init has joined")
    if _processes.engine != engine and _ENGINES[_processes.engine]:
        raise ValueError(f"{caller}: engine=\"{engine}\", and nabla.distributed.init has joined the processes by "
                         f"\"{_processes.engine}\"")
    return _processes


def is_initialized():
    """Whether `init` has been called, and `finalize` not."""
    return _processes is not None


def _ranks():
    if not _processes:
        _nabla.fail(_MISUSE, _FORKED if _forked else
                    "nabla.distributed is used after finalize()" if _finished else
                    "nabla.distributed is used before init()")
    return _processes


def rank():
    """This process's number, from 0."""
    return _ranks().rank


def world_size():
    """How many ranks there are."""
    return _ranks().ranks


def local_rank():
    """This process's number among those of its machine, from 0."""
    return int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", 0)) if _ENGINES[_ranks().engine] else 0


def is_main_process():
    """Whether this is rank 0."""
    return rank() == 0


@contextlib.contextmanager
def _together():
    """What all ranks do in the same order: one thing after the other."""
    with _lock:
        yield _ranks()


def _exchange(name, array, shape_of, op=None, root=0):
    import numpy  # not needed by `import nabla`
    given = array if isinstance(array, Tensor) else numpy.asarray(array)
    tensor = asarray(given)
    dtype = tensor.dtype
    if op not in _REDUCTIONS:
        raise ValueError(f"{name}: op {op!r}; there are {', '.join(o for o in _REDUCTIONS if o)}")
    if op is not None and dtype.name == "bool":
        raise TypeError(f"{name}: bool has no {op}; convert the array to int32")
    if op == "mean" and not dtype.is_float():
        raise TypeError(f"{name}: the mean of {dtype.name} is no {dtype.name}; convert the array to a float")
    with _together() as processes:
        size = processes.ranks
        if not (isinstance(root, int) and 0 <= root < size):
            raise ValueError(f"{name}: root {root!r} is no rank; there are {size}")
        how = f", op=\"{op}\"" if op else f", root={root}" if name == "broadcast" else ""
        processes.agree(f"{name}({dtype.name}{list(tensor.shape)}{how})")
        shape = shape_of(tuple(tensor.shape), size)
        out = processes.collective(_KINDS[name], _REDUCTIONS[op], tensor, shape, root)
    if op == "mean":
        out = out / size
    # An array of bfloat16, which a package may bring to NumPy, becomes one again.
    return out if isinstance(array, Tensor) else out.numpy().astype(given.dtype, copy=False)


def all_reduce(array, op="sum"):
    """The ranks' arrays combined element by element, in the order of the ranks: the same bits on all of them. `op` is
    "sum", "prod", "max", "min" or (of floats) "mean"; 16-bit floats are combined in float32 and rounded once. The
    shape and dtype are the array's, and must be equal on all ranks, else E0614; a NumPy array gives a NumPy array, a
    tensor a tensor."""
    return _exchange("all_reduce", array, lambda shape, size: shape, op)


def all_gather(array):
    """The ranks' arrays one after the other along dimension 0: (n, ...) gives (ranks * n, ...), a number (ranks,)."""
    return _exchange("all_gather", array, lambda shape, size: ((shape or (1,))[0] * size, *shape[1:]))


def reduce_scatter(array, op="sum"):
    """This rank's part, along dimension 0, of what `all_reduce` returns: (n, ...) gives (n / ranks, ...). Raises
    ValueError where n is no multiple of the ranks."""
    def part(shape, size):
        if not shape or shape[0] % size:
            raise ValueError(f"reduce_scatter: dimension 0 of shape {shape} does not divide among {size} ranks")
        return (shape[0] // size, *shape[1:])

    return _exchange("reduce_scatter", array, part, op)


def broadcast(array, root=0):
    """Rank `root`'s array, on every rank. The others pass one of its shape and dtype."""
    return _exchange("broadcast", array, lambda shape, size: shape, root=root)


def _need_processes_for(what, mesh):
    """Returns the number of processes. Raises Error (E0210) unless there is one, or one for each rank of the mesh."""
    size = world_size()
    if size not in (1, mesh.num_devices):
        refuse(f"{what}: mesh {mesh.name} has {mesh.num_devices} ranks, and {size} processes run",
               "run as many processes as the mesh has ranks, one for each")
    return size


def from_local(part, sharding):
    """Returns the global tensor of which every process passes its shard: an array, or a tensor. `sharding` is a
    ShardingSpec, or a pair (mesh, P(...)) whose mesh has a rank for each process. All shards have the same shape. A
    dimension that is sharded over s ranks is s times as long in the global tensor. Processes that hold the same shard
    pass equal arrays, and that of the lowest rank is used. All processes call it together, and each stores the global
    tensor afterwards. If there is one process, it passes the global tensor. Raises Error: E0210 for a sharding that
    does not fit, E0614 if shapes or dtypes differ between processes."""
    tensor = asarray(part)
    if not isinstance(sharding, ShardingSpec) and not is_mesh_and_layout(sharding):
        raise TypeError("from_local: sharding is a ShardingSpec, or a pair such as (mesh, P(\"dp\")), "
                        f"got {sharding!r}")
    mesh, dims = (sharding.mesh, sharding) if isinstance(sharding, ShardingSpec) else sharding
    spec = spec_for(mesh, dims, tensor.ndim, f"from_local: {tensor.type_str()}")
    if _need_processes_for("from_local", mesh) == 1:
        return laid_out(tensor, spec)
    parts = all_gather(tensor.reshape((1, *tensor.shape)))
    first = {}  # by the places of a shard: the lowest rank that holds it
    for r in range(mesh.num_devices):
        first.setdefault(tuple(place_of(r, d, mesh) for d in spec.dim_specs), r)
    return laid_out(_joined_along(0, (), spec, lambda places: parts[first[places]]), spec)


def _joined_along(dim, places, spec, part):
    """Concatenates the shards that have these places in the first dimensions."""
    from .ops import concatenate  # which needs this module
    if dim == len(spec.dim_specs):
        return part(places)
    count = spec.dim_specs[dim].get_total_shards(spec.mesh)
    inner = [_joined_along(dim + 1, (*places, i), spec, part) for i in range(count)]
    return inner[0] if count == 1 else concatenate(inner, dim)


def local_part(x):
    """Returns this process's shard of a tensor. The mesh of the tensor has a rank for each process. A dimension of n
    that is sharded over s ranks has ceil(n / s) elements in a shard, and fewer in the last ones. Returns the global
    tensor if it has no sharding, or if there is one process."""
    spec = spec_of(x)
    if spec is None or _need_processes_for("local_part", spec.mesh) == 1:
        return x
    index = (slice(*range_of(n, d, spec.mesh, rank())) for n, d in zip(x.shape, spec.dim_specs))
    return _nabla.unplaced(x)[tuple(index)]


def barrier():
    """Returns when all ranks have called it."""
    with _together() as processes:
        processes.agree("barrier()")


def finalize():
    """Leaves the ranks; they all do. Called at the end of the process too. After an exchange that failed nobody is
    waited for."""
    global _finished, _processes
    with _lock:
        processes, _processes = _processes, None
        if processes is None:
            return
        _finished = _ENGINES[processes.engine]
        if not processes.failed:
            processes.close()


def _at_exit():
    # A rank that an exception ends does not wait for the others, which are told: else the launcher ends them.
    why = getattr(sys, "last_value", None)
    if why is None:
        finalize()
    elif _processes:
        _processes.give_up("".join(traceback.format_exception_only(type(why), why)).strip())
