"""Types of nabla.core.pytree, which //tests/python:types_test holds to the module."""

from ..tree import PyTreeDef as PyTreeDef
from ..tree import is_tensor as is_tensor
from ..tree import register_pytree_node as register_pytree_node
from ..tree import tensor_leaves as tensor_leaves
from ..tree import tree_flatten as tree_flatten
from ..tree import tree_leaves as tree_leaves
from ..tree import tree_map as tree_map
from ..tree import tree_structure as tree_structure
from ..tree import tree_unflatten as tree_unflatten

