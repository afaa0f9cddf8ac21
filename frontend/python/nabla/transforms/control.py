"""Branches and loops. Bodies are traced once, whatever the number of iterations, and once more if Python numbers in the
initial state take the dtypes of what the body returns."""

import functools

from .. import _nabla
from .._core import Dim, DType, asarray, astype, is_weak, promote_types, result_type
from .._trace import Arguments, enter_mesh_of, example_types, name_of, together, trace, trace_like
from ..ops._common import along, bounds_of, cut, places_in
from ..tree import difference, is_array, tree_flatten


def _branches(what, selector, functions, arguments):
    enter_mesh_of([selector, *arguments.tensors])
    traced = [trace_like(f, arguments) for f in functions]
    if _differ([r for _, r in traced]):
        wanted = [result_type(*leaves) for leaves in zip(*[r.given for _, r in traced])]
        traced = [trace_like(_with_numbers_as(f, wanted), arguments) for f in functions]
    first = traced[0][1]
    for _, r in traced[1:]:
        if r.treedef != first.treedef or example_types(r.tensors) != example_types(first.tensors):
            raise TypeError(f"{what}: the branches' results must be alike: " + _unlike(first, r))
    return [f for f, _ in traced], first


def _differ(results):
    """Whether the results of branches have different dtypes, and some of them are Python numbers."""
    first = results[0]
    alike = all(r.treedef == first.treedef and len(r.given) == len(first.given) for r in results)
    return alike and any(is_weak(x) for r in results for x in r.given) and any(
        a.dtype != b.dtype for r in results for a, b in zip(r.tensors, first.tensors))


def _with_numbers_as(f, dtypes):
    """`f`, which returns tensors of these dtypes in place of Python numbers and weak tensors. The dtypes are those of
    the leaves that are arrays or numbers, in order. Numbers whose kind does not fit, such as 0.5 for int32, stay."""
    @functools.wraps(f, updated=())
    def converted(*args, **kwargs):
        leaves, form = tree_flatten(f(*args, **kwargs))
        places = [i for i, leaf in enumerate(leaves) if is_array(leaf) or isinstance(leaf, Dim)]
        for i, dtype in zip(places, dtypes):
            if is_weak(leaves[i]) and promote_types(dtype, result_type(leaves[i])) == dtype:
                leaves[i] = asarray(leaves[i], dtype)
        return form.unflatten(leaves)

    converted.__name__ = name_of(f)
    return converted


def _unlike(a, b):
    """Where two results differ."""
    if a.treedef != b.treedef:
        return difference(a.treedef, b.treedef)
    paths = a.treedef.leaf_paths()
    return next(f"{paths[place] or 'the result'} is {x.type_str()} and {y.type_str()}"
                for place, x, y in zip(a.places, a.tensors, b.tensors)
                if x.shape != y.shape or x.dtype != y.dtype)


@together
def cond(pred, true_fn, false_fn, *operands):
    """true_fn(*operands) where `pred`, a scalar, is true (a number: not 0), else false_fn(*operands). Only one of them
    runs."""
    pred = asarray(pred)
    if pred.dtype != DType.bool:
        pred = _nabla.emit("ne", [pred, 0], {})[0]
    arguments = Arguments(operands)
    (then, otherwise), result = _branches("cond", pred, [true_fn, false_fn], arguments)
    return result.rebuild(_nabla.cond(pred, then, otherwise, arguments.tensors))


@together
def switch(index, branches, *operands):
    """branches[index](*operands), for an integer scalar of any dtype; an index out of range runs the first or the last
    one."""
    if not branches:
        raise ValueError("switch: no branches")
    index, arguments = _index(index, len(branches)), Arguments(operands)
    functions, result = _branches("switch", index, list(branches), arguments)
    return result.rebuild(_nabla.switch(index, functions, arguments.tensors))


def _index(index, count):
    """A branch's number as int32, from 0 to count - 1."""
    index = asarray(index)
    if index.dtype == DType.int32:
        return index
    if index.dtype.is_float():
        raise TypeError(f"switch: the index is {index.type_str()}, expected an integer scalar")
    if index.dtype.itemsize < 4:
        return astype(index, DType.int32)
    index = _nabla.emit("minimum", [_nabla.emit("maximum", [index, 0], {})[0], count - 1], {})[0]
    return astype(index, DType.int32)


