"""nn.Module: a tree of layers that is a pytree of its tensors.

What an attribute is follows from its value:

- `self.w = nn.Parameter(x)`, or a tensor that requires gradients (`x.requires_grad_()`), is a **parameter**. Any other
  tensor is a **buffer**, as are `nn.Buffer(x)` and what `register_buffer` sets: part of the state, not trained.
  `freeze` makes parameters frozen ones: they stay in `parameters()`, but are not trained.
- a Module, and a list, tuple or dict of modules or tensors, at any depth, is a part of the tree. All of it trains.
- everything else is static: part of the form, which `nb.jit` compiles for. Two modules of different static attributes,
  or of different `training` flags, have different forms.

A NumPy array or a number that is assigned to an attribute which holds a tensor becomes a tensor of the same kind:
`linear.weight = np.ones((2, 3))` sets the parameter. None takes a tensor away.

As a pytree a module's leaves are its tensors in the order of their paths, each once, however many places share it.
Transforms rebuild modules without calling `__init__`, and a shared tensor or module is shared in the rebuilt one too.
"""

import copy as _copy
import functools
import threading

from .. import _nabla
from .. import tree as _tree
from .._core import Tensor, asarray, astype
from .._mesh import laid_out_like
from . import _blame
from ._form import Form, joined
from ._handles import successor, with_own_handle

_PARAMETER, _BUFFER, _FROZEN = "parameter", "buffer", "frozen"
_calls = threading.local()  # how many calls of modules are open in this thread
_PLAIN = (type(None), bool, int, float, str, bytes, tuple, list, dict)


class Parameter:
    """Marks a tensor that is assigned to a module's attribute as a parameter; without `trainable` as a frozen one."""

    __slots__ = ("value", "kind")

    def __init__(self, value, trainable=True):
        self.value = asarray(value)
        if not self.value.dtype.is_float():
            raise TypeError(f"a parameter is floating, got {self.value.type_str()}: use nn.Buffer")
        self.kind = _PARAMETER if trainable else _FROZEN


class Buffer:
    """Marks a tensor that is assigned to a module's attribute as a buffer: state that is not trained."""

    __slots__ = ("value", "kind")

    def __init__(self, value):
        self.value, self.kind = asarray(value), _BUFFER


_MARKS = {_PARAMETER: Parameter, _BUFFER: Buffer, _FROZEN: functools.partial(Parameter, trainable=False)}


