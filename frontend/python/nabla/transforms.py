"""Function transforms: derivatives, batches, branches and loops. They nest in any order.

Outside of a compiled function they work at once, on the values at hand; inside of one they become part of it.
"""

import contextlib
import contextvars
import functools

from . import _nabla
from ._core import Error, Tensor, asarray
from ._trace import Arguments, example_types, is_array, name_of, trace, trace_like
from .tree import broadcast_prefix, tree_flatten, tree_map, tree_structure


def _positions(argnums, count, what):
    single = isinstance(argnums, int)
    out = [argnums] if single else list(argnums)
    for n in out:
        if not -count <= n < count:
            raise ValueError(f"{what}: argnums names argument {n}, but the function is called with {count}")
    return [n % count for n in out], single


def _leaf_positions(arguments, argnums):
    """Per wanted argument: the positions of its leaves among the traced tensors."""
    owner, leaf = [], 0
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


def value_and_grad(fun, argnums=0, has_aux=False, *, create_graph=True, realize=True):
    """The value of `fun`, a floating scalar, and its gradients by the arguments `argnums`.

    Returns a function of the same arguments that gives `(value, gradients)`; gradients are shaped like the argument, or
    a tuple of such for several argnums. With `has_aux`, `fun` returns `(value, aux)` and the value is that pair.
    Without `create_graph` the gradients have no derivative themselves. With `realize` they are computed at once, where
    they are not traced; otherwise when somebody looks at them.
    Raises TypeError when an argument is not floating, Error (E0301) when the value is no scalar.
    Source: reverse-mode accumulation (Griewank and Walther, Evaluating Derivatives, 2008, ch. 3).
    """
    return _Gradient(fun, argnums, has_aux, True, create_graph, realize)


def grad(fun, argnums=0, has_aux=False, *, create_graph=True, realize=True):
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
        f, result = trace_like(self._fun, arguments)
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
        value = result.rebuild(out[:len(result.tensors)])
        gradients = self._gradients(arguments, argnums, groups, out[len(result.tensors):])
        gradients = gradients[0] if single else tuple(gradients)
        if self._with_value:
            return value, gradients
        return (gradients, value[1]) if self._has_aux else gradients

    def _gradients(self, arguments, argnums, groups, values):
        out, next_value = [], 0
        for n, group in zip(argnums, groups):
            form = arguments.treedef.children[0].children[n]
            first = sum(c.num_leaves for c in arguments.treedef.children[0].children[:n])
            leaves = [None] * form.num_leaves
            for i in group:
                leaves[arguments.places[i] - first] = values[next_value]
                next_value += 1
            out.append(form.unflatten(leaves))
        return out


def _same_form(what, tree, like):
    leaves, form = tree_flatten(tree)
    wanted = tree_structure(like)
    if form != wanted:
        raise ValueError(f"{what} has the form {form}, expected {wanted}")
    return [asarray(x) for x in leaves]


def vjp(fun, *primals, has_aux=False, create_graph=True):
    """`(out, pullback)` or `(out, pullback, aux)`: `pullback(cotangents)`, shaped like out, gives a tuple of gradients,
    one per primal. It may be called more than once. Without `create_graph` these have no derivative."""
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
        cts = [c if c.dtype == v.dtype else _nabla.emit("convert", [c], {"dtype": v.dtype})[0]
               for c, v in zip(cts, values)]
        gradients = tuple(arguments.rebuild(_nabla.pullback(f, residual, cts, len(arguments.tensors)))[0])
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


def jvp(fun, primals, tangents, *, has_aux=False, create_graph=True):
    """`(out, tangent)` or `(out, tangent, aux)`: the value at `primals` and the derivative in the direction `tangents`,
    a tuple shaped like them. Without `create_graph` the tangent has no derivative."""
    arguments = Arguments(tuple(primals))
    moved = _same_form("jvp: tangents", tuple(tangents), tuple(primals))
    moved = [t if t.dtype == p.dtype else _nabla.emit("convert", [t], {"dtype": p.dtype})[0]
             for t, p in zip(moved, arguments.tensors)]
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
    out, pullback = vjp(fun, *primals)
    somewhere = tree_map(_zeros_like, out)
    _, transpose = vjp(lambda ct: pullback(ct), somewhere)

    def f_jvp(*tangents):
        return transpose(tangents)[0]

    return out, f_jvp


