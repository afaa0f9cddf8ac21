"""Functions whose derivatives or batches the user gives."""

import contextlib
import contextvars
import functools

from .. import _nabla
from .._core import Error, asarray, is_number
from .._trace import Arguments, example_types, name_of, together, trace, trace_like
from ..tree import tree_flatten, tree_structure


_active = contextvars.ContextVar("nabla_active_rules", default=frozenset())


@contextlib.contextmanager
def _entered(rules):
    token = _active.set(_active.get() | {rules})
    try:
        yield
    finally:
        _active.reset(token)


class custom_vjp:
    """A function with a derivative in reverse mode that the user gives.

        @nb.custom_vjp
        def f(x, y): ...
        f.defvjp(forward, backward)

    `forward(*args) -> (out, residuals)` runs in place of f, `backward(residuals, cotangent)` gives a tuple of
    gradients, one per argument; None is a zero. Values of enclosing functions count as constant. `nondiff_argnums` are
    handed to f and forward as they are, and come first in backward. Inside of its rules, f is the plain function.
    """

    def __init__(self, fun, nondiff_argnums=()):
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._forward, self._backward = fun, None, None
        self._static = tuple(nondiff_argnums)

    def defvjp(self, forward, backward):
        """Sets both rules."""
        self._forward, self._backward = forward, backward
        return backward

    @together
    def __call__(self, *args):
        if self in _active.get():
            return self._fun(*args)
        if self._forward is None:
            raise Error(f"custom_vjp: {name_of(self._fun)} has no rule; give both by {name_of(self._fun)}.defvjp")
        fixed = [args[i] for i in self._static]
        free = [a for i, a in enumerate(args) if i not in self._static]

        def whole(values):
            values, inside = iter(values), []
            for i in range(len(args)):
                inside.append(args[i] if i in self._static else next(values))
            return inside

        arguments = Arguments(free)
        f, result = trace_like(lambda *a: self._fun(*whole(a)), arguments)
        kept = {}

        def forward(*a):
            with _entered(self):
                out, residuals = self._forward(*whole(a))
            kept["form"] = tree_structure(residuals)
            if tree_structure(out) != result.treedef:
                raise TypeError(f"custom_vjp: forward of {name_of(self._fun)} returns {tree_structure(out)}, "
                                f"the function {result.treedef}")
            return out, residuals

        fwd, both = trace_like(forward, arguments)
        residuals = both.tensors[len(result.tensors):]
        treedef = both.treedef.children[1]
        others = both.others[result.treedef.num_leaves:]
        places = [p - result.treedef.num_leaves for p in both.places[len(result.tensors):]]

        def backward(*flat):
            leaves = list(others)
            for place, t in zip(places, flat):
                leaves[place] = t
            ct = result.rebuild(flat[len(residuals):])
            with _entered(self):
                gradients = self._backward(*fixed, treedef.unflatten(leaves), ct)
            return self._leaf_gradients(gradients, free, arguments)

        types = example_types(residuals) + example_types(result.tensors)
        bwd, _ = trace(backward, types, lambda params: (params, {}), like=residuals + result.tensors)
        return result.rebuild(_nabla.custom_vjp(f, fwd, bwd, arguments.tensors))

    def _leaf_gradients(self, gradients, free, arguments):
        if not isinstance(gradients, (tuple, list)) or len(gradients) != len(free):
            raise TypeError(f"custom_vjp: backward of {name_of(self._fun)} returns "
                            f"{len(gradients) if isinstance(gradients, (tuple, list)) else type(gradients).__name__} "
                            f"gradients for {len(free)} arguments: return a tuple, one per argument")
        leaves = []
        for g, a in zip(gradients, free):
            count = tree_structure(a).num_leaves
            leaves += [None] * count if g is None else tree_flatten(g)[0]
        if len(leaves) != arguments.treedef.children[0].num_leaves:
            raise TypeError(f"custom_vjp: backward of {name_of(self._fun)} returns gradients of another form")
        out = []
        for place, t in zip(arguments.places, arguments.tensors):
            g = leaves[place]
            g = None if g is None else asarray(g, t.dtype if len(out) in arguments.weak or is_number(g) else None)
            out.append(_nabla.full(t.shape, 0.0, t.dtype) if g is None else g)
        return out


class custom_jvp:
    """A function with a derivative of the user's, in both modes.

        @nb.custom_jvp
        def f(x): ...
        @f.defjvp
        def rule(primals, tangents): return out, tangent

    The tangent must be linear in the tangents: reverse mode transposes the rule. Inside of the rule, f is the plain
    function.
    """

    def __init__(self, fun):
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._rule = fun, None

    def defjvp(self, rule):
        """Sets the rule."""
        self._rule = rule
        return rule

    @together
    def __call__(self, *args):
        if self in _active.get():
            return self._fun(*args)
        if self._rule is None:
            raise Error(f"custom_jvp: {name_of(self._fun)} has no rule; give it by {name_of(self._fun)}.defjvp")
        arguments = Arguments(args)
        n = len(arguments.tensors)
        f, result = trace_like(self._fun, arguments)
        types = example_types(arguments.tensors)
        def rule_of(primals, tangents):
            with _entered(self):
                return self._rule(primals, tangents)

        rule, both = trace(rule_of, types + types, lambda params: (
            (tuple(arguments.rebuild(params[:n])[0]), tuple(arguments.rebuild(params[n:])[0])), {}),
            like=arguments.tensors + arguments.tensors)
        if len(both.tensors) != 2 * len(result.tensors):
            raise TypeError(f"custom_jvp: the rule of {name_of(self._fun)} returns {both.treedef}, not a pair of "
                            "results and tangents")
        return result.rebuild(_nabla.custom_jvp(f, rule, arguments.tensors))


class custom_vmap:
    """A function with a batch rule of the user's: `rule(*args)` is f on a batch of any size, dimension 0 of
    everything.

    What both close over is the same for all examples; where a vmap maps such a value, f itself is batched instead.
    """

    def __init__(self, fun):
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._rule = fun, None

    def def_vmap(self, rule):
        """Sets the rule."""
        self._rule = rule
        return rule

    @together
    def __call__(self, *args):
        if self._rule is None:
            raise Error(f"custom_vmap: {name_of(self._fun)} has no rule; give it by {name_of(self._fun)}.def_vmap")
        arguments = Arguments(args)
        f, result = trace_like(self._fun, arguments)
        size = _nabla.batch_symbol()
        types = [(dtype, (size,) + tuple(shape)) for dtype, shape in example_types(arguments.tensors)]
        rule, _ = trace(self._rule, types, arguments.rebuild)
        return result.rebuild(_nabla.custom_vmap(f, rule, arguments.tensors, size))


__all__ = [
    "custom_jvp", "custom_vjp", "custom_vmap",
]