class Module:
    """Base of layers and models. Subclasses assign their parts in `__init__` and define `forward`."""

    training = True
    _realize_outputs = _realize_gradients = False
    _inline = None  # the attribute whose name is left out of paths: that of a container's parts

    def __new__(cls, *args, **kwargs):
        out = super().__new__(cls)
        object.__setattr__(out, "_kinds", {})
        object.__setattr__(out, "training", True)
        return out

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        _tree.register_pytree_node(cls, _flatten, _unflatten)

    def forward(self, *args, **kwargs):
        """What calling the module does."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args, **kwargs):
        """`forward`. Outside of traced functions and of nb.no_grad() the trainable parameters require gradients from
        then on, so that `backward()` of what comes out gives them some."""
        try:
            return self._called(args, kwargs)
        except (TypeError, ValueError) as e:  # nabla.Error is a ValueError
            _blame.add_module(e, self, args)
            raise

    def _called(self, args, kwargs):
        if _nabla.is_tracing() or getattr(_calls, "open", False):
            return self.forward(*args, **kwargs)
        if _nabla.tracks_gradients():
            self.requires_grad_()
        _calls.open = True
        try:
            out = self.forward(*args, **kwargs)
        finally:
            _calls.open = False
        if self._realize_outputs:
            _nabla.realize(_tree.tensor_leaves(out))
        return out

    @classmethod
    def set_execution_policy(cls, *, auto_realize_toplevel_forward=None, auto_realize_backward_grads=None):
        """Whether a call of a module computes what it returns at once, instead of when somebody looks. `backward`
        computes gradients at once in any case. For this class and those derived from it."""
        if auto_realize_toplevel_forward is not None:
            cls._realize_outputs = bool(auto_realize_toplevel_forward)
        if auto_realize_backward_grads is not None:
            cls._realize_gradients = bool(auto_realize_backward_grads)

    @classmethod
    def get_execution_policy(cls):
        """What set_execution_policy set."""
        return {"auto_realize_toplevel_forward": cls._realize_outputs,
                "auto_realize_backward_grads": cls._realize_gradients}

    def __setattr__(self, name, value):
        kinds = self._kinds
        if isinstance(value, (Parameter, Buffer)):
            kinds[name], value = value.kind, _as_kind(value.value, value.kind)
        elif isinstance(value, Tensor):
            kinds.setdefault(name, _kind_of(value))
        else:
            before = {k: kinds.pop(k) for k in list(kinds) if k == name or k.startswith(name + ".")}
            value = _unmarked(value, name, kinds, before)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        for known in [k for k in self._kinds if k == name or k.startswith(name + ".")]:
            del self._kinds[known]
        object.__delattr__(self, name)

    def register_buffer(self, name, tensor):
        """Sets attribute `name` to a tensor that is not trained; None leaves it out."""
        setattr(self, name, None if tensor is None else Buffer(tensor))

    def register_parameter(self, name, value):
        """Sets attribute `name` to a parameter; None leaves it out."""
        setattr(self, name, None if value is None else Parameter(value))

    # ---- Walks

    def named_modules(self):
        """`(path, module)` of this module ("") and all below it, each once."""
        return [(path, x) for path, x, _, _ in _entries(self) if isinstance(x, Module)]

    def modules(self):
        """The modules of `named_modules`."""
        return [x for _, x in self.named_modules()]

    def children(self):
        """The modules directly below."""
        return [x for _, value in _attributes(self) for x in _nearest_modules(value)]

    def named_tensors(self):
        """`(path, tensor, kind)` of all tensors, each once; kind is "parameter", "frozen" or "buffer"."""
        return [(path, x, kind) for path, x, kind, first in _entries(self) if kind and first]

    def named_parameters(self, prefix="", trainable_only=False):
        """`(path, tensor)` of the parameters, each once, under its first path: "layers.0.weight", below `prefix`."""
        kinds = (_PARAMETER,) if trainable_only else (_PARAMETER, _FROZEN)
        return [(joined(prefix, path), x) for path, x, kind in self.named_tensors() if kind in kinds]

    def parameters(self, trainable_only=False):
        """The tensors of `named_parameters`."""
        return [x for _, x in self.named_parameters(trainable_only=trainable_only)]

    def named_buffers(self, prefix=""):
        """`(path, tensor)` of the buffers, each once."""
        return [(joined(prefix, path), x) for path, x, kind in self.named_tensors() if kind == _BUFFER]

    def buffers(self):
        """The tensors of `named_buffers`."""
        return [x for _, x in self.named_buffers()]

    def num_parameters(self):
        """How many numbers the parameters hold."""
        count = 0
        for p in self.parameters():
            n = 1
            for size in p.shape:
                n *= int(size)
            count += n
        return count

    # ---- Changes in place

    def train(self, mode=True):
        """Sets the training flag of all modules; dropout and batch normalisation follow it. Returns self."""
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self):
        """`train(False)`."""
        return self.train(False)

    def apply(self, f):
        """Calls `f(module)` for every module, the innermost ones first. Returns self."""
        for module in reversed(self.modules()):
            f(module)
        return self

    def astype(self, dtype):
        """Converts all floating tensors. Returns self."""
        return self.map_tensors(lambda path, x: astype(x, dtype) if x.dtype.is_float() else x)

    def map_tensors(self, f):
        """Replaces every tensor by `f(path, tensor)`, a shared one in all its places. Returns self.

        What comes for a tensor that requires gradients requires them too. Tensors that an optimiser was handed stay,
        with new elements. f may return an array or a number, too.
        """
        new = {id(x): (x, successor(x, asarray(f(path, asarray(x))))) for path, x, _ in self.named_tensors()}
        _replace(self, {i: after for i, (_, after) in new.items()}, set())
        return self

    def set_tensors(self, values):
        """Replaces tensors by their paths, a dict. Raises KeyError for a path that there is not, and ValueError for two
        values of one shared tensor."""
        known, wanted = {path: first for path, first in _aliases(self)}, {}
        for path, value in dict(values).items():
            if path not in known:
                raise KeyError(f"{type(self).__name__} has no tensor {path!r}")
            if wanted.setdefault(known[path], value) is not value:
                raise ValueError(f"set_tensors: {path} and {known[path]} are one tensor, and get two values")
        return self.map_tensors(lambda path, x: wanted.get(path, x))

    def mark_tensors(self, f):
        """Sets the kind of the tensors that this module itself holds: `f(tensor, kind) -> kind`."""
        def below(value, rel):
            if isinstance(value, Tensor):
                self._kinds[rel] = f(value, self._kinds.get(rel) or _kind_of(value))
            elif not isinstance(value, Module):
                for name, part in _items(value) or ():
                    below(part, f"{rel}.{name}")

        for name, value in _attributes(self):
            below(value, name)

    def requires_grad_(self, wanted=True):
        """Marks the trainable parameters, so that `backward` gives them gradients; calling the module does so too.
        Returns self."""
        if not all(isinstance(p, Tensor) for p in self.parameters()):
            self.map_tensors(lambda path, x: x)  # arrays, which tree.map may have put there, become tensors
        changed = [p for p in self.parameters(trainable_only=True) if p._is_gradient_leaf != wanted]
        _nabla.realize(changed)
        for p in changed:
            p.requires_grad = wanted
        return self

    def backward(self, loss, gradient=None, retain_graph=False, create_graph=False, *, realize_grads=None):
        """Adds to `.grad` of the trainable parameters the gradient of `loss`, as nabla.backward, which computes them
        at once, whatever `realize_grads` is."""
        from ..autograd import backward
        backward(loss, gradient, retain_graph, create_graph, self.parameters(trainable_only=True))

    def zero_grad(self):
        """Forgets the gradients that `backward` left in `.grad` of the parameters."""
        for p in self.parameters():
            p.grad = None

    # ---- States by name

    def state_dict(self):
        """`{path: tensor}` of parameters and buffers, copies; a shared tensor is there once, under its first path."""
        return {path: asarray(x)._copied() for path, x, _ in self.named_tensors()}

    def load_state_dict(self, state_dict, strict=True):
        """Sets parameters and buffers by their paths, converted to the dtype that they have here.

        Other paths of a shared tensor may name it. Raises ValueError for shapes that differ, for several paths of a
        shared tensor whose values differ and, when `strict`, for names that are missing or not known; a state of
        parameters alone leaves buffers as they are.
        Returns `(missing, unexpected)`.
        """
        own, aliases = {path: asarray(x) for path, x, _ in self.named_tensors()}, dict(_aliases(self))
        values, unexpected = {}, []
        for name, x in state_dict.items():
            if name not in aliases:
                unexpected.append(name)
                continue
            like, x = own[aliases[name]], asarray(x)
            if tuple(x.shape) != tuple(like.shape):
                raise ValueError(f"load_state_dict: {name} is {like.type_str()}, the state has {x.type_str()}")
            new, first = with_own_handle(laid_out_like(astype(x, like.dtype), like)), aliases[name]
            if first in values and not _equal(values[first], new):
                raise ValueError(f"load_state_dict: {name} and {first} are one tensor of {type(self).__name__}, and "
                                 "the state has two different ones; leave out one of them")
            values[first] = new
        buffers = {name for name, _ in self.named_buffers()}
        needed = own if buffers & set(values) else [name for name in own if name not in buffers]
        missing = [name for name in needed if name not in values]
        if strict and (missing or unexpected):
            wrong = [f"the state {verb} {_listed(names)}" for verb, names in (
                ("lacks", missing), ("has names that the module does not have:", unexpected)) if names]
            raise ValueError(f"load_state_dict of {type(self).__name__}: {'; '.join(wrong)}; strict=False leaves these")
        self.map_tensors(lambda path, x: values.get(path, x))
        return missing, unexpected

    def clone(self):
        """A module of the same form with copies of the tensors, which changes alone."""
        leaves, form = _tree.tree_flatten(self)
        return form.unflatten([_copy.copy(x) if _tree.is_array(x) else x for x in leaves])

    # ---- Texts

    def extra_repr(self):
        """What `repr` writes into the parentheses of a module without children."""
        return ""

    def __repr__(self):
        lines = []
        for name, value in self.__dict__.items():
            if _holds_module(value):
                inner = value if isinstance(value, Module) else _children_text(value)
                lines.append(f"  ({name}): " + str(inner).replace("\n", "\n  "))
        extra = self.extra_repr()
        return f"{type(self).__name__}({extra}" + ("\n" + "\n".join(lines) + "\n" if lines else "") + ")"


def _kind_of(x):
    return _PARAMETER if x.requires_grad else _BUFFER


def _as_kind(x, kind):
    if kind == _PARAMETER and isinstance(x, Tensor):
        x._set_parameter()
    return x


def _listed(names):
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _equal(a, b):
    """Whether two tensors have the same elements, NaN too. Traced tensors have to be one value."""
    if a._same(b) or a.is_traced or b.is_traced:
        return a._same(b)
    return _nabla.all((a == b) | ((a != a) & (b != b)), [], False).item()


def _unmarked(value, path, kinds, before):
    """Containers with the marks of Parameter and Buffer taken off. Arrays and numbers become tensors where there was
    one: `before` has the kinds of those."""
    if isinstance(value, (Parameter, Buffer)):
        kinds[path] = value.kind
        return _as_kind(value.value, value.kind)
    if path in before and not isinstance(value, Tensor) and _tree.is_array(value):
        return _unmarked(_MARKS[before[path]](value), path, kinds, before)
    if type(value) in (list, tuple):
        out = [_unmarked(v, f"{path}.{i}", kinds, before) for i, v in enumerate(value)]
        if any(a is not b for a, b in zip(out, value)):
            return type(value)(out)
    elif type(value) is dict:
        out = {k: _unmarked(v, f"{path}.{k}", kinds, before) for k, v in value.items()}
        if any(out[k] is not value[k] for k in value):
            return out
    return value


def _holds_module(value):
    if isinstance(value, (list, tuple)):
        return any(_holds_module(v) for v in value)
    if isinstance(value, dict):
        return any(_holds_module(v) for v in value.values())
    return isinstance(value, Module)


def _nearest_modules(value):
    if isinstance(value, Module):
        return [value]
    return [x for _, part in _items(value) or () for x in _nearest_modules(part)]


def _children_text(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    inside = "\n".join(f"  ({k}): " + str(v).replace("\n", "\n  ") for k, v in items)
    return ("{\n%s\n}" if isinstance(value, dict) else "[\n%s\n]") % inside


def _attributes(module):
    return [(k, v) for k, v in module.__dict__.items() if k not in ("_kinds", "training")]


def _items(value):
    """The parts of a container with their names, or None."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        fields = getattr(type(value), "_fields", None)
        return list(zip(fields, value)) if fields else list(enumerate(value))
    return None


