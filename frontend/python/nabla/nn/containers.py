"""Modules that hold others by position or name. Paths are those of the parts: "0.weight", "blocks.2.norm.bias"."""

from .. import _nabla
from .. import random as _random
from .module import Module
from .rng import in_scope, next_key, rngs


class _Container(Module):
    """Base of those whose parts have the names of their places: `getattr(model, "0")`, `model.head`."""

    def __getattr__(self, name):
        parts = self.__dict__.get(self._inline) if self._inline else None
        if isinstance(parts, dict) and name in parts:
            return parts[name]
        if isinstance(parts, list) and name.isdigit() and int(name) < len(parts):
            return parts[int(name)]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class Sequential(_Container):
    """Modules (or functions) one after the other; an index gives one of them, a slice a shorter Sequential.

    Of a dict, the layers have the names of its keys: `Sequential(OrderedDict(up=nn.Linear(2, 4), act=nn.ReLU()))`.
    """

    _inline = "layers"

    def __init__(self, *layers):
        if len(layers) == 1 and isinstance(layers[0], dict):
            self.layers = dict(layers[0])
        else:
            self.layers = list(layers[0] if len(layers) == 1 and isinstance(layers[0], (list, tuple)) else layers)

    def _list(self):
        return list(self.layers.values()) if isinstance(self.layers, dict) else self.layers

    def forward(self, x):
        for layer in self._list():
            x = layer(x)
        return x

    def __len__(self):
        return len(self.layers)

    def __iter__(self):
        return iter(self._list())

    def __getitem__(self, i):
        if isinstance(i, str):
            return getattr(self, i)
        return Sequential(self._list()[i]) if isinstance(i, slice) else self._list()[i]

    def append(self, layer):
        """Adds a layer at the end, whose name is its place. Returns self."""
        if isinstance(self.layers, dict):
            self.layers[str(len(self.layers))] = layer
        else:
            self.layers.append(layer)
        return self


class ModuleList(_Container):
    """A list of modules. A plain list in an attribute trains as well; this one has a text of its own."""

    _inline = "members"

    def __init__(self, modules=()):
        self.members = list(modules)

    def __len__(self):
        return len(self.members)

    def __iter__(self):
        return iter(self.members)

    def __getitem__(self, i):
        return ModuleList(self.members[i]) if isinstance(i, slice) else self.members[i]

    def __setitem__(self, i, module):
        self.members[i] = module

    def append(self, module):
        """Adds a module at the end. Returns self."""
        self.members.append(module)
        return self

    def extend(self, modules):
        """Adds several. Returns self."""
        self.members.extend(modules)
        return self


class ModuleDict(_Container):
    """A dict of modules by their names."""

    _inline = "members"

    def __init__(self, modules=None):
        self.members = dict(modules or {})

    def __len__(self):
        return len(self.members)

    def __iter__(self):
        return iter(self.members)

    def __contains__(self, name):
        return name in self.members

    def __getitem__(self, name):
        return self.members[name]

    def __setitem__(self, name, module):
        self.members[name] = module

    def keys(self):
        """The names."""
        return self.members.keys()

    def values(self):
        """The modules."""
        return self.members.values()

    def items(self):
        """Pairs of both."""
        return self.members.items()


class StackedModuleList(Module):
    """Layers of one form, one after the other, as a single loop: `layer` holds their tensors stacked along dimension 0.

    What is compiled is one layer, however many there are. Calls give `layer(x, *args)`, which keeps x's type, to the
    next; args are the same for all. Within a scope of `nn.rngs` each layer draws numbers of its own. Layers that set
    attributes when they are called (BatchNorm in training) are an error. Raises ValueError where forms differ.
    """

    def __init__(self, layers):
        from ..tree import tree_map, tree_structure
        layers = list(layers)
        if not layers:
            raise ValueError("StackedModuleList: no layers are given")
        for i, layer in enumerate(layers):
            if tree_structure(layer) != tree_structure(layers[0]):
                raise ValueError(f"StackedModuleList: layers 0 and {i} differ in form")
        self.count = len(layers)
        self.layer = tree_map(lambda *xs: _nabla.stack(list(xs), 0), *layers)

    def forward(self, x, *args):
        from ..transforms import scan

        def body(x, now):
            layer, key = now
            given = {path: t for path, t, _ in layer.named_tensors()}
            if key is None:
                x = layer(x, *args)
            else:
                with rngs(key):
                    x = layer(x, *args)
            if any(t is not given.get(path) for path, t, _ in layer.named_tensors()):
                raise ValueError(f"StackedModuleList: {type(layer).__name__} sets its attributes when it is called, "
                                 "which a loop over layers does not keep: use a list of layers, or eval()")
            return x, None

        keys = _random.split(next_key(), self.count) if in_scope() else None
        return scan(body, x, (self.layer, keys))[0]

    def __len__(self):
        return self.count

    def unstacked(self):
        """The layers, as a list."""
        from ..tree import tree_flatten
        leaves, form = tree_flatten(self.layer)
        parts = [_nabla.unbind(x, 0) for x in leaves]
        return [form.unflatten([p[i] for p in parts]) for i in range(self.count)]


__all__ = ["ModuleDict", "ModuleList", "Sequential", "StackedModuleList"]
