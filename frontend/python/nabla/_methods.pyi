"""Types of nabla._methods, which //tests/python:types_test holds to the module."""

from typing import overload

from ._nabla import Size, Tensor
from .typing import ArrayLike, NDArray

class _Count(int):
    def __call__(self) -> int: ...

class _Size(_Count):
    @overload  # type: ignore[override]
    def __call__(self, dim: None = None) -> tuple[Size, ...]: ...
    @overload
    def __call__(self, dim: int) -> Size: ...

def from_dlpack(source: object, /) -> Tensor: ...
def to_numpy_all(*tensors: ArrayLike) -> list[NDArray]: ...