def _entries(root):
    """`(path, value, kind, first)` of modules (kind None, each once) and tensors (all places) below a module."""
    seen = set()

    def below(value, path, module, rel):
        kind = module._kinds.get(rel) if module is not None else None
        if kind or isinstance(value, Tensor):
            first = id(value) not in seen
            seen.add(id(value))
            yield path, value, kind or _kind_of(value), first
        elif isinstance(value, Module):
            if id(value) in seen:
                return
            seen.add(id(value))
            yield path, value, None, True
            for name, part in _attributes(value):
                yield from below(part, path if name == value._inline else joined(path, name), value, name)
        else:
            for name, part in _items(value) or ():
                yield from below(part, joined(path, name), module, f"{rel}.{name}")

    return below(root, "", None, "")


def _aliases(module):
    """`(path, first path)` of every place of every tensor, also within modules that are there twice."""
    first = {id(x): path for path, x, _ in module.named_tensors()}
    out, open_modules = [], set()

    def below(value, path, holder, rel):
        if (holder is not None and rel in holder._kinds) or isinstance(value, Tensor):
            out.append((path, first[id(value)]))
        elif isinstance(value, Module):
            if id(value) in open_modules:
                return
            open_modules.add(id(value))
            for name, part in _attributes(value):
                below(part, path if name == value._inline else joined(path, name), value, name)
            open_modules.discard(id(value))
        else:
            for name, part in _items(value) or ():
                below(part, joined(path, name), holder, f"{rel}.{name}")

    below(module, "", None, "")
    return out


