"""Tensors of modules that others hold too: a module puts new tensors in the place of old ones, except of these."""

from .. import _nabla
from .._core import Tensor, asarray


def keep_handle(x):
    """Marks a tensor that an optimiser holds: what would replace it in its module is written into it. Returns it."""
    if isinstance(x, Tensor) and x.requires_grad:
        x._keeps_handle = True
    return x


def write_tensor(x, new):
    """Gives x the elements of another tensor; it requires a gradient as it did."""
    leaf, wanted = x._is_gradient_leaf, x.requires_grad
    x.requires_grad = False
    try:
        x._rebind(new)
    finally:
        if leaf:
            x.requires_grad = True
        elif wanted:
            x._set_parameter()


def successor(old, new):
    """What stands in a module for `old` after it is replaced by `new`; it requires a gradient if `old` does."""
    if new is old:
        return old
    if getattr(old, "_keeps_handle", False) and not _nabla.is_tracing():
        write_tensor(old, new)
        return old
    if getattr(old, "requires_grad", False) and not new.is_traced:
        new.requires_grad = True
    return new


def with_own_handle(x):
    """The elements of x under a handle of its own, in the same memory: a write into one leaves the other as it is."""
    if _nabla.is_tracing() or x.is_traced:
        return x
    out = asarray(0, x.dtype)
    out._rebind(x)
    return out


__all__ = ["keep_handle", "successor", "with_own_handle", "write_tensor"]