@together
def while_loop(cond_fn, body_fn, init_val, *, trip_count=None):
    """body_fn(state) again and again while cond_fn(state) holds. The state keeps its types. Python numbers in the
    initial state take the dtypes that the body gives them: 0 becomes a float32 if the body adds 0.5 to it.

    With `trip_count` it runs exactly so often and has a derivative in reverse mode; without, grad is an error (E0301).
    """
    init_val = _settled(init_val, lambda state: trace_like(body_fn, state)[1], lambda result: result.treedef)
    arguments = Arguments((init_val,), weak_floats=False)
    body_fn = _with_numbers_as(body_fn, [t.dtype for t in arguments.tensors])
    test, flag = trace_like(cond_fn, arguments)
    if len(flag.tensors) != 1:
        raise TypeError(f"while_loop: the condition returns {flag.treedef}, not one bool")
    body, result = trace_like(body_fn, arguments)
    _check_carry("while_loop", arguments, result, result.treedef)
    out = _nabla.while_loop(test, body, arguments.tensors, -1 if trip_count is None else trip_count)
    return arguments.rebuild(out)[0][0]


def _settled(init, traced, form_of):
    """The initial state of a loop, whose Python numbers and weak tensors are tensors of the dtypes that the body gives
    them. `traced(arguments)` traces the body, and `form_of(result)` is the form of the state that it returns."""
    leaves, form = tree_flatten(init)
    init = form.unflatten([asarray(leaf) if isinstance(leaf, Dim) else leaf for leaf in leaves])
    state = Arguments((init,), weak_ints=True)
    if not state.weak:
        return init
    result = traced(state)
    leaves, form = tree_flatten(init)
    if form_of(result) != form:
        return init
    for k in state.weak:
        place = state.places[k]
        leaves[place] = asarray(leaves[place], result_type(leaves[place], result.given[k]))
    return form.unflatten(leaves)


def _check_carry(what, arguments, result, form, first=0):
    wanted = arguments.treedef.children[0].children[first]
    if form != wanted:
        raise TypeError(f"{what}: the state comes as {wanted} and leaves as {form}: {difference(wanted, form)}")
    paths = wanted.leaf_paths()
    for place, a, b in zip(arguments.places, arguments.tensors, result.tensors):
        if a.shape != b.shape or a.dtype != b.dtype:
            part = f"`{paths[place]}` of the state" if paths[place] else "the state"
            raise TypeError(f"{what}: {part} comes as {a.type_str()} and leaves as {b.type_str()}; a loop keeps its "
                            "types" + (f": convert it, x.astype({str(a.dtype).rpartition('.')[2]!r})"
                                       if a.shape == b.shape else ""))


def fori_loop(lower, upper, body_fun, init_val):
    """body_fun(i, state) for i = lower, ..., upper - 1, an int32 scalar. Static bounds have a reverse-mode
    derivative."""
    static = isinstance(lower, int) and isinstance(upper, int)
    start = (asarray(lower, "int32"), init_val)
    end = upper if static else asarray(upper, "int32")

    def step(state):
        i, value = state
        return (_nabla.emit("add", [i, 1], {})[0], body_fun(i, value))

    out = while_loop(lambda s: _nabla.emit("lt", [s[0], end], {})[0], step, start,
                     trip_count=max(upper - lower, 0) if static else None)
    return out[1]


