"""Types of nabla.nn.training, which //tests/python:types_test holds to the module."""

from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from .._nabla import Tensor
from ..typing import SelectorLike

_P = ParamSpec("_P")
_M = TypeVar("_M", bound=Any)  # so that checkers take any lambda
_R = TypeVar("_R")
_X = TypeVar("_X")

def value_and_grad(
    fun: Callable[Concatenate[_M, _P], _R], wrt: SelectorLike = "trainable", has_aux: bool = False
) -> Callable[Concatenate[_M, _P], tuple[_R, dict[str, Tensor]]]: ...
@overload
def grad(
    fun: Callable[Concatenate[_M, _P], Any], wrt: SelectorLike = "trainable", has_aux: Literal[False] = False
) -> Callable[Concatenate[_M, _P], dict[str, Tensor]]: ...
@overload
def grad(
    fun: Callable[Concatenate[_M, _P], tuple[Any, _X]], wrt: SelectorLike = "trainable", *, has_aux: Literal[True]
) -> Callable[Concatenate[_M, _P], tuple[dict[str, Tensor], _X]]: ...
