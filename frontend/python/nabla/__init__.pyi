"""Types of nabla, which //tests/python:types_test holds to the module."""

from collections.abc import Sequence
from typing import TypeVar

from . import config as config, core as core, debug as debug, fft as fft, linalg as linalg, nn as nn, ops as ops
from . import distributed as distributed
from . import profiling as profiling, random as random, testing as testing, transforms as transforms, tree as tree
from ._core import *
from ._methods import *
from ._nabla import DType as DType
from ._nabla import Tensor as Tensor
from .autograd import *
from .compiled import *
from .devices import *
from .export import *
from .plan import *
from .kernels import *
from .ops.base import *
from .ops.binary import *
from .ops.communication import *
from .ops.comparison import *
from .ops.control_flow import *
from .ops.convolution import *
from .ops.creation import *
from .ops.functional import *
from .ops.gathering import *
from .ops.multi_output import *
from .ops.nans import *
from .ops.numbers import *
from .ops.places import *
from .ops.polynomial import *
from .ops.pooling import *
from .ops.reduction import *
from .ops.sets import *
from .ops.signal import *
from .ops.sorting import *
from .ops.statistics import *
from .ops.unary import *
from .ops.view import *
from .random import rand as rand
from .random import randn as randn
from .random import seed as seed
from .transforms.batching import *
from .transforms.control import *
from .transforms.derivatives import *
from .transforms.jacobians import *
from .transforms.logical import *
from .transforms.memory import *
from .transforms.rules import *
from .transforms.shapes import *
from .transforms.sharding import *
from .tree import PyTreeDef as PyTreeDef
from .tree import is_tensor as is_tensor
from .tree import register_pytree_node as register_pytree_node
from .tree import tensor_leaves as tensor_leaves
from .tree import tree_flatten as tree_flatten
from .tree import tree_leaves as tree_leaves
from .tree import tree_map as tree_map
from .tree import tree_structure as tree_structure
from .tree import tree_unflatten as tree_unflatten

_T = TypeVar("_T")

__version__: str
bool_: DType
int8: DType
int16: DType
int32: DType
int64: DType
uint8: DType
uint16: DType
uint32: DType
uint64: DType
float16: DType
bfloat16: DType
float32: DType
float64: DType

def realize(x: _T) -> _T: ...
def realize_all(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...
