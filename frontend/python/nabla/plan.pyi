"""Types of nabla.plan, which //tests/python:types_test holds to the module."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from .export import ExportedProgram
from .typing import StrPath

class Plan:
    rows: list[dict[str, Any]]
    def __init__(self, rows: list[dict[str, Any]], text: str) -> None: ...

def plan(
    program: ExportedProgram, ranks: int, axes: str | Sequence[str] = (), data_axes: str | Sequence[str] = (),
    entry: str = "", target: str = "cpu", layouts: Mapping[str, Sequence[str | Sequence[str] | None]] | None = None,
    microbatches: int | None = None, max_bytes: int | str | None = None,
    offload: Literal["none", "opt", "params", "all"] = "none", tuning: StrPath | None = None
) -> Plan: ...
