"""Names under which the Python library nabla-ml has what is in `nabla`."""

from .._core import DType, Tensor
from ..tree import PyTreeDef, register_pytree_node, tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from . import autograd, pytree, tensor

__all__ = ["DType", "PyTreeDef", "Tensor", "autograd", "pytree", "register_pytree_node", "tensor", "tree_flatten",
           "tree_leaves", "tree_map", "tree_structure", "tree_unflatten"]
