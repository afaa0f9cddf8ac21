"""Why a function was compiled again: what of its arguments changed, said on request and when it happens often."""

import logging
import os
import warnings

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
    out = {}
    for name, (dtype, shape) in zip(names, types):
        out[name] = type_text(dtype, shape)
    places = set(arguments.places)
    paths = arguments.treedef.children[0].leaf_paths() + arguments.treedef.children[1].leaf_paths()
    for place, leaf in enumerate(arguments.others):
        if place not in places:
            out[f"argument {paths[place]}"] = repr(leaf)
    for where, value in static:
        out[f"static argument {where}"] = repr(value)
    out["the form of the arguments"] = repr(arguments.treedef)
    out["the default dtype"] = default.name
    return out


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
        if a != b and not (name == "the form of the arguments" and out):
            out.append(f"{name} is new, {b}" if a is None else f"{name} is gone" if b is None
                       else f"{name} changed from {a} to {b}")
    return out


def tell(name, cause, count, seconds):
    """Logs a compile where that is wanted, and warns at the eighth of one function."""
    if wanted():
        _log.warning("%s compiled in %.2f s (%d so far): %s", name, seconds, count, cause)
    if count == MANY:
        warnings.warn(f"{name} was compiled {count} times, now because {cause}. Sizes that vary are dynamic_dims, "
                      "numbers that vary are arguments that are not static; nabla.config.log_compiles = True says each "
                      "compile with its cause", RuntimeWarning, stacklevel=2)
