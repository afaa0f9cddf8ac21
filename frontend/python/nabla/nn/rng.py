"""Keys for layers that draw numbers: initial values and dropout. See nabla.random for keys themselves.

Layers take `key=`, an int or a uint32[2] tensor; without one they ask `next_key()`, which gives

- inside of `with rngs(key):` an independent key per call, derived from that one. This is how a compiled step draws new
  numbers in each run: hand it a key, open the scope inside. In the body of a loop, open one with a key of the
  iteration, fold_in(key, i): what a body draws is the same each time.
- outside of any scope the next one of the process (nabla.seed begins anew), which is an Error in traced functions.
  `nn.value_and_grad`, called outside of a traced function, opens a scope with such a key itself.
"""

import contextlib
import contextvars

from .. import random as _random
from .._core import DType, Error, Tensor
from .._nabla import is_tracing

_scope = contextvars.ContextVar("nabla_nn_rngs", default=None)


class _Stream:
    __slots__ = ("key", "count")

    def __init__(self, key):
        self.key, self.count = key, 0

    def next(self):
        self.count += 1
        return fold_in(self.key, self.count - 1)


def key_of(seed):
    """The key of an integer, as nabla.random.key. A tensor uint32[2] is a key already."""
    if isinstance(seed, Tensor):
        if seed.dtype != DType.uint32 or tuple(seed.shape) != (2,):
            raise TypeError(f"a key is uint32[2], got {seed.type_str()}")
        return seed
    return _random.key(seed)


fold_in = _random.fold_in


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


@contextlib.contextmanager
def own_scope():
    """A scope with the next key of the process, where there is none and nothing is traced."""
    if _scope.get() is not None or is_tracing():
        yield
        return
    with rngs(_random.next_key()):
        yield


def next_key():
    """An independent key: of the innermost scope, or of the process."""
    stream = _scope.get()
    if stream is not None:
        return stream.next()
    if is_tracing():
        raise Error("a layer draws numbers in a traced function without a key: they would be the same at each call. "
                    "Hand the function a key and open `with nn.rngs(key):` in it, or make the layer before")
    return _random.next_key()


__all__ = ["rngs"]
