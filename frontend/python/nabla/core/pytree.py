"""Trees: see nabla.tree."""

from ..tree import (
    PyTreeDef, is_tensor, register_pytree_node, tensor_leaves, tree_flatten, tree_leaves, tree_map, tree_structure,
    tree_unflatten)

__all__ = ["PyTreeDef", "is_tensor", "register_pytree_node", "tensor_leaves", "tree_flatten", "tree_leaves", "tree_map",
           "tree_structure", "tree_unflatten"]
