"""Choices by element and by value, and loops. All but `where` are transforms of functions: see nabla.transforms."""

from .. import _nabla
from .._core import DType, asarray
from ..transforms import associative_scan, cond, fori_loop, scan, switch, while_loop
from ._common import emit1, tensors
from .binary import broadcast_shapes


def where(condition, x=None, y=None):
    """x where the condition holds (is not 0), y elsewhere. Shapes broadcast, dtypes of x and y meet.

    The element that is not chosen contributes nothing, not even NaN, to the gradient.
    """
    if x is None or y is None:
        raise TypeError("where takes a condition and two operands; nabla.nonzero gives the positions of a mask")
    condition = asarray(condition)
    if condition.dtype != DType.bool:
        condition = emit1("ne", [condition, 0], {})
    x, y = tensors(x, y)
    shape = broadcast_shapes(condition.shape, x.shape, y.shape)
    if condition.ndim and condition.shape != shape:
        condition = _nabla.broadcast_to(condition, list(shape))
    x, y = [v if v.shape == shape else _nabla.broadcast_to(v, list(shape)) for v in (x, y)]
    return emit1("select", [condition, x, y], {})


def select(conditions, choices, default=0):
    """The element of the first choice whose condition holds, else `default`."""
    if len(conditions) != len(choices):
        _nabla.fail(204, f"select: {len(conditions)} conditions for {len(choices)} choices")
    *choices, out = tensors(*choices, default)
    for condition, choice in reversed(list(zip(conditions, choices))):
        out = where(condition, choice, out)
    return out


__all__ = ["associative_scan", "cond", "fori_loop", "scan", "select", "switch", "where", "while_loop"]
