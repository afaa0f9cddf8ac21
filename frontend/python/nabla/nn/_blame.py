"""Which layer of a model an error comes from."""

from .. import _nabla
from .._core import Tensor

_KINDS = (TypeError, ValueError, _nabla.Error)


def add_module(error, module, args):
    """Adds to the text of an error that left `module.forward(*args)` which module it was, where it is in the outermost
    module that is being called, and what it got. Other errors than Python's and Nabla's own keep their text."""
    if type(error) not in _KINDS or len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    known = getattr(error, "_nabla_module", None)
    if known is None:
        shown = ", ".join(a.type_str() if isinstance(a, Tensor) else type(a).__name__ for a in args)
        known = error._nabla_module = (error.args[0], module, shown)
    text, inner, shown = known
    end = "\n" if text.endswith("\n") else ""
    path = next((path for path, m in module.named_modules() if m is inner), "")
    name = f"{type(inner).__name__}({inner.extra_repr()})" if len(inner.modules()) == 1 else type(inner).__name__
    place = f", `{path}` of {type(module).__name__}" if path else ""
    error.args = (f"{text.rstrip()}\n   = note: in {name}{place}, called with {shown or 'nothing'}{end}",)
