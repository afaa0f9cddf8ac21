"""A module's form as a pytree: what is left of it without its tensors."""


def joined(path, name):
    return f"{path}.{name}" if path else str(name)


class Form:
    """A module without its leaves: nested tuples, compared and hashed as such."""

    __slots__ = ("node", "_hash")

    def __init__(self, node):
        self.node, self._hash = node, None

    def __eq__(self, other):
        return self is other or (isinstance(other, Form) and self.node == other.node)

    def __hash__(self):
        if self._hash is None:
            self._hash = hash(self.node)
        return self._hash

    def __repr__(self):
        return self.node[1].__name__

    def leaf_names(self):
        """The first path of every leaf, in their order."""
        found = {}

        def below(node, path):
            what, parts = node[0], node[-1]
            if what == "leaf":
                found.setdefault(node[1], path)
            elif what in ("module", "sequence", "dict", "other"):
                names = (node[3] if what == "module" else [k.value for k in node[1]] if what == "dict" else
                         getattr(node[1], "_fields", None) or range(len(parts)))
                for name, part in zip(names, parts):
                    below(part, path if what == "module" and name == node[1]._inline else joined(path, name))

        below(self.node, "")
        return [found[i] for i in range(len(found))]