def _replace(value, new, seen):
    """Tensors and arrays below `value` replaced by what `new` has for their ids, in place where the container can
    change."""
    if id(value) in new and not isinstance(value, _PLAIN):
        return new[id(value)]
    if isinstance(value, Module):
        if id(value) not in seen:
            seen.add(id(value))
            for name, part in _attributes(value):
                after = _replace(part, new, seen)
                if after is not part:
                    object.__setattr__(value, name, after)
        return value
    if isinstance(value, list):
        value[:] = [_replace(v, new, seen) for v in value]
    elif isinstance(value, dict):
        for k in value:
            value[k] = _replace(value[k], new, seen)
    elif isinstance(value, tuple):
        parts = [_replace(v, new, seen) for v in value]
        if any(a is not b for a, b in zip(parts, value)):
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


# ---- As a pytree


class _Flattening:
    def __init__(self):
        self.leaves, self.places, self.modules, self.open = [], {}, {}, set()

    def leaf(self, value, kind):
        shareable = not isinstance(value, _PLAIN)
        place = self.places.get(id(value)) if shareable else None
        if place is None:
            place = len(self.leaves)
            self.leaves.append(value)
            if shareable:
                self.places[id(value)] = place
        return ("leaf", place, kind)

    def node(self, value, module, rel):
        kind = module._kinds.get(rel) if module is not None else None
        if kind is not None or type(value) is Tensor:
            return self.leaf(value, kind or _kind_of(value))
        if isinstance(value, Module):
            return self.module(value)
        cls = type(value)
        if cls is list or cls is tuple or hasattr(cls, "_fields"):
            return ("sequence", cls, tuple([self.node(v, module, f"{rel}.{k}") for k, v in _items(value)]))
        if cls is dict:
            keys = tuple(value)
            return ("dict", tuple([_tree.Static(k) for k in keys]),
                    tuple([self.node(value[k], module, f"{rel}.{k}") for k in keys]))
        if cls in _tree._registered:
            children, data = _tree._registered[cls][0](value)
            return ("other", cls, _tree.Static(data), tuple([self.node(c, None, "") for c in children]))
        return ("static", _tree.Static(value))

    def module(self, value):
        known = self.modules.get(id(value))
        if known is not None:
            if id(value) in self.open:
                raise ValueError(f"a {type(value).__name__} contains itself: such a module is no tree")
            return ("again", known)
        self.modules[id(value)] = len(self.modules)
        self.open.add(id(value))
        attributes = _attributes(value)
        node = ("module", type(value), value.training, tuple([k for k, _ in attributes]),
                tuple([self.node(v, value, k) for k, v in attributes]))
        self.open.discard(id(value))
        return node


