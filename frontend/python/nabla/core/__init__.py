"""Names under which the Python library nabla-ml has what is in `nabla`."""

from .._core import DType, Tensor, default_dtype
from ..compiled import trace
from ..devices import default_device, defaults, defaults_like
from ..tree import (
    PyTreeDef, is_tensor, register_pytree_node, tensor_leaves, tree_flatten, tree_leaves, tree_map, tree_structure,
    tree_unflatten)
from . import autograd, pytree, sharding, tensor

__all__ = ["DType", "PyTreeDef", "Tensor", "autograd", "default_device", "default_dtype", "defaults", "defaults_like",
           "is_tensor", "pytree", "register_pytree_node", "sharding", "tensor", "tensor_leaves", "trace",
           "tree_flatten", "tree_leaves", "tree_map", "tree_structure", "tree_unflatten"]
