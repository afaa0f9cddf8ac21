"""Trees of containers: what functions take and return, flattened to leaves and put together again.

Containers are lists, tuples, named tuples, dicts (in the order of their sorted keys), None (no leaves) and what
`register_pytree_node` declared. Everything else is a leaf.
"""

from ._nabla import Tensor

_LEAF = "leaf"
_registered = {}


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
                and self.data == other.data and self.children == other.children)

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

    def __repr__(self):
        if self.kind is _LEAF:
            return "*"
        if self.kind is None:
            return "None"
        inside = ", ".join(map(repr, self.children))
        if self.kind is dict:
            return "{" + ", ".join(f"{k!r}: {c!r}" for k, c in zip(self.data, self.children)) + "}"
        if self.kind is list:
            return f"[{inside}]"
        return f"({inside})" if self.kind is tuple else f"{self.kind.__name__}({inside})"


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
            raise ValueError(f"tree_map: trees of different form, {treedef} and {form}")
        others.append(other)
    return treedef.unflatten([f(*x) for x in zip(leaves, *others)])


def is_tensor(x):
    """Whether it is a Tensor."""
    return isinstance(x, Tensor)


def tensor_leaves(tree):
    """The leaves that are tensors."""
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def broadcast_prefix(prefix, tree, is_leaf=None):
    """A value per leaf of `tree`: a leaf of `prefix` stands for all leaves below its place. Raises ValueError."""
    out = []

    def below(p, t):
        if (is_leaf is not None and is_leaf(p)) or tree_structure(p).kind is _LEAF:
            out.extend([p] * tree_structure(t).num_leaves)
            return
        mine, its = tree_structure(p), tree_structure(t)
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
