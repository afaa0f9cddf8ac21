"""Nabla: trace functions of tensors, differentiate, batch and compile them, and write programs for nablac.

    import nabla as nb
    x = nb.asarray([1.0, 2.0])
    nb.grad(lambda v: nb.sum(v * v))(x)
"""

import os as _os

from . import _nabla

# Lines of this package's own files are not the user's; the kernels of eager tensors lie beside the extension module.
_nabla.set_folders(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep,
                   _os.path.join(_os.path.dirname(_os.path.abspath(_nabla.__file__)), "eager") + _os.sep)

from ._core import *  # noqa: E402,F401,F403
from ._core import DType
from .autograd import *  # noqa: E402,F401,F403
from .compiled import *  # noqa: E402,F401,F403
from .compiled import _clear_caches  # noqa: F401
from .devices import *  # noqa: E402,F401,F403
from .export import *  # noqa: E402,F401,F403
from .kernels import *  # noqa: E402,F401,F403
from .ops import *  # noqa: E402,F401,F403
from .transforms import *  # noqa: E402,F401,F403
from .tree import (  # noqa: F401
    PyTreeDef, is_tensor, register_pytree_node, tensor_leaves, tree_flatten, tree_leaves, tree_map, tree_structure,
    tree_unflatten)

from . import _methods, config, core, debug, fft, linalg, ops, random, transforms  # noqa: E402,F401
from ._methods import *  # noqa: E402,F401,F403
from .random import rand, randn, seed  # noqa: E402,F401

from . import nn, testing  # noqa: E402,F401 isort: skip

__version__ = _nabla.__version__

for _name, _dtype in DType.__members__.items():
    globals().setdefault(_name if _name != "bool" else "bool_", _dtype)
float32, float64, float16, bfloat16 = DType.float32, DType.float64, DType.float16, DType.bfloat16


def realize(x):
    """Computes a tensor now, or all tensors of a tree, and returns it."""
    realize_all(*tensor_leaves(x))
    return x


def realize_all(*tensors):
    """Computes several tensors in one graph."""
    _nabla.realize(list(tensors))
    return tensors
