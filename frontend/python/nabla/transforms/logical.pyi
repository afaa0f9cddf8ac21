"""Types of nabla.transforms.logical, which //tests/python:types_test holds to the module."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from .._mesh import DeviceMesh, PartitionSpec
from .._nabla import Tensor
from ..typing import ArrayLike

_Rules = Iterable[tuple[str, str | Sequence[str] | None]]

def logical_axis_rules(rules: _Rules) -> AbstractContextManager[None]: ...
def logical_to_mesh_axes(
    names: Iterable[str | None], rules: _Rules | None = None, mesh: DeviceMesh | None = None
) -> PartitionSpec: ...
def with_logical_constraint(
    x: ArrayLike, names: Sequence[str | None], mesh: DeviceMesh, rules: _Rules | None = None,
    on_indivisible: str = "drop"
) -> Tensor: ...
