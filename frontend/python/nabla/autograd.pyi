"""Types of nabla.autograd, which //tests/python:types_test holds to the module."""

from collections.abc import Sequence
from contextlib import ContextDecorator
from types import TracebackType

from ._nabla import Tensor
from .typing import ArrayLike

class no_grad(ContextDecorator):
    def __enter__(self) -> no_grad: ...
    def __exit__(
        self, *exception: type[BaseException] | BaseException | TracebackType | None
    ) -> None: ...

def backward(
    outputs: Tensor | Sequence[Tensor], cotangents: ArrayLike | Sequence[ArrayLike | None] | None = None,
    retain_graph: bool = False, create_graph: bool = False, inputs: Sequence[Tensor] | None = None
) -> None: ...
def detach(x: ArrayLike) -> Tensor: ...
