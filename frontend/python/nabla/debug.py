"""Looking inside functions that are traced: prints and callbacks that happen when the program runs.

    @nb.jit
    def step(w, x):
        loss = nb.mean((x @ w) ** 2)
        nb.debug.print("loss {:.4f}", loss)
        return w - 0.1 * loss

They come in the order of the program, once per iteration of a loop and per example of a vmap; a derivative prints on
its way forward alone, and `remat` prints again where it computes again. Functions that are not compiled print when they
are called. Exported programs print in bundles, too: `nabla-run` and the C API have no Python, and print a callback as a
call of its name.
"""

import builtins
import contextlib
import itertools
import string

from . import _nabla
from ._core import Tensor, asarray
from ._trace import name_of
from .tree import is_array, tree_flatten

_callbacks = {}  # by the name that programs know them by
_numbers = itertools.count()
_enabled = True


def _handle(line, name, values):
    if name:
        _callbacks[name](values)
    else:
        builtins.print(line, flush=True)


_nabla.set_debug_handler(_handle)


def print(fmt, *args, **kwargs):  # noqa: A001
    """Prints `fmt.format(*args, **kwargs)` when the program runs.

    Fields that are tensors may have a format specification for one number, which holds for every element; arrays of
    more than 1,000 elements show three at each end of each dimension. What is no tensor is formatted now. Raises Error
    (E0204) for a specification that does not fit the tensor's dtype.
    """
    if not _enabled:
        return
    text, operands = _positional(fmt, args, kwargs)
    if _nabla.is_tracing():
        _nabla.emit("debug", operands, {"text": text, "callback": ""})
    else:
        builtins.print(_nabla.debug_line(text, operands), flush=True)


def callback(fun, *args, **kwargs):
    """Calls `fun(*args, **kwargs)` when the program runs, with tensors that have elements in place of traced ones.

    Its result is dropped. An exception ends the run with an Error (E0709) that names it. The function is kept as long
    as the process.
    """
    if not _enabled:
        return
    if not _nabla.is_tracing():
        fun(*args, **kwargs)
        return
    leaves, form = tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if is_array(leaf)]
    operands = [asarray(leaves[i]) for i in places]
    for i in places:
        leaves[i] = None

    def call(values):
        filled = list(leaves)
        for i, v in zip(places, values):
            filled[i] = v
        inner_args, inner_kwargs = form.unflatten(filled)
        fun(*inner_args, **inner_kwargs)

    name = f"{name_of(fun)}_{next(_numbers)}"
    _callbacks[name] = call
    _nabla.emit("debug", operands, {"text": "", "callback": name})


@contextlib.contextmanager
def disabled():
    """Within the context nothing is printed and no callback is called, and functions are traced and compiled without
    them: they cost nothing."""
    global _enabled
    before = _enabled
    _set_enabled(False)
    try:
        yield
    finally:
        _set_enabled(before)


def enabled():
    """Whether prints and callbacks happen: not within `disabled()`."""
    return _enabled


def _set_enabled(wanted):
    global _enabled
    from .compiled import _forget_known_calls
    _enabled = wanted
    _forget_known_calls()


def _positional(fmt, args, kwargs):
    """`fmt` with `{}` or `{:SPEC}` for each field that is a tensor, and these tensors in their order."""
    formatter, text, operands, auto = string.Formatter(), [], [], itertools.count()
    for literal, field, spec, conversion in formatter.parse(fmt):
        text.append(_braced(literal))
        if field is None:
            continue
        if field == "" or field[0] in ".[":
            field = f"{next(auto)}{field}"
        value, _ = formatter.get_field(field, args, kwargs)
        spec = formatter.vformat(spec, args, kwargs) if spec else ""
        if isinstance(value, Tensor) or (is_array(value) and not isinstance(value, (bool, int, float))):
            if conversion:
                raise ValueError(f"debug.print: field {field!r} is a tensor, which !{conversion} does not convert")
            operands.append(asarray(value))
            text.append(f"{{:{spec}}}" if spec else "{}")
        else:
            text.append(_braced(format(formatter.convert_field(value, conversion), spec)))
    return "".join(text), operands


def _braced(text):
    return text.replace("{", "{{").replace("}", "}}")


__all__ = ["callback", "disabled", "enabled", "print"]
