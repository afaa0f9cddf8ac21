"""Types of nabla.transforms.shapes, which //tests/python:types_test holds to the module."""

from collections.abc import Callable
from typing import Any, overload

from .._nabla import Tensor
from ..export import Spec

@overload
def eval_shape(fun: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Spec: ...
@overload
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
