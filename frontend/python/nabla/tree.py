"""Trees of containers: what functions take and return, flattened to leaves and put together again.

Containers are lists, tuples, named tuples, dicts and defaultdicts (in the order of their sorted keys), OrderedDicts (in
their own), None (no leaves) and what `register_pytree_node` declared. Everything else is a leaf. As `nabla.tree.map`
and the like the functions have short names.
"""

import builtins
import collections
import dataclasses
import functools

from ._core import asarray
from ._nabla import Tensor

_LEAF = "leaf"
_registered = {}


def same(a, b):
    """Whether two static values are interchangeable in a program: equal, and of one type at every depth. 1, 1.0 and
    True differ, 0.0 and -0.0 do; NaN is the same as NaN."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and builtins.all(builtins.map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and builtins.all(
            same(i, j) and same(a[i], b[j]) for i, j in zip(a, b))
    if isinstance(a, (set, frozenset)):
        return {Static(x) for x in a} == {Static(x) for x in b}
    if _is_record(a):
        return same(_fields(a), _fields(b))
    try:
        return bool(a == b) and (not hasattr(a, "tobytes") or a.tobytes() == b.tobytes())  # NumPy's scalars have bytes
    except (TypeError, ValueError):  # arrays, whose comparison is an array
        return False


def _is_record(x):
    return dataclasses.is_dataclass(x) and not isinstance(x, type)


def _fields(x):
    return tuple([getattr(x, f.name) for f in dataclasses.fields(x) if f.compare])


class Static:
    """A static value as a key: equal to another that is `same`."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Static) and same(self.value, other.value)

    def __hash__(self):
        return _hash(self.value)

    def __repr__(self):
        return repr(self.value)


def _hash(value):
    if isinstance(value, (float, complex)):
        return hash(repr(value))
    if isinstance(value, tuple) or _is_record(value):
        return hash(tuple([_hash(x) for x in (value if isinstance(value, tuple) else _fields(value))]))
    if isinstance(value, frozenset):
        return hash(frozenset([Static(x) for x in value]))
    try:
        return hash(value)
    except TypeError:
        return hash(type(value))


