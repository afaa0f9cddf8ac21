"""Selectors: which tensors of a module is meant. One language for derivatives (`wrt=`), freezing, groups of optimisers
and checkpoints.

Wherever a selector is expected there may be

- a string: a glob over paths ("encoder.*.weight"), part by part: `*` stands within one part ("layers.*", "*_norm"),
  `**` for any number of parts. "parameters", "trainable", "frozen" and "buffers" name the kinds of tensors.
- a Module class: tensors of such modules, at any depth below them.
- a function `f(path, tensor) -> bool`; a Selector; None: nothing; a list or tuple of these: any of them.

They combine: `a | b`, `a & b`, `a - b`, `~a`.
"""

import fnmatch

from .._core import Tensor
from .module import Module

_KINDS = {"parameters": ("parameter", "frozen"), "trainable": ("parameter",), "frozen": ("frozen",),
          "buffers": ("buffer",)}


class SelectorError(ValueError):
    """A selector that means nothing, or whose function failed."""


class Selector:
    """A predicate over the tensors of a module. Made by the functions of this module."""

    __slots__ = ("_test", "_text")

    def __init__(self, test, text):
        self._test, self._text = test, text

    def matches(self, entry):
        """Whether it holds for an Entry."""
        try:
            return bool(self._test(entry))
        except SelectorError:
            raise
        except Exception as e:
            raise SelectorError(f"selector {self._text} failed at {entry.path!r}: {type(e).__name__}: {e}") from e

    def __or__(self, other):
        return any_of(self, other)

    def __ror__(self, other):
        return any_of(other, self)

    def __and__(self, other):
        return all_of(self, other)

    def __rand__(self, other):
        return all_of(other, self)

    def __sub__(self, other):
        return all_of(self, not_(other))

    def __rsub__(self, other):
        return all_of(other, not_(self))

    def __invert__(self):
        return not_(self)

    def __repr__(self):
        return self._text

    # ---- What one does with it

    def apply(self, model):
        """`[(path, tensor)]` of the tensors that match, each once."""
        return [(e.path, e.tensor) for e in entries_of(model) if self.matches(e)]

    def paths(self, model):
        """The paths that match."""
        return [path for path, _ in self.apply(model)]

    def partition(self, model):
        """Two dicts `{path: tensor}`: what matches, and the rest."""
        chosen, rest = {}, {}
        for e in entries_of(model):
            (chosen if self.matches(e) else rest)[e.path] = e.tensor
        return chosen, rest

    def set(self, model, f):
        """Replaces every tensor that matches by `f(path, tensor)`. Returns the model."""
        chosen = dict(self.apply(model))
        return model.map_tensors(lambda path, x: f(path, x) if path in chosen else x)


class Entry:
    """A tensor of a module: its path, kind ("parameter", "frozen", "buffer") and the modules that hold it."""

    __slots__ = ("path", "tensor", "kind", "owners")

    def __init__(self, path, tensor, kind, owners):
        self.path, self.tensor, self.kind, self.owners = path, tensor, kind, owners


def entries_of(model):
    """The entries of a module, each tensor once; of any other tree of dicts, lists and tuples all parameters."""
    if not isinstance(model, Module):
        return [Entry(path, x, "parameter", ()) for path, x in flat_paths(model)]
    modules = dict(model.named_modules())
    out = []
    for path, x, kind in model.named_tensors():
        parts = path.split(".")
        owners = [modules[p] for i in range(len(parts)) if (p := ".".join(parts[:i])) in modules]
        out.append(Entry(path, x, kind, owners))
    return out


def flat_paths(tree, path=""):
    """`[(path, leaf)]` of a tree of dicts, lists, tuples and modules: "layers.0.w"."""
    def joined(name):
        return f"{path}.{name}" if path else str(name)

    if isinstance(tree, Module):
        return [(joined(p), x) for p, x, _ in tree.named_tensors()]
    if isinstance(tree, dict):
        return [item for k, v in tree.items() for item in flat_paths(v, joined(k))]
    if isinstance(tree, (list, tuple)):
        names = getattr(type(tree), "_fields", None) or range(len(tree))
        return [item for k, v in zip(names, tree) for item in flat_paths(v, joined(k))]
    return [] if tree is None else [(path, tree)]


def _path_matches(pattern, parts):
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_path_matches(pattern[1:], parts[i:]) for i in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _path_matches(pattern[1:], parts[1:])


def at_path(*globs):
    """Tensors whose path one of the globs matches; a glob of a module's path alone matches nothing: add `.**`."""
    if not globs:
        raise SelectorError("at_path: no glob is given")
    patterns = [g.split(".") for g in globs]
    return Selector(lambda e: any(_path_matches(p, e.path.split(".")) for p in patterns),
                    " | ".join(repr(g) for g in globs))