@together
def scan(f, init, xs=None, length=None, reverse=False):
    """`f(state, x) -> (state, y)` for every slice of the trees `xs` along their first dimension, as one loop.

    Python numbers in `init` take the dtypes that f gives the state: 0.0 becomes a float64 if f adds a float64 to it.
    Returns the last state and the ys stacked. `length` is needed without sequences.
    """
    sequences = Arguments((xs,), weak_floats=False)
    paths = sequences.treedef.children[0].children[0].leaf_paths("xs")
    for place, t in zip(sequences.places, sequences.tensors):
        if t.ndim == 0:
            raise ValueError(f"scan: the sequence {paths[place]} is a scalar, {t.type_str()}")
    if not sequences.tensors and length is None:
        raise ValueError("scan: neither a sequence nor a length is given")
    sizes = {t.shape[0] for t in sequences.tensors} | ({length} if length is not None else set())
    if len(sizes) > 1:
        given = [f"{paths[place]} is {t.type_str()}" for place, t in zip(sequences.places, sequences.tensors)]
        given += [f"length is {length}"] if length is not None else []
        raise ValueError("scan: the sequences and length differ: " + ", ".join(given))

    def traced(function, carry):
        n = len(carry.tensors)
        return trace(function, example_types(carry.tensors) + [(t.dtype, t.shape[1:]) for t in sequences.tensors],
                     lambda params: ((carry.rebuild(params[:n])[0][0], sequences.rebuild(params[n:])[0][0]), {}),
                     like=carry.tensors + sequences.tensors, without=[None] * n + [0] * len(sequences.tensors))

    init = _settled(init, lambda state: traced(f, state)[1], lambda r: r.treedef.children and r.treedef.children[0])
    carry = Arguments((init,), weak_floats=False)
    body, result = traced(_with_numbers_as(f, [t.dtype for t in carry.tensors]), carry)
    if result.treedef.kind not in (tuple, list) or len(result.treedef.children) != 2:
        raise TypeError(f"scan: {name_of(f)} returns {result.treedef}, not a pair of state and y")
    _check_carry("scan", carry, result, result.treedef.children[0])
    out = _nabla.scan(body, carry.tensors, sequences.tensors, length, reverse)
    return result.rebuild(out)


def associative_scan(fn, elems, reverse=False, axis=0):
    """Prefixes of `elems` under an associative `fn`, along an axis, in a logarithmic number of steps.

    If the size of the axis is known only at run time, the number of steps follows from its largest value. `fn` then
    also gets pairs of elements whose result is not used.
    Source: Blelloch, Prefix Sums and Their Applications (1990); here the form of Hillis and Steele.
    """
    leaves, form = tree_flatten(elems)
    leaves = [asarray(x) for x in leaves]
    n = leaves[0].shape[axis]
    most = bounds_of(n)[1]

    def flip(x):
        return _nabla.emit("reverse", [x], {"axes": [axis % x.ndim]})[0]

    if reverse:
        leaves = [flip(x) for x in leaves]
    step = 1
    while step < most:
        if not isinstance(n, int):
            leaves = _joined_within(fn, leaves, form, axis, step)
            step *= 2
            continue
        low = form.unflatten([_nabla.slice_axis(x, axis, 0, n - step) for x in leaves])
        high = form.unflatten([_nabla.slice_axis(x, axis, step, n) for x in leaves])
        joined = [asarray(x) for x in tree_flatten(fn(low, high))[0]]
        leaves = [_nabla.emit("concatenate", [_nabla.slice_axis(x, axis, 0, step), y], {"axis": axis % x.ndim})[0]
                  for x, y in zip(leaves, joined)]
        step *= 2
    if reverse:
        leaves = [flip(x) for x in leaves]
    return form.unflatten(leaves)


def _joined_within(fn, leaves, form, axis, step):
    """One step of associative_scan along an axis of n elements, n known only at run time: element i is joined with
    element i - step if i >= step. The others are joined with element 0, whose results are dropped: with a filler such
    as 0, a derivative of `fn` might be infinite."""
    def moved(x):
        n, d = x.shape[axis], axis % x.ndim
        if bounds_of(n)[0] < 1:
            before = _nabla.full([step if i == d else s for i, s in enumerate(x.shape)], 0.0, x.dtype)
        else:
            before = _nabla.broadcast_to(cut(x, d, 0, 1), [step if i == d else s for i, s in enumerate(x.shape)])
        return cut(_nabla.emit("concatenate", [before, x], {"axis": d})[0], d, 0, n)

    joined = tree_flatten(fn(form.unflatten([moved(x) for x in leaves]), form.unflatten(leaves)))[0]
    out = []
    for x, y in zip(leaves, joined):
        later = _nabla.emit("ge", [along(places_in(x.shape[axis]), axis % x.ndim, x.ndim), step], {})[0]
        out.append(_nabla.emit("select", [_nabla.broadcast_to(later, list(x.shape)), asarray(y), x], {})[0])
    return out


__all__ = [
    "associative_scan", "cond", "fori_loop", "scan", "switch", "while_loop",
]
