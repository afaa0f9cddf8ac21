"""Nabla: trace functions of tensors, differentiate, batch and compile them, and write programs for nablac.

    import nabla as nb
    x = nb.asarray([1.0, 2.0])
    nb.grad(lambda v: nb.sum(v * v))(x)
"""

import atexit as _atexit
import os as _os

from . import _nabla

# Lines of this package's own files are not the user's; the kernels of eager tensors lie beside the extension module.
_nabla.set_folders(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep,
                   _os.path.join(_os.path.dirname(_os.path.abspath(_nabla.__file__)), "eager") + _os.sep)

# Threads that the interpreter does not wait for must not run compiled code while it goes away.
_atexit.register(_nabla.end_work)
_os.register_at_fork(after_in_child=_nabla.forget_work)

from ._core import *  # noqa: E402,F401,F403
from ._core import DType
from ._core import several as _several
from .autograd import *  # noqa: E402,F401,F403
from .compiled import *  # noqa: E402,F401,F403
from .compiled import _clear_caches  # noqa: F401
from .devices import *  # noqa: E402,F401,F403
from .export import *  # noqa: E402,F401,F403
from .plan import *  # noqa: E402,F401,F403
from .kernels import *  # noqa: E402,F401,F403
from .ops import *  # noqa: E402,F401,F403
from .transforms import *  # noqa: E402,F401,F403
from .tree import (  # noqa: F401
    PyTreeDef, is_tensor, register_pytree_node, tensor_leaves, tree_flatten, tree_leaves, tree_map, tree_structure,
    tree_unflatten)

from . import _methods, config, core, debug, distributed, fft, linalg, ops, random, transforms, tree  # noqa: E402,F401
from ._methods import *  # noqa: E402,F401,F403
from .random import rand, randn, seed  # noqa: E402,F401

from . import nn, testing  # noqa: E402,F401 isort: skip
from ._hints import module_getattr as _module_getattr  # noqa: E402

__version__ = _nabla.__version__

for _name, _dtype in DType.__members__.items():
    globals().setdefault(_name if _name != "bool" else "bool_", _dtype)
float32, float64, float16, bfloat16 = DType.float32, DType.float64, DType.float16, DType.bfloat16


def _refuse_to_pickle(self, protocol):
    raise TypeError(f"cannot pickle '{type(self).__name__}' object")


for _class in vars(_nabla).values():
    if isinstance(_class, type) and not {"__reduce__", "__reduce_ex__", "__getstate__"} & vars(_class).keys():
        _class.__reduce_ex__ = _refuse_to_pickle


__getattr__ = _module_getattr(__name__)

# Modules whose functions are here themselves.
_PARTS = {"autograd", "compiled", "devices", "kernels", "recompiles"}


def __dir__():
    """What programs use: functions, classes, dtypes and the modules nn, linalg, fft, random, tree and the like."""
    return sorted(name for name in globals() if not name.startswith("_") and name not in _PARTS) + ["__version__"]


def realize(x):
    """Computes a tensor now, or all tensors of a tree, and returns it."""
    realize_all(*tensor_leaves(x))
    return x


def realize_all(*tensors):
    """Computes several tensors, given one by one or as one list, in one graph."""
    tensors = _several(tensors)
    _nabla.realize(list(tensors))
    return tensors
