"""Types of nabla.core, which //tests/python:types_test holds to the module."""

from . import autograd as autograd
from . import pytree as pytree
from . import sharding as sharding
from . import tensor as tensor
from .._core import default_dtype as default_dtype
from .._nabla import DType as DType
from .._nabla import Tensor as Tensor
from ..compiled import trace as trace
from ..devices import default_device as default_device
from ..devices import defaults as defaults
from ..devices import defaults_like as defaults_like
from ..tree import PyTreeDef as PyTreeDef
from ..tree import is_tensor as is_tensor
from ..tree import register_pytree_node as register_pytree_node
from ..tree import tensor_leaves as tensor_leaves
from ..tree import tree_flatten as tree_flatten
from ..tree import tree_leaves as tree_leaves
from ..tree import tree_map as tree_map
from ..tree import tree_structure as tree_structure
from ..tree import tree_unflatten as tree_unflatten

