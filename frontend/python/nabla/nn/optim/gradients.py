"""Clipping of gradients, and their sums over several batches."""

from ... import _nabla
from ...tree import float_tensor, tree_leaves, tree_map
from .. import _math as m


def _mapped(f, tree):
    """The tree with `f(leaf)` in the place of every floating leaf, which f gets as a tensor."""
    def of_leaf(x):
        tensor = float_tensor(x)
        return x if tensor is None else f(tensor)

    return tree_map(of_leaf, tree)


def global_norm(tree):
    """The square root of the sum of all squares of a tree's floating leaves, tensors or arrays: float32, or float64 if
    a leaf is float64."""
    return _nabla.global_norm([x for x in map(float_tensor, tree_leaves(tree)) if x is not None])


def clip_by_global_norm(gradients, max_norm):
    """`(clipped, norm)`: all scaled down by one factor so that the global norm is at most max_norm; the norm before.

    A norm that is not finite makes the gradients NaN, so that it shows.
    """
    norm = global_norm(gradients)
    factor = _nabla.clip_factor(norm, float(max_norm))

    def scaled(x):  # in the dtype of the factor, which may be too small for the dtype of x
        return m.cast(m.mul(m.cast(x, factor.dtype), factor), x.dtype)

    return _mapped(scaled, gradients), norm


def clip_by_value(gradients, bound):
    """Every element kept within [-bound, bound]."""
    return _mapped(lambda x: _nabla.clip(x, -float(bound), float(bound)), gradients)


def accumulate(total, gradients, share=1.0):
    """total + share gradients; a total of None begins."""
    scaled = gradients if share == 1.0 else tree_map(lambda g: m.mul(g, float(share)), gradients)
    return scaled if total is None else tree_map(m.add, total, scaled)


__all__ = ["accumulate", "clip_by_global_norm", "clip_by_value", "global_norm"]
