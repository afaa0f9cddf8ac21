"""Types of nabla.core.tensor, which //tests/python:types_test holds to the module."""

from .._core import asarray as asarray
from .._nabla import DType as DType
from .._nabla import Tensor as Tensor