def linear_transpose(fun, *primals):
    """The transpose of a linear function: takes a cotangent shaped like its result, gives a tuple shaped like primals."""
    return vjp(fun, *primals)[1]


# ---- Batches


def _is_axis(x):
    return x is None or isinstance(x, int)


def vmap(fun, in_axes=0, out_axes=0, axis_size=None, spmd_axis_name=None, mesh=None):
    """`fun` on every example of a batch at once.

    `in_axes` and `out_axes`: an int, None (not mapped), or a prefix of the tree of arguments or results with such at its
    leaves. `axis_size` is needed where nothing is mapped. `spmd_axis_name` and `mesh` come with sharding: anything but
    None raises Error (E0204).
    """
    if mesh is not None:
        raise NotImplementedError("vmap: meshes come with sharding, which is not there yet: leave mesh out")

    @functools.wraps(fun)
    def mapped(*args, **kwargs):
        arguments = Arguments(args, kwargs)
        axes = _axes_of(in_axes, args, kwargs)
        axes = [axes[place] for place in arguments.places]
        spmd = spmd_axis_name or ""
        types = _nabla.vmap_examples(axes, axis_size, spmd, arguments.tensors)
        f, result = trace(fun, types, arguments.rebuild)
        full = result.rebuild(result.tensors)
        prefix = broadcast_prefix(out_axes, full, _is_axis)
        prefix = [prefix[place] for place in result.places]
        out = _nabla.vmap_call(f, axes, prefix, axis_size, spmd, arguments.tensors)
        return result.rebuild(out)

    return mapped


def _axes_of(in_axes, args, kwargs):
    if isinstance(in_axes, (tuple, list)):
        if len(in_axes) != len(args):
            raise ValueError(f"vmap: in_axes has {len(in_axes)} elements for {len(args)} arguments")
        out = []
        for axes, a in zip(in_axes, args):
            out += broadcast_prefix(axes, a, _is_axis)
    else:
        out = broadcast_prefix(in_axes, tuple(args), _is_axis)
    return out + broadcast_prefix(0, kwargs, _is_axis)


# ---- Jacobians


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
    return asarray(args[n])


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


# ---- What reverse mode keeps


def checkpoint(fun=None, *, policy=None, names=()):
    """`fun`, of which reverse mode keeps the arguments and what `policy` names, and computes the rest again.

    policy: None or "nothing"; "dots" keeps results of matrix products and convolutions; "names" keeps values that
    `checkpoint_name` gave one of `names`.
    """
    if fun is None:
        return functools.partial(checkpoint, policy=policy, names=names)
    policy = policy or ("names" if names else "nothing")

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        arguments = Arguments(args, kwargs)
        f, result = trace_like(fun, arguments)
        return result.rebuild(_nabla.remat(f, arguments.tensors, policy, ",".join(names)))

    return wrapped


remat = checkpoint


def checkpoint_name(x, name):
    """x, under a name that policies of `checkpoint` know."""
    return _nabla.emit("checkpoint_name", [asarray(x)], {"name": name})[0]


def stop_gradient(x):
    """x, or the tensors of a tree, without a derivative."""
    return tree_map(lambda t: _nabla.emit("stop_gradient", [asarray(t)], {})[0] if is_array(t) else t, x)


def autocast(fun, dtype="bfloat16"):
    """`fun` with its matrix products and convolutions in `dtype`; its arguments and results keep their types."""
    from ._core import dtype_of

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        arguments = Arguments(args, kwargs)
        f, result = trace_like(fun, arguments)
        return result.rebuild(_nabla.autocast(f, arguments.tensors, dtype_of(dtype)))

    return wrapped


