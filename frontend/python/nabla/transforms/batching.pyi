"""Types of nabla.transforms.batching, which //tests/python:types_test holds to the module."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from .._mesh import DeviceMesh

_P = ParamSpec("_P")
_R = TypeVar("_R")

@overload
def vmap(
    fun: Callable[_P, _R], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None,
    spmd_axis_name: str | None = None, mesh: DeviceMesh | None = None
) -> Callable[_P, _R]: ...
@overload
def vmap(
    fun: None = None, in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None,
    spmd_axis_name: str | None = None, mesh: DeviceMesh | None = None
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
