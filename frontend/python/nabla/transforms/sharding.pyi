"""Types of nabla.transforms.sharding, which //tests/python:types_test holds to the module."""

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from .._mesh import DeviceMesh

_P = ParamSpec("_P")
_R = TypeVar("_R")

@overload
def shard_map(
    func: Callable[_P, _R], mesh: DeviceMesh | None = None, in_specs: Any = None, out_specs: Any = None,
    auto_sharding: bool = False, debug: bool = False, axis_names: str | Sequence[str] | None = None
) -> Callable[_P, _R]: ...
@overload
def shard_map(
    func: None = None, mesh: DeviceMesh | None = None, in_specs: Any = None, out_specs: Any = None,
    auto_sharding: bool = False, debug: bool = False, axis_names: str | Sequence[str] | None = None
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
