"""What tests of programs need."""

from . import _nabla
from ._core import DType, Tensor, asarray, astype
from .tree import tensor_leaves, tree_flatten


def assert_allclose(actual, desired, rtol=1e-5, atol=1e-6, equal_nan=True):
    """Raises AssertionError unless two trees of tensors, arrays or numbers have one form and are close everywhere.

    Close is |actual - desired| <= atol + rtol |desired|, as in NumPy; 16-bit floats are compared as float32.
    """
    import numpy
    a, form = tree_flatten(actual)
    b, wanted = tree_flatten(desired)
    if len(a) != len(b) or (form != wanted and len(a) != 1):
        raise AssertionError(f"trees of different form: {form} and {wanted}")
    batch_realize(actual, desired)
    for x, y in zip(a, b):
        numpy.testing.assert_allclose(_array(x), _array(y), rtol=rtol, atol=atol, equal_nan=equal_nan)


def _array(x):
    import numpy
    if isinstance(x, Tensor):
        return numpy.asarray(astype(x, DType.float32) if x.dtype == DType.bfloat16 else x)
    return numpy.asarray(x) if hasattr(x, "__array__") else numpy.asarray(asarray(x))


def batch_realize(*trees):
    """Computes the tensors of all trees in one graph."""
    _nabla.realize([t for tree in trees for t in tensor_leaves(tree)])


__all__ = ["assert_allclose", "batch_realize"]
