"""Jacobians and Hessians, whose rows are one batch."""

import functools

from .. import _nabla
from .._core import weak_floats
from ..tree import is_array, tree_flatten, tree_map
from .derivatives import _positions, _zeros_like, grad, jvp, vjp
from .batching import vmap


def _moved_argument(fun, args, kwargs, n):
    def of_x(x):
        inside = list(args)
        inside[n] = x
        return fun(*inside, **kwargs)

    return of_x


def _tensor_argument(what, args, n):
    leaves = tree_flatten(args[n])[0]
    if len(leaves) != 1 or not is_array(args[n]):
        raise TypeError(f"{what}: argument {n} is a tree; differentiate by one tensor, or by several argnums")
    return weak_floats(args[n])


def _jacobian(fun, argnums, has_aux, one):
    single = argnums is None or isinstance(argnums, int)

    @functools.wraps(fun)
    def jacobian(*args, **kwargs):
        numbers, _ = _positions(0 if argnums is None else argnums, len(args), "jacobian")
        out, aux = [], None
        for n in numbers:
            f = _moved_argument(fun, args, kwargs, n)
            x = _tensor_argument("jacobian", args, n)
            if has_aux:
                aux = f(x)[1]
                out.append(one(lambda v, f=f: f(v)[0], x))
            else:
                out.append(one(f, x))
        result = out[0] if single else tuple(out)
        return (result, aux) if has_aux else result

    return jacobian


def jacfwd(fun, argnums=None, has_aux=False):
    """The Jacobian in forward mode: every tensor of the result becomes one of shape [*result, *argument].

    One sweep per element of the argument, all in one batch.
    """
    def one(f, x):
        columns = vmap(lambda t: jvp(f, (x,), (t,))[1], out_axes=-1)(_nabla.unit_vectors(x))
        return tree_map(lambda c: _nabla.unflattened(c, c.ndim - 1, x.shape), columns)

    return _jacobian(fun, argnums, has_aux, one)


def jacrev(fun, argnums=None, has_aux=False):
    """The Jacobian in reverse mode: one sweep per element of each tensor of the result, in one batch per tensor."""
    def one(f, x):
        y, pullback = vjp(f, x)
        leaves, form = tree_flatten(y)
        out = []
        for i, leaf in enumerate(leaves):
            def row(ct, i=i):
                cts = [ct if k == i else _zeros_like(v) for k, v in enumerate(leaves)]
                return pullback(form.unflatten(cts))[0]
            rows = vmap(row)(_nabla.unit_vectors(leaf))
            out.append(_nabla.unflattened(rows, 0, leaf.shape))
        return form.unflatten(out)

    return _jacobian(fun, argnums, has_aux, one)


def hessian(fun, argnums=None):
    """The second derivatives: [*result, *argument, *argument], forward over reverse mode."""
    return jacfwd(jacrev(fun, argnums), argnums)


def hvp(fun, primals, tangents):
    """The Hessian of a scalar function of `primals`, a tuple, times `tangents`. The Hessian itself is never made."""
    argnums = tuple(range(len(primals)))
    out = jvp(lambda *x: grad(fun, argnums)(*x), tuple(primals), tuple(tangents))[1]
    return out[0] if len(primals) == 1 else out


__all__ = ["hessian", "hvp", "jacfwd", "jacrev"]