class PyTreeDef:
    """The form of a tree without its leaves. Equal forms compare equal and hash alike."""

    __slots__ = ("kind", "data", "children", "num_leaves", "_hash")

    def __init__(self, kind, data, children):
        self.kind = kind
        self.data = data
        self.children = children
        self.num_leaves = 1 if kind is _LEAF else sum(c.num_leaves for c in children)
        self._hash = None

    def __eq__(self, other):
        if self is other:
            return True
        return (isinstance(other, PyTreeDef) and self.kind == other.kind and self.num_leaves == other.num_leaves
                and same(self.data, other.data) and self.children == other.children)

    def __hash__(self):
        if self._hash is None:
            try:
                data = hash(self.data)
            except TypeError:
                data = hash(repr(self.data))
            self._hash = hash((self.kind, data, self.children))
        return self._hash

    def unflatten(self, leaves):
        """The tree with these leaves. Raises ValueError when their number is another."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"a tree of {self.num_leaves} leaves gets {len(leaves)}")
        return self._build(iter(leaves))

    def _build(self, leaves):
        if self.kind is _LEAF:
            return next(leaves)
        if self.kind is None:
            return None
        parts = [c._build(leaves) for c in self.children]
        if self.kind is list:
            return parts
        if self.kind is tuple:
            return tuple(parts)
        if self.kind is dict:
            return dict(zip(self.data, parts))
        if self.kind in _registered:
            return _registered[self.kind][1](self.data, parts)
        return self.kind(*parts)

    def child_names(self):
        """The keys, fields or positions of the children."""
        if self.kind is dict or self.kind is collections.OrderedDict:
            return self.data
        if self.kind is collections.defaultdict:
            return self.data[1]
        if hasattr(self.data, "leaf_names"):
            return self.data.leaf_names()
        return getattr(self.kind, "_fields", None) or range(len(self.children))

    def leaf_paths(self, prefix=""):
        """The places of the leaves, in order: "block.0.w"; of a leaf alone, the prefix."""
        if self.kind is _LEAF:
            return [prefix]
        out = []
        for name, child in zip(self.child_names(), self.children):
            out += child.leaf_paths(f"{prefix}.{name}" if prefix else str(name))
        return out

    def __repr__(self):
        if self.kind is _LEAF:
            return "*"
        if self.kind is None:
            return "None"
        inside = ", ".join([repr(c) for c in self.children])
        if self.kind in _DICTS:
            inside = "{" + ", ".join(f"{k!r}: {c!r}" for k, c in zip(self.child_names(), self.children)) + "}"
            return inside if self.kind is dict else f"{self.kind.__name__}({inside})"
        if self.kind is list:
            return f"[{inside}]"
        return f"({inside})" if self.kind is tuple else f"{self.kind.__name__}({inside})"


_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
_THE_LEAF = PyTreeDef(_LEAF, None, ())
_NONE = PyTreeDef(None, None, ())


def register_pytree_node(cls, flatten_fn, unflatten_fn):
    """Makes instances of `cls` containers: `flatten_fn(x) -> (children, data)`, `unflatten_fn(data, children) -> x`."""
    _registered[cls] = (flatten_fn, unflatten_fn)
    return cls


def _registration(cls):
    found = _registered.get(cls)
    if found is None:
        for base in cls.__mro__[1:]:
            if base in _registered:
                _registered[cls] = _registered[base] if not hasattr(base, "__pytree_of__") else base.__pytree_of__(cls)
                return _registered[cls]
    return found


def _flatten(x, leaves, is_leaf):
    if is_leaf is not None and is_leaf(x):
        leaves.append(x)
        return _THE_LEAF
    cls = type(x)
    if cls is Tensor:
        leaves.append(x)
        return _THE_LEAF
    if x is None:
        return _NONE
    if cls is list or cls is tuple:
        return PyTreeDef(cls, None, tuple([_flatten(c, leaves, is_leaf) for c in x]))
    if cls is dict:
        try:
            keys = tuple(sorted(x))
        except TypeError:
            keys = tuple(x)
        return PyTreeDef(dict, keys, tuple([_flatten(x[k], leaves, is_leaf) for k in keys]))
    registration = _registration(cls)
    if registration is not None:
        children, data = registration[0](x)
        return PyTreeDef(cls, data, tuple([_flatten(c, leaves, is_leaf) for c in children]))
    if isinstance(x, tuple) and hasattr(cls, "_fields"):
        return PyTreeDef(cls, None, tuple([_flatten(c, leaves, is_leaf) for c in x]))
    leaves.append(x)
    return _THE_LEAF


def tree_flatten(tree, is_leaf=None):
    """`(leaves, treedef)`; `is_leaf(x)` may declare containers to be leaves."""
    leaves = []
    return leaves, _flatten(tree, leaves, is_leaf)


def tree_unflatten(treedef, leaves):
    """The tree of this form with these leaves."""
    return treedef.unflatten(leaves)


def tree_leaves(tree, is_leaf=None):
    """The leaves, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    """The form."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(f, tree, *rest, is_leaf=None):
    """`f` of the leaves, and of those at the same places of trees `rest`, which have the first tree's form."""
    leaves, treedef = tree_flatten(tree, is_leaf)
    others = []
    for r in rest:
        other, form = tree_flatten(r, is_leaf)
        if form != treedef:
            raise ValueError(f"tree_map: trees of different form: {difference(treedef, form)}")
        others.append(other)
    return treedef.unflatten([f(*x) for x in zip(leaves, *others)])


def difference(a, b, path=""):
    """The first place where two forms differ, in words: "at a.0 a leaf and a tuple of 2"."""
    where = f"at {path} " if path else ""
    names = a.child_names() if a.children else ()
    if a.kind is not b.kind or len(a.children) != len(b.children) or list(names) != list(b.child_names()):
        return f"{where}{_kind_text(a)} and {_kind_text(b)}"
    for name, x, y in zip(names, a.children, b.children):
        if x != y:
            return difference(x, y, f"{path}.{name}" if path else str(name))
    return f"{where}{_kind_text(a)} with {a.data!r} and with {b.data!r}"


def _kind_text(form):
    if form.kind is _LEAF:
        return "a leaf"
    if form.kind is None:
        return "None"
    if form.kind in _DICTS:
        return f"a {form.kind.__name__} of {', '.join([repr(k) for k in form.child_names()]) or 'nothing'}"
    return f"a {form.kind.__name__} of {len(form.children)}"