def path_contains(text):
    """Tensors whose path contains the text."""
    return Selector(lambda e: text in e.path, f"path_contains({text!r})")


def path_startswith(text):
    """Tensors whose path starts with the text."""
    return Selector(lambda e: e.path.startswith(text), f"path_startswith({text!r})")


def path_endswith(text):
    """Tensors whose path ends with the text."""
    return Selector(lambda e: e.path.endswith(text), f"path_endswith({text!r})")


def at_instances_of(*classes):
    """Tensors of modules of these classes, at any depth below them."""
    return Selector(lambda e: any(isinstance(o, classes) for o in e.owners),
                    f"at_instances_of({', '.join(c.__name__ for c in classes)})")


def of_kind(*kinds):
    """Tensors of these kinds: "parameter", "frozen", "buffer"."""
    for kind in kinds:
        if kind not in ("parameter", "frozen", "buffer"):
            raise SelectorError(f"kind {kind!r} is none of parameter, frozen, buffer")
    return Selector(lambda e: e.kind in kinds, f"of_kind({', '.join(map(repr, kinds))})")


def where(f):
    """Tensors for which `f(path, tensor)` holds."""
    return Selector(lambda e: f(e.path, e.tensor), f"where({getattr(f, '__name__', 'f')})")


def where_module(f):
    """Tensors of modules, at any depth, for which `f(module)` holds."""
    return Selector(lambda e: any(f(o) for o in e.owners), f"where_module({getattr(f, '__name__', 'f')})")


def any_of(*selectors):
    """Where any of them holds."""
    parts = [select(s) for s in selectors]
    return Selector(lambda e: any(p.matches(e) for p in parts), "(" + " | ".join(map(repr, parts)) + ")")


def all_of(*selectors):
    """Where all of them hold."""
    parts = [select(s) for s in selectors]
    return Selector(lambda e: all(p.matches(e) for p in parts), "(" + " & ".join(map(repr, parts)) + ")")


def not_(selector):
    """Where it does not hold."""
    part = select(selector)
    return Selector(lambda e: not part.matches(e), f"~{part!r}")


everything = Selector(lambda e: True, "everything")
nothing = Selector(lambda e: False, "nothing")


def select(what):
    """The Selector of anything that may stand for one. Raises SelectorError."""
    if isinstance(what, Selector):
        return what
    if what is None:
        return nothing
    if isinstance(what, str):
        kinds = _KINDS.get(what)
        return Selector(lambda e: e.kind in kinds, what) if kinds else at_path(what)
    if isinstance(what, type):
        if issubclass(what, Module):
            return at_instances_of(what)
        raise SelectorError(f"class {what.__name__} is no Module")
    if callable(what) and not isinstance(what, Module):
        return where(what)
    if isinstance(what, (list, tuple, set, frozenset)):
        if not what:
            raise SelectorError("an empty list selects nothing: say None when that is meant")
        return any_of(*what)
    raise SelectorError(f"{type(what).__name__} is no selector: give a glob, a Module class, a function or a Selector")


def partition(model, selector):
    """Two dicts `{path: tensor}` of a module: what the selector matches, and the rest."""
    return select(selector).partition(model)


def merge(model, *parts):
    """A copy of the module with tensors replaced by those in dicts `{path: tensor}`, such as `partition` gives."""
    values = {}
    for part in parts:
        values.update(part)
    return model.clone().set_tensors(values)


def freeze(model, selector="parameters"):
    """Makes parameters that match frozen: derivatives and optimisers leave them alone, and outside of traced functions
    they require no gradients. Returns the model."""
    return _marked(model, selector, "parameter", "frozen")


def unfreeze(model, selector="parameters"):
    """Takes `freeze` back. Returns the model."""
    return _marked(model, selector, "frozen", "parameter")


def _marked(model, selector, old, new):
    chosen = select(selector)
    found = {id(e.tensor): e.tensor for e in entries_of(model) if e.kind == old and chosen.matches(e)}
    for module in model.modules():
        module.mark_tensors(lambda x, kind: new if id(x) in found else kind)
    for x in found.values():
        if isinstance(x, Tensor) and not x.is_traced:
            x._set_parameter() if new == "parameter" else x.requires_grad_(False)
    return model


__all__ = ["Entry", "Selector", "SelectorError", "all_of", "any_of", "at_instances_of", "at_path", "everything",
           "freeze", "merge", "not_", "nothing", "of_kind", "partition", "path_contains", "path_endswith",
           "path_startswith", "select", "unfreeze", "where", "where_module"]
