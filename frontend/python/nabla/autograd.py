"""Derivatives in the style of PyTorch: tensors that require gradients, `backward()` and `.grad`.

The graph is what was recorded since the tensors came into use; it is there until backward() was called without
retain_graph. Inside of transforms and compiled functions use grad, vjp or value_and_grad.
"""

import contextlib

from . import _nabla
from ._core import Error, Tensor, asarray


class no_grad(contextlib.ContextDecorator):
    """Within the context nothing is remembered for `backward()`: what is computed there does not depend, for it, on
    tensors that require gradients. Also a decorator. Raises Error in a trace: stop_gradient is for functions there."""

    def __enter__(self):
        if _nabla.is_tracing():
            raise Error("no_grad() inside of a traced function: nabla.stop_gradient(x) cuts x off there")
        _nabla.begin_no_grad()
        return self

    def __exit__(self, *exception):
        _nabla.end_no_grad()


def untracked():
    """no_grad() outside of traces; inside of them nothing: what an optimiser does has no part in a gradient."""
    return contextlib.nullcontext() if _nabla.is_tracing() else no_grad()


def requires_grad_(x, value=True):
    """Marks x, a floating tensor outside of any trace, so that backward() gives it a gradient. Returns x."""
    x.requires_grad = value
    return x


def backward(outputs, cotangents=None, retain_graph=False, create_graph=False, inputs=None):
    """Adds to `.grad` of every tensor that requires gradients, and that `outputs` depend on, its gradient.

    `cotangents`: shaped like the outputs; not needed for scalars. `inputs`: only these get gradients. Without
    `create_graph`, gradients have no derivative. Raises Error when nothing requires gradients, or in a trace.
    """
    outs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    cts = [None] * len(outs) if cotangents is None else (
        list(cotangents) if isinstance(cotangents, (list, tuple)) else [cotangents])
    if len(cts) != len(outs):
        raise ValueError(f"backward: {len(cts)} cotangents for {len(outs)} outputs")
    if _nabla.is_tracing():
        raise Error("backward() inside of a traced function: use nabla.grad, value_and_grad or vjp there")
    leaves = list(inputs) if inputs is not None else _nabla.gradient_leaves()
    for out, ct in zip(outs, cts):
        if ct is None and out.shape != ():
            raise ValueError(f"backward() of {out.type_str()} needs a cotangent of its shape; only scalars do without")
        ct = None if ct is None else asarray(ct, out.dtype)
        if ct is not None and ct.shape != out.shape:
            raise ValueError(f"backward: the cotangent is {ct.type_str()}, the output {out.type_str()}")
        found = _nabla.backward_gradients(out, ct, leaves)
        if not any(g is not None for g in found):
            raise Error("backward(): the output depends on no tensor that requires gradients; call requires_grad_() on "
                        "the parameters before they are used")
        for leaf, g in zip(leaves, found):
            if g is None:
                continue
            if not create_graph:
                g = _nabla.emit("stop_gradient", [g], {})[0]
            leaf.grad = g if leaf.grad is None else _nabla.emit("add", [leaf.grad, g], {})[0]
    _nabla.realize([x.grad for x in leaves if x.grad is not None])
    if not retain_graph and not create_graph:
        _nabla.forget_graph()


def detach(x):
    """x without its history."""
    return _nabla.emit("stop_gradient", [asarray(x)], {})[0]


Tensor.grad = None
Tensor.requires_grad_ = requires_grad_
Tensor.detach = detach
Tensor.is_leaf = property(lambda x: x.has_array or not x.is_traced)


def _backward(x, gradient=None, retain_graph=False, create_graph=False):
    backward(x, gradient, retain_graph, create_graph)


_backward.__doc__ = backward.__doc__
Tensor.backward = _backward

__all__ = ["backward", "detach", "no_grad"]