def _flatten(module):
    flattening = _Flattening()
    node = flattening.module(module)
    return flattening.leaves, Form(node)


def _unflatten(form, leaves):
    leaves, modules = list(leaves), []

    def build(node, module, rel):
        what = node[0]
        if what == "leaf":
            if module is not None:
                module._kinds[rel] = node[2]
            return _as_kind(leaves[node[1]], node[2])
        if what == "static":
            return node[1].value
        if what == "module":
            out = node[1].__new__(node[1])
            modules.append(out)
            object.__setattr__(out, "training", node[2])
            for name, part in zip(node[3], node[4]):
                object.__setattr__(out, name, build(part, out, name))
            return out
        if what == "again":
            return modules[node[1]]
        if what == "dict":
            return {k.value: build(part, module, f"{rel}.{k.value}") for k, part in zip(node[1], node[2])}
        if what == "other":
            return _tree._registered[node[1]][1](node[2].value, [build(part, None, "") for part in node[3]])
        cls, parts = node[1], node[2]
        names = getattr(cls, "_fields", None) or range(len(parts))
        values = [build(part, module, f"{rel}.{name}") for name, part in zip(names, parts)]
        return cls(*values) if hasattr(cls, "_fields") else cls(values)

    return build(form.node, None, "")


_tree.register_pytree_node(Module, _flatten, _unflatten)


def is_module(x):
    """Whether it is a Module."""
    return isinstance(x, Module)


__all__ = ["Buffer", "Module", "Parameter", "is_module"]
