"""Derivatives of functions of trees of tensors: reverse and forward mode."""

import functools

from .. import _nabla
from .._core import Tensor, astype, weak_floats
from .._trace import Arguments, name_of, together, trace_like
from ..tree import tree_flatten, tree_map, tree_structure
from .memory import stop_gradient


def _positions(argnums, count, what):
    single = isinstance(argnums, int)
    out = [argnums] if single else list(argnums)
    for n in out:
        if not -count <= n < count:
            raise ValueError(f"{what}: argnums names argument {n}, but the function is called with {count}")
    return [n % count for n in out], single


def _leaf_positions(arguments, argnums):
    """Per wanted argument: the positions of its leaves among the traced tensors."""
    owner = []
    for index, form in enumerate(arguments.treedef.children[0].children):
        owner += [index] * form.num_leaves
    out = []
    for n in argnums:
        out.append([i for i, place in enumerate(arguments.places) if place < len(owner) and owner[place] == n])
    return out


def _check_differentiable(arguments, groups, argnums, fun):
    for n, group in zip(argnums, groups):
        for i in group:
            t = arguments.tensors[i]
            if not t.dtype.is_float():
                raise TypeError(f"grad of {name_of(fun)}: argument {n} is {t.type_str()}, which has no derivative: "
                                "pass floating tensors, or leave it out of argnums")


def value_and_grad(fun, argnums=0, create_graph=True, realize=True, *, has_aux=False):
    """The value of `fun`, a floating scalar or tensor of one element, and its gradients by the arguments `argnums`.

    Returns a function of the same arguments that gives `(value, gradients)`; gradients are shaped like the argument, or
    a tuple of such for several argnums. With `has_aux`, `fun` returns `(value, aux)` and the value is that pair.
    A gradient by what is laid out over a mesh lies as that, outside of compiled functions and where it leaves one.
    Without `create_graph` the gradients have no derivative themselves. With `realize` they are computed at once, where
    they are not traced; otherwise when somebody looks at them.
    Raises TypeError when an argument is not floating, Error (E0301) when the value is no scalar.
    Source: reverse-mode accumulation (Griewank and Walther, Evaluating Derivatives, 2008, ch. 3).
    """
    return _Gradient(fun, argnums, has_aux, True, create_graph, realize)


def grad(fun, argnums=0, create_graph=True, realize=True, *, has_aux=False):
    """As value_and_grad, without the value: gradients, or `(gradients, aux)`."""
    return _Gradient(fun, argnums, has_aux, False, create_graph, realize)


class _Gradient:
    def __init__(self, fun, argnums, has_aux, with_value, create_graph, realize):
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._argnums, self._has_aux, self._with_value = fun, argnums, has_aux, with_value
        self._create_graph, self._realize = create_graph, realize

    def __call__(self, *args, **kwargs):
        argnums, single = _positions(self._argnums, len(args), "grad")
        arguments = Arguments(args, kwargs)
        groups = _leaf_positions(arguments, argnums)
        _check_differentiable(arguments, groups, argnums, self._fun)
        shape = []
        f, result = trace_like(self._with_scalar(shape), arguments)
        form = result.treedef
        if self._has_aux and (form.kind not in (tuple, list) or len(form.children) != 2):
            raise TypeError(f"grad with has_aux: {name_of(self._fun)} returns {form}, not a pair of value and aux")
        first = form.children[0] if self._has_aux else form
        if first.num_leaves != 1 or not result.tensors:
            raise TypeError(f"grad: {name_of(self._fun)} returns {form}, not one scalar"
                            + ("" if self._has_aux else "; has_aux=True is for more than that"))
        wrt = [i for group in groups for i in group]
        out = _nabla.call("value_and_grad", f, arguments.tensors, wrt)
        if not self._create_graph:
            out = [stop_gradient(t) for t in out]
        if self._realize and not any(t.is_traced for t in out):
            _nabla.realize(out)
        if shape:
            out[0] = _nabla.emit("reshape", [out[0]], {"shape": list(shape[0])})[0]
        value = result.rebuild(out[:len(result.tensors)])
        gradients = self._gradients(arguments, argnums, groups, out[len(result.tensors):])
        gradients = gradients[0] if single else tuple(gradients)
        if self._with_value:
            return value, gradients
        return (gradients, value[1]) if self._has_aux else gradients

    def _with_scalar(self, shape):
        """The function with a value of one element as a scalar; `shape` gets what it was."""
        @functools.wraps(self._fun)
        def fun(*args, **kwargs):
            out = self._fun(*args, **kwargs)
            pair = self._has_aux and type(out) in (tuple, list) and len(out) == 2
            value = out[0] if pair else out
            if not isinstance(value, Tensor) or value.ndim == 0 or any(n != 1 for n in value.shape):
                return out
            shape.append(value.shape)
            value = _nabla.emit("reshape", [value], {"shape": []})[0]
            return (value, out[1]) if pair else value

        return fun

    def _gradients(self, arguments, argnums, groups, values):
        out, next_value = [], 0
        for n, group in zip(argnums, groups):
            form = arguments.treedef.children[0].children[n]
            first = sum(c.num_leaves for c in arguments.treedef.children[0].children[:n])
            leaves = [None] * form.num_leaves
            for i in group:
                leaves[arguments.places[i] - first] = arguments.strong(i, values[next_value])
                next_value += 1
            out.append(form.unflatten(leaves))
        return out