# ---- Rules of the user's


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

    `forward(*args) -> (out, residuals)` runs in place of f, `backward(residuals, cotangent)` gives a tuple of gradients,
    one per argument; None is a zero. Values of enclosing functions count as constant. `nondiff_argnums` are handed to
    f and forward as they are, and come first in backward. Inside of its rules, f is the plain function.
    """

    def __init__(self, fun, nondiff_argnums=()):
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._forward, self._backward = fun, None, None
        self._static = tuple(nondiff_argnums)

    def defvjp(self, forward, backward):
        """Sets both rules."""
        self._forward, self._backward = forward, backward
        return backward

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
        bwd, _ = trace(backward, types, lambda params: (params, {}))
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
            out.append(_nabla.full(t.shape, 0.0, t.dtype) if g is None else asarray(g))
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
            (tuple(arguments.rebuild(params[:n])[0]), tuple(arguments.rebuild(params[n:])[0])), {}))
        if len(both.tensors) != 2 * len(result.tensors):
            raise TypeError(f"custom_jvp: the rule of {name_of(self._fun)} returns {both.treedef}, not a pair of results "
                            "and tangents")
        return result.rebuild(_nabla.custom_jvp(f, rule, arguments.tensors))


class custom_vmap:
    """A function with a batch rule of the user's: `rule(*args)` is f on a batch of any size, dimension 0 of everything."""

    def __init__(self, fun):
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._rule = fun, None

    def def_vmap(self, rule):
        """Sets the rule."""
        self._rule = rule
        return rule

    def __call__(self, *args):
        if self._rule is None:
            raise Error(f"custom_vmap: {name_of(self._fun)} has no rule; give it by {name_of(self._fun)}.def_vmap")
        arguments = Arguments(args)
        f, result = trace_like(self._fun, arguments)
        size = _nabla.batch_symbol()
        types = [(dtype, (size,) + tuple(shape)) for dtype, shape in example_types(arguments.tensors)]
        rule, _ = trace(self._rule, types, arguments.rebuild)
        return result.rebuild(_nabla.custom_vmap(f, rule, arguments.tensors, size))


# ---- Branches and loops: bodies are traced once, whatever the number of iterations


def _branches(what, functions, arguments):
    traced = [trace_like(f, arguments) for f in functions]
    first = traced[0][1]
    for _, r in traced[1:]:
        if r.treedef != first.treedef or example_types(r.tensors) != example_types(first.tensors):
            raise TypeError(f"{what}: branches return {_described(first)} and {_described(r)}; both must be alike")
    return [f for f, _ in traced], first


def _described(result):
    return f"{result.treedef} of " + ", ".join(t.type_str() for t in result.tensors)


def cond(pred, true_fn, false_fn, *operands):
    """true_fn(*operands) where `pred`, a bool scalar, holds, else false_fn(*operands). Only one of them runs."""
    pred = asarray(pred)
    arguments = Arguments(operands)
    (then, otherwise), result = _branches("cond", [true_fn, false_fn], arguments)
    return result.rebuild(_nabla.cond(pred, then, otherwise, arguments.tensors))


def switch(index, branches, *operands):
    """branches[index](*operands); an index out of range runs the first or the last one."""
    if not branches:
        raise ValueError("switch: no branches")
    arguments = Arguments(operands)
    functions, result = _branches("switch", list(branches), arguments)
    return result.rebuild(_nabla.switch(asarray(index), functions, arguments.tensors))


def while_loop(cond_fun, body_fun, init_val, *, trip_count=None):
    """body_fun(state) again and again while cond_fun(state) holds. The state keeps its types.

    With `trip_count` it runs exactly so often and has a derivative in reverse mode; without, grad is an error (E0301).
    """
    arguments = Arguments((init_val,))
    test, flag = trace_like(cond_fun, arguments)
    if len(flag.tensors) != 1:
        raise TypeError(f"while_loop: the condition returns {flag.treedef}, not one bool")
    body, result = trace_like(body_fun, arguments)
    _check_carry("while_loop", arguments, result)
    out = _nabla.while_loop(test, body, arguments.tensors, -1 if trip_count is None else trip_count)
    return arguments.rebuild(out)[0][0]


def _check_carry(what, arguments, result, first=0):
    wanted = arguments.treedef.children[0].children[first]
    if result.treedef != wanted:
        raise TypeError(f"{what}: the state comes as {wanted} and leaves as {result.treedef}")
    for a, b in zip(arguments.tensors, result.tensors):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise TypeError(f"{what}: a part of the state comes as {a.type_str()} and leaves as {b.type_str()}")


