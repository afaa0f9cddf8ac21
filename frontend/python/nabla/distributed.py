"""Processes that a launcher started (mpirun), as ranks that exchange host arrays. Without a launcher there is one rank,
and every collective returns its argument's values."""

import atexit
import json
import os
import sys
import threading

from . import _nabla
from ._core import Tensor, asarray

__all__ = ["all_gather", "all_reduce", "barrier", "broadcast", "finalize", "init", "is_initialized",
           "is_main_process", "local_rank", "rank", "reduce_scatter", "world_size"]

_MISUSE, _DISAGREE = 707, 614
_KINDS = {"all_reduce": 0, "all_gather": 1, "reduce_scatter": 2, "broadcast": 5}
_REDUCTIONS = {"sum": 1, "mean": 1, "prod": 2, "max": 3, "min": 4}
# By their number in the runtime.
_DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", None, "float32",
           "float64"]
_HEADER = 1024

_lock = threading.RLock()  # one exchange after the other
_started = False
_finished = False
_processes = None  # None: this rank is alone


def init(engine=None, timeout=300.0):
    """Joins the ranks. `engine` is "mpi", "local" (one rank, alone), or None: mpi under mpirun, else local.
    `timeout`: seconds that a rank waits for the others in one exchange (and one more for every MiB); then E0611. A
    second call changes nothing. Raises Error: E0602 without the plug-in or Open MPI, E0707 after `finalize`.
    """
    global _started, _processes
    if engine not in (None, "mpi", "local"):
        raise ValueError(f"init: engine {engine!r}; there are \"mpi\", \"local\" and None")
    if not timeout > 0:
        raise ValueError(f"init: timeout must be more than 0 seconds, got {timeout!r}")
    with _lock:
        if _started:
            return
        if _finished:
            _nabla.fail(_MISUSE, "init: the ranks have been left by finalize(), and MPI starts once per process")
        if engine == "mpi" or (engine is None and "OMPI_COMM_WORLD_SIZE" in os.environ):
            _processes = _nabla.Processes("mpi", float(timeout))
        _started = True
        atexit.register(_at_exit)


def is_initialized():
    """Whether `init` has been called, and `finalize` not."""
    return _started


def _ranks():
    if not _started:
        _nabla.fail(_MISUSE, "nabla.distributed is used before init()" if not _finished else
                    "nabla.distributed is used after finalize()")
    return _processes


def rank():
    """This process's number, from 0."""
    return _ranks().rank if _ranks() else 0


def world_size():
    """How many ranks there are."""
    return _ranks().ranks if _ranks() else 1


def local_rank():
    """This process's number among those of its machine, from 0."""
    return int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", 0)) if _ranks() else 0


def is_main_process():
    """Whether this is rank 0."""
    return rank() == 0


def _host(name, array):
    import numpy  # not needed by `import nabla`
    host = numpy.ascontiguousarray(numpy.asarray(array)).reshape(numpy.shape(array))
    if isinstance(array, Tensor) and array.dtype.name != host.dtype.name and array.dtype.name not in ("bool", "bool_"):
        raise TypeError(f"{name}: {array.dtype.name} is no dtype of NumPy's; convert the tensor to float32")
    if host.dtype.name not in _DTYPES or not host.dtype.isnative:
        raise TypeError(f"{name}: {host.dtype} cannot be exchanged; there are {', '.join(d for d in _DTYPES if d)}")
    return host


def _compare(what):
    """E0614 on every rank where not all are about to do the same."""
    text = json.dumps(what).encode()[:_HEADER]
    every = bytes(_processes.collective(1, 0, 5, text.ljust(_HEADER, b"\0"), _HEADER * _processes.ranks, 0))
    texts = [every[i * _HEADER:(i + 1) * _HEADER].rstrip(b"\0").decode() for i in range(_processes.ranks)]
    for other, theirs in enumerate(texts):
        if theirs != texts[0]:
            _nabla.fail(_DISAGREE, f"rank 0 calls {texts[0]}, and rank {other} {theirs}")


def _exchange(name, array, shape_of, op=None, root=0):
    import numpy
    processes, host = _ranks(), _host(name, array)
    size = processes.ranks if processes else 1
    if not (isinstance(root, int) and 0 <= root < size):
        raise ValueError(f"{name}: root {root!r} is no rank; there are {size}")
    if op is not None and op not in _REDUCTIONS:
        raise ValueError(f"{name}: op {op!r}; there are {', '.join(_REDUCTIONS)}")
    if op is not None and host.dtype.name == "bool":
        raise TypeError(f"{name}: bool has no {op}; convert the array to int32")
    if op == "mean" and host.dtype.kind != "f":
        raise TypeError(f"{name}: the mean of {host.dtype} is no {host.dtype}; convert the array to a float")
    out = host.copy()
    if processes:
        with _lock:
            _compare([name, op, host.dtype.name, list(host.shape), root])
            shape = shape_of(host.shape, size)
            count = int(numpy.prod(shape)) * host.itemsize
            if count == 0:
                out = numpy.empty(shape, host.dtype)
            else:
                flat = host.reshape(-1).view(numpy.uint8)
                raw = processes.collective(_KINDS[name], _REDUCTIONS.get(op, 0), _DTYPES.index(host.dtype.name), flat,
                                           count, root)
                out = numpy.frombuffer(raw, host.dtype).reshape(shape)
        if op == "mean":
            out = (out / host.dtype.type(size)).astype(host.dtype)
    else:
        out = out.reshape(shape_of(host.shape, 1))
    return asarray(out) if isinstance(array, Tensor) else out


def all_reduce(array, op="sum"):
    """The ranks' arrays combined element by element, in the order of the ranks: the same bits on all of them. `op` is
    "sum", "prod", "max", "min" or (of floats) "mean". The shape and dtype are the array's, and must be equal on all
    ranks, else E0614; a NumPy array gives a NumPy array, a tensor a tensor."""
    return _exchange("all_reduce", array, lambda shape, size: shape, op)


def all_gather(array):
    """The ranks' arrays one after the other along dimension 0: (n, ...) gives (ranks * n, ...), a number (ranks,)."""
    return _exchange("all_gather", array, lambda shape, size: ((shape or (1,))[0] * size, *shape[1:]))


def reduce_scatter(array, op="sum"):
    """This rank's part, along dimension 0, of what `all_reduce` returns: (n, ...) gives (n / ranks, ...). Raises
    ValueError where n is no multiple of the ranks."""
    import numpy
    size, shape = world_size(), numpy.shape(array)
    if not shape or shape[0] % size:
        raise ValueError(f"reduce_scatter: dimension 0 of shape {tuple(shape)} does not divide among {size} ranks")
    return _exchange("reduce_scatter", array, lambda shape, size: (shape[0] // size, *shape[1:]), op)


def broadcast(array, root=0):
    """Rank `root`'s array, on every rank. The others pass one of its shape and dtype."""
    return _exchange("broadcast", array, lambda shape, size: shape, root=root)


def barrier():
    """Returns when all ranks have called it."""
    if _ranks():
        with _lock:
            _compare(["barrier"])


def finalize():
    """Leaves the ranks; they all do. Called at the end of the process too. After an exchange that failed nobody is
    waited for."""
    global _started, _finished, _processes
    with _lock:
        processes, was = _processes, _started
        _started, _processes = False, None
        if not was:
            return
        _finished = processes is not None
        if processes and not processes.failed:
            processes.close()


def _at_exit():
    # A rank that an exception ends does not wait for the others: the launcher ends them.
    if getattr(sys, "last_value", None) is None:
        finalize()