def _same_form(what, tree, like):
    leaves, form = tree_flatten(tree)
    wanted = tree_structure(like)
    if form != wanted:
        raise ValueError(f"{what} has the form {form}, expected {wanted}")
    return [weak_floats(x) for x in leaves]


def vjp(fun, *primals, has_aux=False, create_graph=True):
    """`(out, pullback)` or `(out, pullback, aux)`: `pullback(cotangents)`, shaped like out, gives a tuple of gradients,
    one per primal. It may be called more than once. Without `create_graph` these have no derivative."""
    return _vjp(fun, primals, has_aux, create_graph, Arguments.rebuild_results)


def _vjp(fun, primals, has_aux, create_graph, rebuilt):
    """As vjp. `rebuilt(arguments, gradients)` gives the gradients their form."""
    arguments = Arguments(primals)
    f, result, split = _with_aux(fun, arguments, has_aux)
    out = _nabla.call("vjp_forward", f, arguments.tensors)
    residual, values = out[-1], out[:-1]
    value, aux = split(result.rebuild(values))

    def pullback(cotangents):
        cts = _same_form("the cotangent", cotangents, value)
        if has_aux:
            cts = cts + [_zeros_like(v) for v in values[len(cts):]]
        for c, v in zip(cts, values):
            if c.shape != v.shape:
                raise ValueError(f"vjp: a cotangent is {c.type_str()}, the result {v.type_str()}")
        cts = [c if c.dtype == v.dtype else astype(c, v.dtype) for c, v in zip(cts, values)]
        found = _nabla.pullback(f, residual, cts, len(arguments.tensors))
        gradients = tuple(rebuilt(arguments, found)[0])
        return gradients if create_graph else stop_gradient(gradients)

    return (value, pullback, aux) if has_aux else (value, pullback)


def _zeros_like(v):
    return _nabla.full(v.shape, 0.0, v.dtype)


def _with_aux(fun, arguments, has_aux):
    f, result = trace_like(fun, arguments)
    if not has_aux:
        return f, result, lambda tree: (tree, None)
    if result.treedef.kind not in (tuple, list) or len(result.treedef.children) != 2:
        raise TypeError(f"has_aux: {name_of(fun)} returns {result.treedef}, not a pair of value and aux")
    return f, result, lambda tree: (tree[0], tree[1])


@together
def jvp(fun, primals, tangents, *, has_aux=False, create_graph=True):
    """`(out, tangent)` or `(out, tangent, aux)`: the value at `primals` and the derivative in the direction `tangents`,
    a tuple shaped like them. Without `create_graph` the tangent has no derivative."""
    arguments = Arguments(tuple(primals))
    moved = _same_form("jvp: tangents", tuple(tangents), tuple(primals))
    moved = [t if t.dtype == p.dtype else astype(t, p.dtype) for t, p in zip(moved, arguments.tensors)]
    f, result, split = _with_aux(fun, arguments, has_aux)
    out = _nabla.jvp(f, arguments.tensors, moved)
    n = len(result.tensors)
    value, aux = split(result.rebuild(out[:n]))
    tangent, _ = split(result.rebuild(out[n:] if create_graph else [stop_gradient(t) for t in out[n:]]))
    return (value, tangent, aux) if has_aux else (value, tangent)


def linearize(fun, *primals):
    """`(out, f_jvp)`: the value, and the derivative there as a function of tangents, computed once.

    The derivative is the transpose of the pullback, which is linear.
    """
    # Gradients by Python floats stay float64: their cotangents are the tangents.
    out, pullback = _vjp(fun, primals, False, True, Arguments.in_place)
    somewhere = tree_map(_zeros_like, out)
    _, transpose = vjp(lambda ct: pullback(ct), somewhere)

    def f_jvp(*tangents):
        return transpose(tangents)[0]

    return out, f_jvp


def linear_transpose(fun, *primals):
    """The transpose of a linear function: takes a cotangent shaped like its result, gives a tuple shaped like
    primals."""
    return vjp(fun, *primals)[1]


__all__ = [
    "grad", "jvp", "linear_transpose", "linearize", "value_and_grad", "vjp",
]
