"""Settings as they are now. They are changed by context managers (default_dtype, default_device, defaults), which hold
in the thread or task that entered them, and by the environment variable NABLA_DEFAULT_DEVICE ("cpu"). `log_compiles`,
a bool that may be set, has each compile of a function logged with its cause; the environment variable
NABLA_LOG_COMPILES sets it. `full_tracebacks` (NABLA_FULL_TRACEBACKS) has uncaught errors printed with the frames of
this package, too."""

import contextlib
import sys
import types
import warnings

from . import _nabla, _tracebacks, recompiles
from ._core import default_float
from .devices import default_device_now

# Choices that another library of this interface has, and the one that is made here.
_FIXED = {
    "EAGER_MAX_GRAPH": (False, "ops are recorded, and computed when somebody looks"),
    "VERIFY_EAGER_SHAPES": (True, "shapes are checked when an op is called"),
}
_GONE = {
    "GRAPH": "there is no global graph; nabla.jit keeps what it compiled, see its `stats`",
}


def is_tracing():
    """Whether a function is traced now, by a transform or a compiler: values have no elements then."""
    return _nabla.is_tracing()


# Whether each compile of a compiled function is logged, with its cause, by the logger "nabla".
log_compiles = recompiles.from_environment()
# Whether tracebacks of uncaught errors have the frames of this package.
full_tracebacks = _tracebacks.from_environment()
_tracebacks.install(lambda: full_tracebacks)


def __getattr__(name):
    if name == "default_dtype":
        return default_float()
    if name == "default_device":
        return default_device_now()
    if name == "TRACING":
        return is_tracing()
    if name in _FIXED:
        return _FIXED[name][0]
    if name in _GONE:
        raise AttributeError(f"nabla.config has no {name}: {_GONE[name]}")
    raise AttributeError(f"nabla.config has no {name}; it has default_dtype, default_device, TRACING")


def _told(name, value):
    fixed, why = _FIXED[name]
    if bool(value) != fixed:
        warnings.warn(f"nabla.config.{name} = {value!r} changes nothing: {why}", RuntimeWarning, stacklevel=3)


class _Config(types.ModuleType):
    def __setattr__(self, name, value):
        if name in _FIXED:
            _told(name, value)
        else:
            super().__setattr__(name, value)


def set_eager_max_graph(value):
    """Warns where the value is True: there is one way of running."""
    _told("EAGER_MAX_GRAPH", value)


def set_verify_eager_shapes(value):
    """Warns where the value is False: shapes are always checked."""
    _told("VERIFY_EAGER_SHAPES", value)


@contextlib.contextmanager
def eager_max_graph_context(value):
    """As set_eager_max_graph."""
    _told("EAGER_MAX_GRAPH", value)
    yield


@contextlib.contextmanager
def verify_eager_shapes_context(value):
    """As set_verify_eager_shapes."""
    _told("VERIFY_EAGER_SHAPES", value)
    yield


sys.modules[__name__].__class__ = _Config

__all__ = ["eager_max_graph_context", "is_tracing", "set_eager_max_graph", "set_verify_eager_shapes",
           "verify_eager_shapes_context"]
