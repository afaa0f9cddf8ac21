"""Derivatives by the parameters of a module that a selector names."""

import functools

from .. import transforms as _transforms
from .._trace import name_of
from .module import Module
from .rng import own_scope
from .selectors import select


def value_and_grad(fun, wrt="trainable", has_aux=False):
    """The value of `fun(model, *args)`, a floating scalar, and its gradients by the model's tensors that `wrt` selects.

    Returns a function of the same arguments that gives `(value, gradients)`, gradients being a dict `{path: tensor}`.
    With `has_aux`, `fun` returns `(value, aux)` and the value is that pair. Buffers that `fun` sets on the model (the
    running statistics of BatchNorm) are set on the model that was passed. Outside of a compiled function that is the
    model itself; inside of one it is the function's own copy, which it returns to keep them. Dropout draws from the
    scope of `nn.rngs`; outside of traced functions, where there is none, from a new key at each call.
    Raises SelectorError or TypeError when nothing floating is selected.
    """
    chosen_by = select(wrt)

    @functools.wraps(fun)
    def wrapped(model, *args, **kwargs):
        if not isinstance(model, Module):
            raise TypeError(f"nn.value_and_grad: the first argument of {name_of(fun)} is a Module, got a "
                            f"{type(model).__name__}; nabla.value_and_grad differentiates by trees")
        chosen, rest = chosen_by.partition(model)
        if not chosen:
            raise TypeError(f"value_and_grad: {chosen_by!r} selects nothing of {type(model).__name__}")

        def inside(parameters, others, args, kwargs):
            copy = model.clone().set_tensors({**parameters, **others})
            given = {path: (x, x._copied()) for path, x, _ in copy.named_tensors()}

            def is_new(path, x):  # set, or written into
                return path not in given or x is not given[path][0] or not x._same(given[path][1])

            out = fun(copy, *args, **kwargs)
            value, aux = out if has_aux else (out, None)
            changed = {path: x for path, x, _ in copy.named_tensors() if is_new(path, x)}
            return value, (aux, changed)

        with own_scope():
            (value, (aux, changed)), gradients = _transforms.value_and_grad(inside, has_aux=True)(
                chosen, rest, args, kwargs)
        if changed:
            model.set_tensors(changed)
        return ((value, aux) if has_aux else value), {path: gradients[path] for path in chosen}

    return wrapped


def grad(fun, wrt="trainable", has_aux=False):
    """As value_and_grad, without the value: gradients, or `(gradients, aux)`."""
    both = value_and_grad(fun, wrt, has_aux)

    @functools.wraps(fun)
    def wrapped(model, *args, **kwargs):
        value, gradients = both(model, *args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return wrapped


__all__ = ["grad", "value_and_grad"]
