"""Types of nabla.transforms.derivatives, which //tests/python:types_test holds to the module."""

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

_P = ParamSpec("_P")
_A = TypeVar("_A", bound=Any)  # so that checkers take any lambda
_R = TypeVar("_R")
_X = TypeVar("_X")

# By one argument, the first, the gradient has its type.
@overload
def value_and_grad(  # type: ignore[misc]
    fun: Callable[Concatenate[_A, _P], _R], argnums: Literal[0] = 0, create_graph: bool = True, realize: bool = True,
    *, has_aux: bool = False
) -> Callable[Concatenate[_A, _P], tuple[_R, _A]]: ...
@overload
def value_and_grad(
    fun: Callable[_P, _R], argnums: int, create_graph: bool = True, realize: bool = True, *, has_aux: bool = False
) -> Callable[_P, tuple[_R, Any]]: ...
@overload
def value_and_grad(
    fun: Callable[_P, _R], argnums: Sequence[int], create_graph: bool = True, realize: bool = True, *,
    has_aux: bool = False
) -> Callable[_P, tuple[_R, tuple[Any, ...]]]: ...
@overload
def grad(
    fun: Callable[Concatenate[_A, _P], Any], argnums: Literal[0] = 0, create_graph: bool = True, realize: bool = True,
    *, has_aux: Literal[False] = False
) -> Callable[Concatenate[_A, _P], _A]: ...
@overload
def grad(
    fun: Callable[Concatenate[_A, _P], tuple[Any, _X]], argnums: Literal[0] = 0, create_graph: bool = True,
    realize: bool = True, *, has_aux: Literal[True]
) -> Callable[Concatenate[_A, _P], tuple[_A, _X]]: ...
@overload
def grad(
    fun: Callable[_P, Any], argnums: Sequence[int], create_graph: bool = True, realize: bool = True, *,
    has_aux: Literal[False] = False
) -> Callable[_P, tuple[Any, ...]]: ...
@overload
def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, create_graph: bool = True, realize: bool = True, *,
    has_aux: bool = False
) -> Callable[..., Any]: ...
@overload
def vjp(
    fun: Callable[..., _R], *primals: Any, has_aux: Literal[False] = False, create_graph: bool = True
) -> tuple[_R, Callable[[_R], tuple[Any, ...]]]: ...
@overload
def vjp(
    fun: Callable[..., tuple[_R, _X]], *primals: Any, has_aux: Literal[True], create_graph: bool = True
) -> tuple[_R, Callable[[_R], tuple[Any, ...]], _X]: ...
@overload
def jvp(
    fun: Callable[..., _R], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: Literal[False] = False,
    create_graph: bool = True
) -> tuple[_R, _R]: ...
@overload
def jvp(
    fun: Callable[..., tuple[_R, _X]], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: Literal[True],
    create_graph: bool = True
) -> tuple[_R, _R, _X]: ...
def linearize(fun: Callable[..., _R], *primals: Any) -> tuple[_R, Callable[..., _R]]: ...
def linear_transpose(fun: Callable[..., _R], *primals: Any) -> Callable[[_R], tuple[Any, ...]]: ...
