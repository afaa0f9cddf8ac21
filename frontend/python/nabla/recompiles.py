"""Why a function was compiled again: what of its arguments changed, said on request and when it happens often."""

import logging
import os
import warnings

from . import _nabla, debug
from ._mesh import logical_rules, spec_of
from ._trace import type_text

_log = logging.getLogger("nabla")
# As many forms of one function are no accident any more.
MANY = 8


def wanted():
    """Whether each compile is said: nabla.config.log_compiles, or the environment variable NABLA_LOG_COMPILES."""
    from . import config
    return config.log_compiles


def from_environment():
    """What the environment says of log_compiles."""
    return os.environ.get("NABLA_LOG_COMPILES", "").lower() not in ("", "0", "false", "no")


def signature_of(arguments, names, types, static, default):
    """What a compiled function is compiled for, `{what: how}` in the caller's words."""
    out, meshes = {}, []
    for i, (name, (dtype, shape), x) in enumerate(zip(names, types, arguments.tensors)):
        spec = spec_of(x)
        out[name] = ("a Python float" if i in arguments.weak else type_text(dtype, shape) if spec is None
                     else _laid_out_text(dtype, shape, spec))
        if not all(isinstance(n, int) for n in shape) and spec is not None and _nabla.placement(x)[1].allow_padding:
            out[name] += " with padding allowed"
        if spec is not None and spec.mesh not in meshes:
            meshes.append(spec.mesh)
    places = set(arguments.places)
    paths = arguments.treedef.children[0].leaf_paths() + arguments.treedef.children[1].leaf_paths()
    for place, leaf in enumerate(arguments.others):
        if place not in places:
            out[f"argument {paths[place]}"] = repr(leaf)
    for where, value in static:
        out[f"static argument {where}"] = repr(value)
    out["the form of the arguments"] = repr(arguments.treedef)
    out["the mesh"] = ", ".join(repr(mesh) for mesh in meshes) or "none"
    out["the default dtype"] = default.name
    out["whether nabla.debug prints"] = repr(debug.enabled())
    out["logical_axis_rules"] = repr(list(logical_rules.get()))
    return out


def _laid_out_text(dtype, shape, spec):
    """A type with the axes that cut it, as the IR writes it: f32[8@dp,8]."""
    words = [repr(d) for d in spec.dim_specs]
    # One axis alone stands without braces.
    words = [d.axes[0] if word == f"{{{d.axes and d.axes[0]}}}" else word for d, word in zip(spec.dim_specs, words)]
    text = type_text(dtype, [n if word == "{}" else f"{n}@{word}" for n, word in zip(shape, words)])
    if spec.replicated_axes:
        return f"{text} replicated {{{', '.join(sorted(spec.replicated_axes))}}}"
    return text if any(word != "{}" for word in words) else f"{text} on every rank"


def cause_of(signature, earlier):
    """Why this form was compiled, in words: of the earlier ones, the nearest says what changed."""
    if not earlier:
        return "it is called for the first time"
    nearest = min(reversed(earlier), key=lambda other: len(_changes(other, signature)))
    changes = _changes(nearest, signature)
    if not changes:
        return "it was forgotten since: by clear_cache(), or for max_cache_size other forms"
    return ", ".join(changes[:4]) + (f" and {len(changes) - 4} more" if len(changes) > 4 else "")


def _changes(before, now):
    out = []
    for name in [*now, *(n for n in before if n not in now)]:
        a, b = before.get(name), now.get(name)
        # These follow from what is said already.
        follows = out and name in ("the form of the arguments", "the mesh")
        if a != b and not follows:
            out.append(f"{name} is new, {b}" if a is None else f"{name} is gone" if b is None
                       else f"{name} changed from {a} to {b}")
    return out


def tell(name, cause, count, seconds):
    """Logs a compile where that is wanted, and warns at the eighth of one function."""
    if wanted():
        _log.warning("%s compiled in %.2f s (%d so far): %s", name, seconds, count, cause)
    if count == MANY:
        warnings.warn(f"{name} was compiled {count} times, now because {cause}. Sizes that vary are dynamic_dims, "
                      "numbers that vary are arguments that are not static, layouts are pinned by in_shardings and "
                      "out_shardings; nabla.config.log_compiles = True says each compile with its cause",
                      RuntimeWarning, stacklevel=2)
