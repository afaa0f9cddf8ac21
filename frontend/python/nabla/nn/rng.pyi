"""Types of nabla.nn.rng, which //tests/python:types_test holds to the module."""

from contextlib import AbstractContextManager
from .._nabla import Tensor

def rngs(key: int | Tensor) -> AbstractContextManager[None]: ...
