"""Settings as they are now. They are changed by context managers (default_dtype, default_device, defaults), which hold
in the thread or task that entered them, and by the environment variable NABLA_DEFAULT_DEVICE ("cpu")."""

from . import _nabla
from ._core import default_float
from .devices import default_device_now

_GONE = {
    "EAGER_MAX_GRAPH": "ops are always recorded, and computed when somebody looks",
    "VERIFY_EAGER_SHAPES": "shapes are checked when an op is called",
    "GRAPH": "there is no global graph; nabla.jit keeps what it compiled, see its `stats`",
}


def is_tracing():
    """Whether a function is traced now, by a transform or a compiler: values have no elements then."""
    return _nabla.is_tracing()


def __getattr__(name):
    if name == "default_dtype":
        return default_float()
    if name == "default_device":
        return default_device_now()
    if name == "TRACING":
        return is_tracing()
    if name in _GONE:
        raise AttributeError(f"nabla.config has no {name}: {_GONE[name]}")
    raise AttributeError(f"nabla.config has no {name}; it has default_dtype, default_device, TRACING")


__all__ = ["is_tracing"]
