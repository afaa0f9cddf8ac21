"""Modules that hold others by position or name. Paths are those of the parts: "0.weight", "blocks.2.norm.bias"."""

from .module import Module


class Sequential(Module):
    """Modules (or functions) one after the other; an index gives one of them, a slice a shorter Sequential."""

    _inline = "layers"

    def __init__(self, *layers):
        self.layers = list(layers[0] if len(layers) == 1 and isinstance(layers[0], (list, tuple)) else layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self):
        return len(self.layers)

    def __iter__(self):
        return iter(self.layers)

    def __getitem__(self, i):
        return Sequential(self.layers[i]) if isinstance(i, slice) else self.layers[i]

    def append(self, layer):
        """Adds a layer at the end. Returns self."""
        self.layers.append(layer)
        return self


class ModuleList(Module):
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


class ModuleDict(Module):
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


__all__ = ["ModuleDict", "ModuleList", "Sequential"]
