"""Types of nabla.transforms.jacobians, which //tests/python:types_test holds to the module."""

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, overload

from .._nabla import Tensor

_P = ParamSpec("_P")

@overload
def jacfwd(
    fun: Callable[Concatenate[Tensor, _P], Tensor], argnums: int | None = None, has_aux: Literal[False] = False
) -> Callable[Concatenate[Tensor, _P], Tensor]: ...
@overload
def jacfwd(
    fun: Callable[_P, Any], argnums: int | Sequence[int] | None = None, has_aux: bool = False
) -> Callable[_P, Any]: ...
@overload
def jacrev(
    fun: Callable[Concatenate[Tensor, _P], Tensor], argnums: int | None = None, has_aux: Literal[False] = False
) -> Callable[Concatenate[Tensor, _P], Tensor]: ...
@overload
def jacrev(
    fun: Callable[_P, Any], argnums: int | Sequence[int] | None = None, has_aux: bool = False
) -> Callable[_P, Any]: ...
@overload
def hessian(
    fun: Callable[Concatenate[Tensor, _P], Tensor], argnums: int | None = None
) -> Callable[Concatenate[Tensor, _P], Tensor]: ...
@overload
def hessian(fun: Callable[_P, Any], argnums: int | Sequence[int] | None = None) -> Callable[_P, Any]: ...
@overload
def hvp(fun: Callable[[Tensor], Tensor], primals: Any, tangents: Any) -> Tensor: ...
@overload
def hvp(fun: Callable[..., Any], primals: Any, tangents: Any) -> Any: ...
