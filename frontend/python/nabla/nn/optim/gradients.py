"""Clipping of gradients, and their sums over several batches."""

from ... import _nabla
from ..._core import Tensor
from ...tree import tree_flatten, tree_map
from .. import _math as m


def _floating(tree):
    return [x for x in tree_flatten(tree)[0] if isinstance(x, Tensor) and x.dtype.is_float()]


def global_norm(tree):
    """The square root of the sum of all squares of a tree's floating tensors: float32."""
    return _nabla.global_norm(_floating(tree))


def clip_by_global_norm(gradients, max_norm):
    """`(clipped, norm)`: all scaled down by one factor so that the global norm is at most max_norm; the norm before.

    A norm that is not finite makes the gradients NaN, so that it shows.
    """
    norm = global_norm(gradients)
    factor = _nabla.clip_factor(norm, float(max_norm))

    def scaled(x):
        return m.mul(x, m.cast(factor, x.dtype)) if isinstance(x, Tensor) and x.dtype.is_float() else x

    return tree_map(scaled, gradients), norm


def clip_by_value(gradients, bound):
    """Every element kept within [-bound, bound]."""
    def kept(x):
        return _nabla.clip(x, -float(bound), float(bound)) if isinstance(x, Tensor) and x.dtype.is_float() else x

    return tree_map(kept, gradients)


def accumulate(total, gradients, share=1.0):
    """total + share gradients; a total of None begins."""
    scaled = gradients if share == 1.0 else tree_map(lambda g: m.mul(g, float(share)), gradients)
    return scaled if total is None else tree_map(m.add, total, scaled)


__all__ = ["accumulate", "clip_by_global_norm", "clip_by_value", "global_norm"]
