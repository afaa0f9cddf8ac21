"""Tracing a Python function of trees into one function of the IR."""

import contextvars
import functools
import inspect

from . import _nabla
from ._core import Dim, DType, Error, Tensor, asarray, default_float, weak
from .tree import broadcast_prefix, is_array, leaves_with_path, tree_flatten

_together = contextvars.ContextVar("nabla_together", default=False)


class Arguments:
    """The leaves of a call. Arrays and numbers (`tree.is_array`) are traced; other leaves are part of the program."""

    __slots__ = ("treedef", "tensors", "places", "others", "weak")

    def __init__(self, args, kwargs=None, weak_floats=True, weak_ints=False):
        """With `weak_floats`, Python floats are float64 here, and weak tensors in what `rebuild` gives: `weak` numbers
        them among the tensors. Without, they have the default dtype. With `weak_ints`, Python ints are int64 and weak
        in the same way."""
        leaves, self.treedef = tree_flatten((tuple(args), kwargs or {}))
        self.tensors, self.places, self.others, self.weak = [], [], leaves, []
        for i, leaf in enumerate(leaves):
            if is_array(leaf):
                exact = _exact(leaf, weak_ints) if weak_floats else None
                if exact is not None:
                    self.weak.append(len(self.tensors))
                self.places.append(i)
                self.tensors.append(asarray(leaf) if exact is None else exact)
                leaves[i] = None

    def names(self, fun):
        """The caller's names of the traced leaves: "x", "params.w", for arguments without a name "argument 2.w"."""
        own = self.parameters(fun)
        paths = self.treedef.children[0].leaf_paths() + self.treedef.children[1].leaf_paths()
        positional = self.treedef.children[0].num_leaves
        out = []
        for place in self.places:
            head, dot, rest = paths[place].partition(".")
            if place < positional:
                head = own[int(head)] if int(head) < len(own) else f"argument {head}"
            out.append(head + dot + rest)
        return out

    @staticmethod
    def parameters(fun):
        """The names of the positional parameters of a function, as far as it tells them."""
        try:
            signature = inspect.signature(fun).parameters.values()
        except (TypeError, ValueError):
            return []
        return [p.name for p in signature if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    def rebuild(self, tensors):
        """`(args, kwargs)` with these tensors, of the types of `self.tensors`, in place of the traced ones."""
        return self.in_place([weak(t) if i in self.weak else t for i, t in enumerate(tensors)])

    def rebuild_results(self, tensors):
        """As rebuild, with what was computed for the traced ones, such as gradients: none of them is weak."""
        return self.in_place([self.strong(i, t) for i, t in enumerate(tensors)])

    def strong(self, i, t):
        """What was computed for traced leaf i, in the dtype that the function saw there."""
        return asarray(t, default_float()) if i in self.weak else t

    def in_place(self, tensors):
        """`(args, kwargs)` with these tensors as they are in place of the traced ones."""
        leaves = list(self.others)
        for place, t in zip(self.places, tensors):
            leaves[place] = t
        return self.treedef.unflatten(leaves)


def _exact(leaf, ints):
    """Returns the float64 tensor of a Python float or of a weak tensor; with `ints`, the int64 tensor of a Python int.
    Returns None for other leaves."""
    if type(leaf) is float or ints and type(leaf) is int:
        return asarray(leaf, DType.float64 if type(leaf) is float else DType.int64)
    return leaf._exact if isinstance(leaf, Tensor) else None


def name_of(fun):
    """A name for the function in printed IR."""
    name = getattr(fun, "__name__", None) or type(fun).__name__
    return "fn" if name == "<lambda>" else "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def _variables(fun):
    """`(name, value)` of what the body of a function sees besides its arguments."""
    fun = inspect.unwrap(fun)
    if inspect.ismethod(fun):
        yield "self", fun.__self__
        fun = fun.__func__
    code = getattr(fun, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, fun.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    first = code.co_argcount - len(fun.__defaults__ or ())
    yield from zip(code.co_varnames[first:], fun.__defaults__ or ())
    yield from (fun.__kwdefaults__ or {}).items()
    yield from ((name, fun.__globals__[name]) for name in code.co_names if name in fun.__globals__)


def names_of_captures(fun, captures):
    """What reports and errors call the tensors that a function closes over: "closure model.layers.0.weight", and
    "closure 0" where none of its variables has them."""
    known = [(f"{name}.{path}" if path else name, leaf) for name, value in _variables(fun)
             for path, leaf in leaves_with_path(value) if isinstance(leaf, Tensor)]
    out = []
    for i, capture in enumerate(captures):
        name = next((n for n, leaf in known if leaf._same(capture)), str(i))
        name = f"closure {name}"
        out.append(f"closure {i}" if name in out else name)
    return out


def example_types(tensors):
    """`(dtype, shape)` of each."""
    return [(t.dtype, t.shape) for t in tensors]


def type_text(dtype, shape):
    """A type as the IR writes it: f32[batch,3]."""
    name = dtype.name.replace("float", "f").replace("uint", "u").replace("int", "i")
    return f"{name}[{','.join(str(n) for n in shape)}]"


def together(f):
    """`f`, which traces functions and makes the op that names them. Where they are of another mesh than what waits
    outside of traced functions, that is left alone, and `f` is called again: an op's functions are of one module."""
    @functools.wraps(f)
    def made(*args, **kwargs):
        if _together.get():
            return f(*args, **kwargs)
        token = _together.set(True)
        try:
            try:
                return f(*args, **kwargs)
            except Error as e:
                if not getattr(e, "_of_another_mesh", False) or not _nabla.leave_mesh():
                    raise
            return f(*args, **kwargs)
        finally:
            _together.reset(token)

    return made


@together
def trace(fun, types, build, names=None, like=None, without=None, of_batch=False, called=None):
    """Runs `fun` on parameters of these types: `build(parameters) -> (args, kwargs)`. `like`: a tensor per parameter,
    whose layout over a mesh it has, too. `without`: for each of `like` the dimension that the parameter lacks, or None.
    `of_batch`: the parameters are one example of a batch. `called`: what errors call the parameters.

    Returns the function, and the tree that `fun` returned as `Result`.
    """
    enter_mesh_of(like or [])
    t = _nabla.Trace(name_of(fun))
    try:
        if of_batch:
            t.enter_batch()
        params = [t.param(names[i] if names else "", dtype, shape, like[i] if like else None,
                          without[i] if without is not None else None, called[i] if called else "")
                  for i, (dtype, shape) in enumerate(types)]
        args, kwargs = build(params)
        result = Result(fun(*args, **kwargs), fun)
        return t.finish(result.tensors), result
    finally:
        t.cancel()


class Result:
    """What a traced function returned: tensors, and the form around them. `given` has the leaves of the tensors as they
    were returned: Python numbers are numbers there."""

    __slots__ = ("treedef", "tensors", "places", "others", "given")

    def __init__(self, tree, fun):
        leaves, self.treedef = tree_flatten(tree)
        self.tensors, self.places, self.others, self.given = [], [], leaves, []
        for i, leaf in enumerate(leaves):
            if is_array(leaf) or isinstance(leaf, Dim):
                self.places.append(i)
                self.given.append(leaf)
                self.tensors.append(asarray(leaf))
                leaves[i] = None
            elif callable(leaf) or not isinstance(leaf, (str, bytes, type(None))):
                raise TypeError(f"{name_of(fun)} returns a {type(leaf).__name__}, which is neither a tensor nor a "
                                "container; register_pytree_node makes containers")

    def rebuild(self, tensors):
        """The tree with other tensors."""
        leaves = list(self.others)
        for place, t in zip(self.places, tensors):
            leaves[place] = t
        return self.treedef.unflatten(leaves)


def per_leaf(what, prefix, tree, is_leaf, code, whole):
    """As broadcast_prefix, of what a user gives for a tree of `whole`, arguments or results. Raises Error of this code
    where it does not fit, which begins with `what`."""
    wrong = None
    try:
        return broadcast_prefix(prefix, tree, is_leaf)
    except ValueError as e:
        wrong = str(e)
    _nabla.fail(code, f"{what}: {wrong}", f"one is for all {whole}, and a tree of them begins as that of the {whole}")


def trace_like(fun, arguments, tensors=None):
    """`fun` traced on arguments like these."""
    like = arguments.tensors if tensors is None else tensors
    return trace(fun, example_types(like), arguments.rebuild, like=like)


def enter_mesh_of(tensors):
    """Makes ready for a function of these tensors: outside of traced functions, what waits on another mesh is
    computed."""
    for t in tensors:
        placement = _nabla.placement(t)
        if placement is not None:
            return _nabla.enter_mesh(placement[0])


__all__ = ["Arguments", "Error", "Result", "enter_mesh_of", "example_types", "name_of", "names_of_captures", "per_leaf",
           "together", "trace", "trace_like", "type_text"]
