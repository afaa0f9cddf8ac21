"""Types of nabla.export, which //tests/python:types_test holds to the module."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload
from ._mesh import DeviceMesh, PartitionSpec, ShardingSpec
from ._nabla import DType, Size, Tensor
from .compiled import IR
from .typing import ArrayLike, DTypeLike, StrPath

class Spec:
    shape: tuple[Size, ...]
    dtype: DType
    sharding: ShardingSpec | None
    memory: Literal["device", "host"]
    def __init__(
        self, shape: Sequence[Size] = (), dtype: DTypeLike | None = None,
        sharding: ShardingSpec | tuple[DeviceMesh, PartitionSpec] | None = None,
        memory: Literal["device", "host"] = "device"
    ) -> None: ...

def spec(
    shape: Sequence[Size] | ArrayLike = (), dtype: DTypeLike | None = None,
    sharding: ShardingSpec | tuple[DeviceMesh, PartitionSpec] | None = None,
    memory: Literal["device", "host"] = "device"
) -> Spec: ...
def symbol(name: str, min: int, max: int, multiple: int = 1) -> Size: ...

class ExportedProgram:
    def __init__(self, program: Any, signatures: Any) -> None: ...
    def save(self, path: StrPath) -> ExportedProgram: ...
    @property
    def text(self) -> IR: ...

def export(
    entries: Mapping[str, Callable[..., Any]], state: Any = None, args: Mapping[str, Any] | None = None
) -> ExportedProgram: ...

class Bundle:
    path: str
    def __init__(self, native: Any, path: str, ranks: str = "") -> None: ...
    @property
    def entries(self) -> dict[str, dict[str, dict[str, str]]]: ...
    def run(self, entry: str, *args: Any, **inputs: Any) -> dict[str, Tensor]: ...
    @property
    def state(self) -> dict[str, str]: ...
    def get_state(self, name: str) -> Tensor: ...
    def set_state(self, name: str, value: ArrayLike) -> None: ...
    def load_state(self, path: StrPath) -> None: ...
    def save_state(self, path: StrPath) -> None: ...
    def load_weights(self, path: StrPath, maps: Sequence[str] = (), partial: bool = False) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def arena_bytes(self) -> int: ...

@overload
def compile_bundle(
    program: ExportedProgram, path: StrPath, target: str = "cpu", library: bool = True, max_bytes: str | None = None,
    load: Literal[True] = True, tf32: bool = False, tuning: StrPath | None = None, buckets: Sequence[str] = (),
    specialize: Sequence[str] = (), mesh: Mapping[str, int] | DeviceMesh | None = None,
    layouts: Mapping[str, Sequence[str | Sequence[str] | None]] | None = None, data_axes: str | Sequence[str] = (),
    zero: Literal[0, 1, 2, 3] = 0, zero_axes: str | Sequence[str] = (), microbatches: int | None = None,
    grad_sync: Literal["last", "each"] | None = None, auto_shard: bool = False, reshard_after_forward: bool = True,
    max_comm_bytes: str | int | None = None, deterministic: bool = False,
    offload: Literal["none", "opt", "params", "all"] = "none", remat_bytes: str | int | None = None,
    allow_padding: bool = True, prefetch: int | None = None, reduce_dtype: DTypeLike | None = None,
    allow_idle_axes: bool = False, max_gather_bytes: str | int | None = None
) -> Bundle: ...
@overload
def compile_bundle(
    program: ExportedProgram, path: StrPath, target: str = "cpu", library: bool = True, max_bytes: str | None = None,
    *, load: Literal[False], tf32: bool = False, tuning: StrPath | None = None, buckets: Sequence[str] = (),
    specialize: Sequence[str] = (), mesh: Mapping[str, int] | DeviceMesh | None = None,
    layouts: Mapping[str, Sequence[str | Sequence[str] | None]] | None = None, data_axes: str | Sequence[str] = (),
    zero: Literal[0, 1, 2, 3] = 0, zero_axes: str | Sequence[str] = (), microbatches: int | None = None,
    grad_sync: Literal["last", "each"] | None = None, auto_shard: bool = False, reshard_after_forward: bool = True,
    max_comm_bytes: str | int | None = None, deterministic: bool = False,
    offload: Literal["none", "opt", "params", "all"] = "none", remat_bytes: str | int | None = None,
    allow_padding: bool = True, prefetch: int | None = None, reduce_dtype: DTypeLike | None = None,
    allow_idle_axes: bool = False, max_gather_bytes: str | int | None = None
) -> str: ...
def load_bundle(path: StrPath, threads: int = 0, target: str = "", check_nan: bool = False,
                rank_class: str = "", engine: Literal["local", "mpi"] | None = None) -> Bundle: ...
