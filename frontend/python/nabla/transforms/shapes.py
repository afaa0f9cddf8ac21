"""What a function gives, without computing it."""

from .. import _nabla
from .._core import Tensor
from .._trace import Arguments, trace_like
from ..tree import tree_map


def eval_shape(fun, *args, **kwargs):
    """The tree that `fun` returns, with a Spec (shape and dtype) in place of each tensor. Nothing is computed.

    Arguments are trees of tensors, or of Specs in their places.
    """
    from ..export import Spec, spec

    def stand_in(x):
        return _nabla.full(list(x.shape), 0.0, x.dtype) if isinstance(x, Spec) else x

    args, kwargs = tree_map(stand_in, (args, kwargs))
    result = trace_like(fun, Arguments(args, kwargs))[1]
    return tree_map(lambda x: spec(x.shape, x.dtype) if isinstance(x, Tensor) else x, result.rebuild(result.tensors))


__all__ = ["eval_shape"]
