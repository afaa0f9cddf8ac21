"""Keys for layers that draw numbers: initial values and dropout.

A key is a uint32[2] tensor. Layers take `key=`; without one they ask `next_key()`, which gives

- inside of `with rngs(key):` an independent key per call, derived from that one. This is how a compiled step draws new
  numbers in each run: hand it a key, open the scope inside.
- outside of any scope the next key of the process, which `seed(n)` sets. In a compiled function that is an Error.
"""

import contextlib
import contextvars
import threading

from .. import _nabla
from .._core import DType, Error, Tensor, asarray, is_compiling

_scope = contextvars.ContextVar("nabla_nn_rngs", default=None)
_lock = threading.Lock()
_process = {"seed": 0, "count": 0}


class _Stream:
    __slots__ = ("key", "count")

    def __init__(self, key):
        self.key, self.count = key, 0

    def next(self):
        self.count += 1
        return fold_in(self.key, self.count - 1)


def key_of(seed):
    """The key of an integer: its high and its low 32 bits. A tensor uint32[2] is a key already."""
    if isinstance(seed, Tensor):
        if seed.dtype != DType.uint32 or tuple(seed.shape) != (2,):
            raise TypeError(f"a key is uint32[2], got {seed.type_str()}")
        return seed
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"a key is made of an int, got {type(seed).__name__}")
    return _nabla.from_numbers([(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF], DType.uint32)


def fold_in(key, data):
    """An independent key for every number, an int or an integer scalar."""
    return _nabla.emit("rng_fold_in", [key, asarray(data, DType.uint32)], {})[0]


def seed(n):
    """Starts the process's keys again: the same program draws the same numbers."""
    key_of(n)
    with _lock:
        _process["seed"], _process["count"] = n, 0


@contextlib.contextmanager
def rngs(key):
    """Within the context layers draw from this key, an int or a uint32[2] tensor."""
    token = _scope.set(_Stream(key_of(key)))
    try:
        yield
    finally:
        _scope.reset(token)


def in_scope():
    """Whether a scope of `rngs` is open."""
    return _scope.get() is not None


def next_key():
    """An independent key: of the innermost scope, or of the process."""
    stream = _scope.get()
    if stream is not None:
        return stream.next()
    if is_compiling():
        raise Error("a key of the process in a compiled function would be the same at each call: hand the function a key "
                    "and open `with nn.rngs(key):` in it, or draw before it is called")
    with _lock:
        start, count = _process["seed"], _process["count"]
        _process["count"] += 1
    return fold_in(key_of(start), count)


__all__ = ["rngs"]