def fori_loop(lower, upper, body_fun, init_val):
    """body_fun(i, state) for i = lower, ..., upper - 1, an int32 scalar. Static bounds have a reverse-mode derivative."""
    static = isinstance(lower, int) and isinstance(upper, int)
    start = (asarray(lower, "int32"), init_val)
    end = upper if static else asarray(upper, "int32")

    def step(state):
        i, value = state
        return (_nabla.emit("add", [i, 1], {})[0], body_fun(i, value))

    out = while_loop(lambda s: _nabla.emit("lt", [s[0], end], {})[0], step, start,
                     trip_count=max(upper - lower, 0) if static else None)
    return out[1]


def scan(f, init, xs=None, length=None, reverse=False):
    """`f(state, x) -> (state, y)` for every slice of the trees `xs` along their first dimension, as one loop.

    Returns the last state and the ys stacked. `length` is needed without sequences.
    """
    carry = Arguments((init,))
    sequences = Arguments((xs,))
    for t in sequences.tensors:
        if t.ndim == 0:
            raise ValueError("scan: a sequence is a scalar")
    if not sequences.tensors and length is None:
        raise ValueError("scan: neither a sequence nor a length is given")
    sizes = {t.shape[0] for t in sequences.tensors} | ({length} if length is not None else set())
    if len(sizes) > 1:
        raise ValueError("scan: the sequences and length differ, " + ", ".join(str(s) for s in sizes))
    types = example_types(carry.tensors) + [(t.dtype, t.shape[1:]) for t in sequences.tensors]
    n = len(carry.tensors)

    def build(params):
        return (carry.rebuild(params[:n])[0][0], sequences.rebuild(params[n:])[0][0]), {}

    body, result = trace(f, types, build)
    if result.treedef.kind not in (tuple, list) or len(result.treedef.children) != 2:
        raise TypeError(f"scan: {name_of(f)} returns {result.treedef}, not a pair of state and y")
    state_form = result.treedef.children[0]
    wanted = carry.treedef.children[0].children[0]
    if state_form != wanted:
        raise TypeError(f"scan: the state comes as {wanted} and leaves as {state_form}")
    for a, b in zip(carry.tensors, result.tensors):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise TypeError(f"scan: a part of the state comes as {a.type_str()} and leaves as {b.type_str()}")
    out = _nabla.scan(body, carry.tensors, sequences.tensors, length, reverse)
    return result.rebuild(out)


def associative_scan(fn, elems, reverse=False, axis=0):
    """Prefixes of `elems` under an associative `fn`, along an axis, in a logarithmic number of steps.

    Source: Blelloch, Prefix Sums and Their Applications (1990); here the form of Hillis and Steele.
    """
    leaves, form = tree_flatten(elems)
    leaves = [asarray(x) for x in leaves]
    n = leaves[0].shape[axis]

    def flip(x):
        return _nabla.emit("reverse", [x], {"axes": [axis % x.ndim]})[0]

    if reverse:
        leaves = [flip(x) for x in leaves]
    step = 1
    while step < n:
        low = form.unflatten([_nabla.slice_axis(x, axis, 0, n - step) for x in leaves])
        high = form.unflatten([_nabla.slice_axis(x, axis, step, n) for x in leaves])
        joined = [asarray(x) for x in tree_flatten(fn(low, high))[0]]
        leaves = [_nabla.emit("concatenate", [_nabla.slice_axis(x, axis, 0, step), y], {"axis": axis % x.ndim})[0]
                  for x, y in zip(leaves, joined)]
        step *= 2
    if reverse:
        leaves = [flip(x) for x in leaves]
    return form.unflatten(leaves)


__all__ = [
    "associative_scan", "autocast", "checkpoint", "checkpoint_name", "cond", "custom_jvp", "custom_vjp", "custom_vmap",
    "fori_loop", "grad", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "linear_transpose", "linearize", "remat", "scan",
    "stop_gradient", "switch", "value_and_grad", "vjp", "vmap", "while_loop",
]
_ = Tensor