def is_tensor(x):
    """Whether it is a Tensor."""
    return isinstance(x, Tensor)


def is_array(x):
    """Whether a leaf holds numbers: a tensor, a Python or NumPy number, or an array (`__array__` or DLPack).

    Every function of the package that takes trees computes with these leaves. It keeps or refuses all others.
    """
    return isinstance(x, (Tensor, bool, int, float)) or hasattr(x, "__array__") or hasattr(x, "__dlpack__")


def float_tensor(x):
    """A leaf as a floating tensor. None if it holds no floating numbers."""
    if isinstance(x, int) or not is_array(x):
        return None
    x = asarray(x)
    return x if x.dtype.is_float() else None


def tensor_leaves(tree):
    """The leaves that are tensors."""
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def broadcast_prefix(prefix, tree, is_leaf=None):
    """A value per leaf of `tree`: a leaf of `prefix` stands for all leaves below its place. Raises ValueError."""
    out = []

    def below(p, t):
        mine, its = tree_structure(p, is_leaf), tree_structure(t)
        if mine.kind is _LEAF:
            out.extend([p] * its.num_leaves)
            return
        if mine.kind is tuple and its.kind is list or mine.kind is list and its.kind is tuple:
            pass
        elif mine.kind != its.kind or (mine.kind is dict and mine.data != its.data):
            raise ValueError(f"a prefix of form {mine} does not fit a tree of form {its}")
        pc, tc = _children(p), _children(t)
        if len(pc) != len(tc):
            raise ValueError(f"a prefix of form {mine} does not fit a tree of form {its}")
        for a, b in zip(pc, tc):
            below(a, b)

    below(prefix, tree)
    return out


def _children(x):
    if x is None:
        return []
    if type(x) is dict:
        return [x[k] for k in tree_structure(x).data]
    registration = _registration(type(x))
    return list(registration[0](x)[0]) if registration else list(x)


def _sorted_keys(d):
    try:
        return tuple(sorted(d))
    except TypeError:
        return tuple(d)


register_pytree_node(collections.OrderedDict, lambda d: (list(d.values()), tuple(d)),
                     lambda keys, parts: collections.OrderedDict(zip(keys, parts)))
register_pytree_node(collections.defaultdict,
                     lambda d: ([d[k] for k in _sorted_keys(d)], (d.default_factory, _sorted_keys(d))),
                     lambda data, parts: collections.defaultdict(data[0], zip(data[1], parts)))

flatten, unflatten, leaves, structure, map = tree_flatten, tree_unflatten, tree_leaves, tree_structure, tree_map


def all(tree, is_leaf=None):
    """Whether all leaves are true."""
    return functools.reduce(lambda a, b: a and bool(b), tree_leaves(tree, is_leaf), True)


def reduce(f, tree, *initial, is_leaf=None):
    """`f(f(leaf, leaf), leaf)`, beginning with `initial` where it is given (functools.reduce)."""
    return functools.reduce(f, tree_leaves(tree, is_leaf), *initial)


def leaves_with_path(tree, is_leaf=None):
    """`[(path, leaf), ...]`: the places are texts such as "block.0.w"."""
    found, form = tree_flatten(tree, is_leaf)
    return list(zip(form.leaf_paths(), found))


def map_with_path(f, tree, *rest, is_leaf=None):
    """tree_map of `f(path, leaf, ...)`."""
    form = tree_structure(tree, is_leaf)
    paths = iter(form.leaf_paths())
    return tree_map(lambda *x: f(next(paths), *x), tree, *rest, is_leaf=is_leaf)


def transpose(outer, inner, tree):
    """A tree of form `outer` whose leaves are trees of form `inner`, turned inside out. Raises ValueError."""
    found, form = tree_flatten(tree)
    if form.num_leaves != outer.num_leaves * inner.num_leaves:
        raise ValueError(f"transpose: a tree of {form.num_leaves} leaves is no tree of {outer} of trees {inner}")
    n = inner.num_leaves
    return inner.unflatten([outer.unflatten(found[i::n]) for i in range(n)])
