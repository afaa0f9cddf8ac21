"""What reverse mode keeps, what it computes again, and what it leaves out; products in a narrower type."""

import functools

from .. import _nabla
from .._core import asarray, dtype_of
from .._trace import Arguments, trace_like
from ..tree import is_array, tree_map


def checkpoint(fun=None, *, policy=None, names=()):
    """`fun`, of which reverse mode keeps the arguments and what `policy` names, and computes the rest again.

    policy: None or "nothing"; "dots" keeps results of matrix products and convolutions; "names" keeps values that
    `checkpoint_name` gave one of `names`.
    """
    if fun is None:
        return functools.partial(checkpoint, policy=policy, names=names)
    policy = policy or ("names" if names else "nothing")

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        arguments = Arguments(args, kwargs)
        f, result = trace_like(fun, arguments)
        return result.rebuild(_nabla.remat(f, arguments.tensors, policy, ",".join(names)))

    return wrapped


remat = checkpoint


def checkpoint_name(x, name):
    """x, under a name that policies of `checkpoint` know."""
    return _nabla.emit("checkpoint_name", [asarray(x)], {"name": name})[0]


def stop_gradient(x):
    """x, or the tensors of a tree, without a derivative."""
    return tree_map(lambda t: _nabla.emit("stop_gradient", [asarray(t)], {})[0] if is_array(t) else t, x)


def autocast(fun, dtype="bfloat16"):
    """`fun` with its matrix products and convolutions in `dtype`; its arguments and results keep their types."""
    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        arguments = Arguments(args, kwargs)
        f, result = trace_like(fun, arguments)
        return result.rebuild(_nabla.autocast(f, arguments.tensors, dtype_of(dtype)))

    return wrapped


__all__ = ["autocast", "checkpoint", "checkpoint_name", "remat", "stop_gradient"]
