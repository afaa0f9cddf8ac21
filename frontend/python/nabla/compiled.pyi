"""Types of nabla.compiled, which //tests/python:types_test holds to the module."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar, overload

from ._mesh import DeviceMesh
from .profiling import Memory, Profile

_P = ParamSpec("_P")
_R = TypeVar("_R")
_DynamicDims = Mapping[int, Mapping[int, str | tuple[str, int, int] | Dynamic]]

class CacheStats(NamedTuple):
    hits: int
    misses: int
    hit_rate: float
    compile_seconds: float
    run_seconds: float
    size: int
    causes: tuple[str, ...]

class Dynamic:
    name: str
    min: int
    max: int | None
    multiple: int
    def __init__(self, name: str, min: int = 1, max: int | None = None, multiple: int = 1) -> None: ...
    def bound(self, size: int) -> int: ...

class Compiled(Generic[_P, _R]):
    def __init__(
        self, fun: Callable[_P, _R], static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = (), donate_argnums: int | Sequence[int] = (),
        dynamic_dims: _DynamicDims | None = None, max_cache_size: int = 64, target: str = "", threads: int = 0,
        check_nan: bool = False, auto_shard: DeviceMesh | None = None,
        engine: Literal["local", "mpi"] | None = None, in_shardings: Any = None, out_shardings: Any = None,
        mesh: DeviceMesh | Mapping[str, int] | None = None, layouts: Mapping[str, Sequence[Any]] | None = None,
        data_axes: str | Sequence[str] = (), zero: int = 0, microbatches: int | None = None,
        max_gather_bytes: str | int | None = None
    ) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Callable[..., _R]: ...
    def memory(self, *args: Any, **kwargs: Any) -> Memory: ...
    def inspect(self, *args: Any, **kwargs: Any) -> IR: ...
    def why(self, value: str, *args: Any, **kwargs: Any) -> IR: ...
    def profile(self, *args: Any, runs: int = 10, **kwargs: Any) -> Profile: ...
    @property
    def stats(self) -> CacheStats: ...
    def clear_cache(self) -> None: ...

def disable_jit() -> AbstractContextManager[None]: ...
@overload
def jit(
    fun: Callable[_P, _R], static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (), dynamic_dims: _DynamicDims | None = None, max_cache_size: int = 64,
    target: str = "", threads: int = 0, check_nan: bool = False, auto_shard: DeviceMesh | None = None,
    engine: Literal["local", "mpi"] | None = None, in_shardings: Any = None, out_shardings: Any = None,
    mesh: DeviceMesh | Mapping[str, int] | None = None, layouts: Mapping[str, Sequence[Any]] | None = None,
    data_axes: str | Sequence[str] = (), zero: int = 0, microbatches: int | None = None,
    max_gather_bytes: str | int | None = None
) -> Compiled[_P, _R]: ...
@overload
def jit(
    fun: None = None, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (), dynamic_dims: _DynamicDims | None = None, max_cache_size: int = 64,
    target: str = "", threads: int = 0, check_nan: bool = False, auto_shard: DeviceMesh | None = None,
    engine: Literal["local", "mpi"] | None = None, in_shardings: Any = None, out_shardings: Any = None,
    mesh: DeviceMesh | Mapping[str, int] | None = None, layouts: Mapping[str, Sequence[Any]] | None = None,
    data_axes: str | Sequence[str] = (), zero: int = 0, microbatches: int | None = None,
    max_gather_bytes: str | int | None = None
) -> Callable[[Callable[_P, _R]], Compiled[_P, _R]]: ...
@overload
def compile(
    fun: Callable[_P, _R], fullgraph: bool = False, max_cache_size: int = 64,
    dynamic_dims: _DynamicDims | None = None, **options: Any
) -> Compiled[_P, _R]: ...
@overload
def compile(
    fun: None = None, fullgraph: bool = False, max_cache_size: int = 64, dynamic_dims: _DynamicDims | None = None,
    **options: Any
) -> Callable[[Callable[_P, _R]], Compiled[_P, _R]]: ...

class IR(str): ...
class CompilerNote(UserWarning): ...

def make_ir(fun: Callable[_P, Any], stage: str = "traced") -> Callable[_P, IR]: ...
def trace(fun: Callable[_P, Any], *args: _P.args, **kwargs: _P.kwargs) -> IR: ...
