"""Types of nabla.transforms.memory, which //tests/python:types_test holds to the module."""

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar, overload

from .._nabla import Tensor
from ..typing import ArrayLike, DTypeLike

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")

@overload
def checkpoint(fun: Callable[_P, _R], *, policy: str | None = None, names: Sequence[str] = ()) -> Callable[_P, _R]: ...
@overload
def checkpoint(
    fun: None = None, *, policy: str | None = None, names: Sequence[str] = ()
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
remat = checkpoint
def checkpoint_name(x: ArrayLike, name: str) -> Tensor: ...
def stop_gradient(x: _T) -> _T: ...
def autocast(fun: Callable[_P, _R], dtype: DTypeLike = "bfloat16") -> Callable[_P, _R]: ...
