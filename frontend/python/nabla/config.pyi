"""Types of nabla.config, which //tests/python:types_test holds to the module."""

from contextlib import AbstractContextManager

from ._nabla import DType
from .devices import Device

# Read as attributes; the first two are set, too.
log_compiles: bool
full_tracebacks: bool
default_dtype: DType
default_device: Device
TRACING: bool

def is_tracing() -> bool: ...
def set_eager_max_graph(value: int) -> None: ...
def set_verify_eager_shapes(value: bool) -> None: ...
def eager_max_graph_context(value: int) -> AbstractContextManager[None]: ...
def verify_eager_shapes_context(value: bool) -> AbstractContextManager[None]: ...
